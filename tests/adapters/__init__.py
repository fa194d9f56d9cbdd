"""Loops and graphs of other people's making, hosted: replayed, fenced, held, resumed."""
