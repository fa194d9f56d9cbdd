"""Tests, named by the guarantee they hold; they may import everything."""
