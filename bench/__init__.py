"""How fast, and does it survive: benchmarks and chaos on real processes, run as `python -m bench` from the root."""
