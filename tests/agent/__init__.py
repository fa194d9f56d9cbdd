"""Tools and runs of agents."""
