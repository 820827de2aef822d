# Two commands for a fresh machine: `make reproduce` and `make test`. Both make .venv and install what they need into it.
PYTHON ?= python3
OUT ?= results
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: reproduce test bench clean
.DELETE_ON_ERROR:

reproduce: .venv/core
	$(BIN)/saccade reproduce --out $(OUT)

test: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile  # two processes on two cores: their threads would only wait

bench: .venv/test
	$(BIN)/python -m benchmarks

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Saccade needs Python 3.11 or newer; set PYTHON=/path/to/one")'
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[torch,text,dev]'
	touch $@ .venv/core

clean:
	rm -rf .venv $(OUT) .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
