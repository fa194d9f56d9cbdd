# Every target works on a bare machine that has Python >= 3.11 and make: it first makes .venv as the lock files say,
# which is done at once when nothing changed. ARGS is handed on: make test ARGS="-k fence".

.DEFAULT_GOAL := help
.PHONY: help setup demo test check tui bench chaos soak mutations evals lock clean

PYTHON ?=
BIN := .venv/bin

# $(call part,FILE,WHAT): a target whose part is not in this checkout says so in one line and exits 2
part = @test -e $(1) || { echo "make $@: $(1) is missing: $(2) is not part of this checkout." >&2; exit 2; }

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: ## make .venv as the lock files say
	@PYTHON="$(PYTHON)" .ci/setup

demo: setup ## a support desk on real data: a node is killed mid-refund, a human approves, one refund exists
	@$(BIN)/callboard demo $(ARGS)

# -n auto: see tests/distribution.py; ARGS="-n 0" or "--pdb" is one process. Hundreds of processes are started here, and
# without byte code each of them would compile what it imports: where the environment forbids writing it, this does not.
# SHAKE=1 adds random delays everywhere, to find tests that trust the machine's pace: see tests/shaking.
test: export PYTHONDONTWRITEBYTECODE :=
ifdef SHAKE
test: export SHAKE := $(SHAKE)
test: export PYTHONPATH := $(CURDIR)/tests/shaking
endif
test: setup ## all tests, PostgreSQL included, in as many processes as there are cores (ARGS="-n 0": in one)
	$(BIN)/python -m pytest -n auto --dist loadfile --max-worker-restart 0 $(ARGS)

check: setup ## the fast gate: format, lint, types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

tui: setup ## the terminal user interface, on a desk with agents at work (ARGS="--dsn ...": on a fresh database there)
	@$(BIN)/callboard tui --demo $(ARGS)

bench: setup ## every bench in short, and ours beside others (FULL=1: in full, with docs/BENCHMARKS.md made anew)
	$(call part,bench/__main__.py,the benchmark)
	$(BIN)/python -m bench all $(if $(FULL),,--quick) $(ARGS)

chaos: setup ## a desk whose nodes are killed, frozen, cut off and starved for a minute; then all is counted
	$(call part,bench/__main__.py,the chaos run)
	$(BIN)/python -m bench chaos $(ARGS)

soak: export PYTHONDONTWRITEBYTECODE :=
soak: setup ## the long storms: ten minutes of chaos with a kill every second (ARGS), five of daemons, the long tests
	$(call part,bench/__main__.py,the soak run)
	$(BIN)/python -m bench chaos --seconds 600 --nodes 5 --kill-every 1 $(ARGS)
	$(BIN)/python -m bench soak
	$(BIN)/python -m pytest -n auto --dist loadfile --max-worker-restart 0 --storms=only

mutations: setup ## break each guarantee on purpose, and see the tests notice (ARGS="G3": those of one)
	$(BIN)/python -m tests.mutations $(ARGS)

evals: setup ## is the agent good, safe and cheap?
	@$(BIN)/callboard eval $(ARGS)

lock: setup ## resolve the dependencies anew and pin them with hashes
	.ci/lock

clean: ## remove .venv and caches; data stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
