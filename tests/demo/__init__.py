"""The demonstration, played as a newcomer plays it."""
