"""Rows of docs/COMPARISON.md that no other test proves: small looks from outside, named by their row."""
