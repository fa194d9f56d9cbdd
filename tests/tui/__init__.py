"""The terminal UI, driven as a person drives it."""
