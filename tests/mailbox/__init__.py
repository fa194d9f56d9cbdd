"""Addresses, ids, bodies, message types and lane queues: pure values."""
