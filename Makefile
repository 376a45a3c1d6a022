# The commands of the house. `make help` lists them.

PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
UV_VENV := .uv
UV_VERSION := 0.13.9

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint unit drills bench patches lock clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

venv: $(INSTALLED) ## the virtual environment, from the lock file

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one: make venv PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing the locked packages into $(VENV) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

demo: venv ## kill workers in the middle of tools, let a call wait for CI with none up, and see what became of it
	$(BIN)/tarry demo

# Tests wait more than they work; the tests of one file stay together, with their servers.
test: lint ## everything: static checks, then all tests
	$(BIN)/pytest -n 3 --dist loadfile

lint: venv ## the static checks alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

unit: venv ## the tests that start no server
	$(BIN)/pytest tests/unit tests/activity tests/replay

drills: venv ## the tests that kill processes
	$(BIN)/pytest tests/drills

bench: venv ## what a run, a long conversation, parked work and subagents cost here
	$(BIN)/python bench/run_cost.py
	$(BIN)/python bench/long_conversation.py
	$(BIN)/python bench/parked.py
	$(BIN)/python bench/subagents.py

patches: venv ## which guards of changed workflows are due to go
	@$(BIN)/python -m workers.patches

# Keeps the versions that are locked; delete requirements.lock first to move all of them.
lock: ## write requirements.lock anew from pyproject.toml
	$(PYTHON) -m venv $(UV_VENV)
	$(UV_VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
		--no-header --output-file requirements.lock pyproject.toml

clean: ## remove environments, caches and builds; state in .tarry stays
	rm -rf $(VENV) $(UV_VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
