# The same commands everywhere: a laptop, continuous integration, a fresh machine.
# Needs Python 3.11 or later with pip, and make; the rest goes into .venv.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python)
# The machine's own pip fills the environment, so that ensurepip is not needed.
# -qq also hushes warnings about local wheel directories that do not exist.
PIP = $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check --no-input -qq

# Give ARGS to the demo or to pytest, QUICK=1 to the benchmarks, JOBS to the tests.
ARGS ?=
QUICK ?=
JOBS ?= 2
export JOBS QUICK

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-long coverage lint docs bench dist lock clean

help:  ## Say what each command does
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/make \1|\2/p' Makefile | \
	while IFS='|' read -r command text; do printf '%-16s %s\n' "$$command" "$$text"; done

demo: $(VENV)/.package  ## Serve private answers on census rows; ARGS=--once ends by itself
	@$(BIN)/reticent demo $(ARGS)

test: $(VENV)/.package  ## Run the full suite, the checks of make lint included
	@scripts/test $(ARGS)

test-long: $(VENV)/.package  ## Run the simulations that take minutes
	@scripts/test -m long $(ARGS)

coverage: $(VENV)/.package  ## Run the suite and say which lines and branches it misses
	@scripts/coverage

lint: $(VENV)/.package  ## Check format, lint, types and import contracts
	@scripts/check

docs: $(VENV)/.package  ## Build the documentation into docs/_build/html
	@scripts/docs

bench: $(VENV)/.package  ## Run all benchmarks and compare with the last run; QUICK=1 for 5 minutes
	@scripts/bench

dist: $(VENV)/.package  ## Build the wheel and the source archive into dist
	@$(BIN)/python -m hatchling build

lock:  ## Resolve the dependencies again into requirements-dev.lock
	@$(PYTHON) -m venv --without-pip .venv-lock
	@$(PYTHON) -m pip --python .venv-lock/bin/python -qq install uv
	@.venv-lock/bin/uv pip compile pyproject.toml --all-extras --group dev \
	  --generate-hashes --no-strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	  --python-version 3.11 --output-file requirements-dev.lock --quiet

clean:  ## Remove the environment, caches and built documents
	@rm -rf $(VENV) .venv-lock .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -rf .import_linter_cache .coverage .coverage.* docs/_build docs/_generated build dist

$(VENV)/.dependencies: requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
	  "reticent needs Python 3.11 or later; set PYTHON=/path/to/python3.11")'
	@echo "Setting up $(VENV) (some minutes the first time) ..."
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

$(VENV)/.package: $(VENV)/.dependencies pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
