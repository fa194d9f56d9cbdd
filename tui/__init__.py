"""Look and decide: the terminal user interface over service.operations."""
