"""The command line, the daemon and what they share, by subprocess on a real PostgreSQL."""
