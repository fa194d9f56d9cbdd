"""Guardrails: the pure library, and runs whose model is against us."""
