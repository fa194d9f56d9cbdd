"""Models, one vendor a file."""
