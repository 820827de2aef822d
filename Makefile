# Two commands for a fresh machine: `make reproduce` and `make test`. Both make .venv and install what they need into it.
PYTHON ?= python3
OUT ?= results
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: reproduce test attack bench browser docs tables package clean
.DELETE_ON_ERROR:

reproduce: .venv/core
	$(BIN)/saccade reproduce --out $(OUT)

test: .venv/test browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder  # two processes on two cores: their threads would only wait

# The attacks of tests/attack at full size: fuzzed command lines, flipped bits, kills, full disks, bombs. Root gives its rights away.
attack: .venv/test
	SACCADE_ATTACK=full $(BIN)/python -m pytest tests/attack -n 2 --dist loadfile --durations 0

# A browser for the tests of the pages: one that is there, else Debian's where we are root; without one those tests say that they skip.
browser:
	@[ -n "$$SACCADE_CHROMIUM" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	|| echo "no Chromium was found and none could be installed: the browser tests will be skipped"

# Wheel and sdist in clean environments, with the oldest versions we say we support and the newest there are.
package: .venv/test
	$(BIN)/python -m tools.package

# The tables and pages that are made from claims, from what `saccade reproduce` and `saccade reproduce --real` left in $(OUT).
tables: .venv/core
	$(BIN)/python -m tools.readme_tables README.md docs/outcomes.json $(OUT)
	cp $(OUT)/errata.md docs/errata.md
	[ ! -f $(OUT)/findings.md ] || cp $(OUT)/findings.md docs/findings.md

docs: .venv/test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(OUT)/site

bench: .venv/test
	$(BIN)/python -m benchmarks

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Saccade needs Python 3.11 or newer; set PYTHON=/path/to/one")'
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[all,dev]'
	touch $@ .venv/core

clean:
	rm -rf .venv dist $(OUT) .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
