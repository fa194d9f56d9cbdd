"""Guarantees broken on purpose, to see that tests notice: `python -m tests.mutations`, or `make mutations`.

`of_guarantees` and `of_rules` have the mutations: a text of the program, what stands in its place, and the tests that
have to fail. `trial` makes each in a copy of the tree and runs those tests there. `results.json` says what came of it.
"""
