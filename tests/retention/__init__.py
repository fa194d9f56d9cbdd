"""Retention: what is old goes, what is needed stays, and the archive comes first."""
