"""Operating a system: daemon, metrics, inspector, command line, on real processes and by hand-driven time."""
