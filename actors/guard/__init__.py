"""Guardrails as a pure library: profiles, personal data, delimiters, injection signals, and where values come from."""
