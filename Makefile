# Needs nothing but Python 3.11 or newer with pip; `make demo PYTHON=python3.12` names another one.
PYTHON ?= python3
PYTEST_ARGS ?=
WORKERS ?= 2

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test unit unit-again integration chaos simulate mutants fuzz check clean

demo: .venv/demo.stamp
	$(BIN)/streamshard demo

test: unit unit-again integration

PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS)

unit: .venv/dev.stamp
	PYTHONHASHSEED=0 $(PYTEST) tests/unit --dist worksteal --cov=streamshard.core --cov-fail-under=95 $(PYTEST_ARGS)

# Under another hash seed: nothing may depend on the order of a set of strings.
unit-again: .venv/dev.stamp
	PYTHONHASHSEED=1 $(PYTEST) tests/unit --dist worksteal $(PYTEST_ARGS)

integration: .venv/dev.stamp
	$(PYTEST) tests/integration tests/exhaustive --dist worksteal $(PYTEST_ARGS)

# Minutes of kill -9, cut connections and failovers; CHAOS_ARGS="--setting cluster --seed 7" repeats what failed.
CHAOS_ARGS ?=
chaos: .venv/dev.stamp
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

# New seeds of every profile, for as long as it may take; see docs/explanation/how-we-test.md.
MINUTES ?= 10

simulate: .venv/demo.stamp
	$(BIN)/streamshard simulate --minutes $(MINUTES) --report

# Each rule broken once; fails if nothing notices one of them. MUTANTS="a_join_releases" tries only those named.
MUTANTS ?=
mutants: .venv/dev.stamp
	$(BIN)/python -m tests.mutants $(MUTANTS)

# Readers of foreign bytes for FUZZ_SECONDS each (guided by atheris where that is installed), then sockets.
FUZZ_SECONDS ?= 30
fuzz: .venv/dev.stamp
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)
	STREAMSHARD_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -s tests/integration/fuzz/test_raw_sockets.py

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv build dist .coverage coverage.xml
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is newer than pyproject.toml once what it asks for is installed.
.venv/demo.stamp: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[all]'
	@touch $@

.venv/dev.stamp: pyproject.toml | .venv/bin/python
	$(PIP) --editable '.[all,dev]'
	@touch $@ .venv/demo.stamp

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "streamshard needs Python 3.11 or newer, but '$(PYTHON)' is" \
	        "$$($(PYTHON) --version 2>/dev/null || echo 'not to be found')" \
	        "- name another one: make $(or $(MAKECMDGOALS),demo) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }
