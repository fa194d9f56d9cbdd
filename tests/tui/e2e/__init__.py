"""The terminal UI on real processes, a real database and a real terminal."""
