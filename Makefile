# Needs nothing but Python 3.11 or newer with pip; `make demo PYTHON=python3.12` names another one.
PYTHON ?= python3
PYTEST_ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check clean

demo: .venv/demo.stamp
	$(BIN)/streamshard demo

# The unit tests run under two hash seeds: nothing may depend on the order of a set of strings.
test: .venv/dev.stamp
	PYTHONHASHSEED=0 $(BIN)/python -m pytest tests/unit --cov=streamshard.core --cov-fail-under=95 $(PYTEST_ARGS)
	PYTHONHASHSEED=1 $(BIN)/python -m pytest tests/unit $(PYTEST_ARGS)
	$(BIN)/python -m pytest tests/integration $(PYTEST_ARGS)

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
