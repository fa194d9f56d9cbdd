"""Deterministic simulation: the whole runtime on the memory store, in one process, with one seed for everything."""
