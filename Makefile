# Two commands for a fresh machine: `make reproduce` and `make test`. Both make .venv and install what they need into it.
PYTHON ?= python3
OUT ?= results
BIN := .venv/bin
COMPILED := hatch_build.py $(wildcard src/saccade/*/*_kernel.c)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

unexport PYTHONDONTWRITEBYTECODE  # or every process would compile the tests again

.PHONY: reproduce test checks tests oldest quick attack mutants zoo bench browser docs tables budget package clean
.DELETE_ON_ERROR:

reproduce: .venv/core
	$(BIN)/saccade reproduce --out $(OUT)

# Checks run beside the tests, and so do few tests with the oldest versions: most of that is waiting for the registry.
test: .venv/test browser
	@$(MAKE) --no-print-directory -j 3 checks tests oldest

checks: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Three processes for two cores (four take longer): in a third of their time they wait, for a browser or for processes of their own.
# Compiling is a third of the rest: code that runs for a moment is not optimised, but for the package's own training loop, which brings
# its options (engines/descent_scan.py) and is thus tested as users run it. Others may differ from theirs in the last digits.
XLA := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_multi_thread_eigen=false
tests: .venv/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 XLA_FLAGS="$$XLA_FLAGS $(XLA)" \
	$(BIN)/python -m pytest -r s -n 3 --dist loadfile --no-loadscope-reorder $(TESTS)

# For the inner loop: checks, and the tests of what everything else stands on.
QUICK := theories data models lab agreement $(addprefix records/test_,json_files.py settings.py store.py writing.py) \
	$(addprefix engines/test_,flow.py descent.py systems.py)
quick: .venv/test
	@$(MAKE) --no-print-directory -j 2 checks tests TESTS="$(addprefix tests/,$(QUICK))"

# The attacks of tests/attack at full size: fuzzed command lines, flipped bits, kills, full disks, bombs. Root gives its rights away.
# The seed is another one each time and is printed; SACCADE_ATTACK_SEED=... repeats it.
attack: .venv/test
	SACCADE_ATTACK=full $(BIN)/python -m pytest tests/attack -n 2 --dist loadfile --durations 0

# Plants bugs in a copy of the project, one at a time, and counts those that no test notices.
mutants: .venv/test
	$(BIN)/python -m tools.mutants

# Every architecture of the installed Transformers, tiny and random, watched and compared; the table of docs/models.md.
zoo: .venv/test
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m tools.zoo --write docs/models.md

# A browser for the tests of the pages: where we are root Debian's Chromium without windows, which needs half the time of one with
# them; else one that is there; without one those tests say that they skip.
browser:
	@[ -n "$$SACCADE_CHROMIUM" ] || command -v chromium-headless-shell >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium-headless-shell >/dev/null; } \
	|| command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| echo "no Chromium was found and none could be installed: the browser tests will be skipped"

oldest: .venv/test
	nice $(BIN)/python -m tools.package --oldest

# Wheel and sdist in clean environments, with the oldest versions we say we support and the newest there are.
package: .venv/test
	$(BIN)/python -m tools.package $(PACKAGE)

# The tables and pages that are made from claims, from what `saccade reproduce` and `saccade reproduce --real` left in $(OUT).
tables: .venv/core
	$(BIN)/python -m tools.results_tables $(OUT)
	$(BIN)/python -m tools.formulas_table
	[ ! -d $(OUT)/errata ] || cp $(OUT)/errata/errata.md docs/errata.md
	[ ! -d $(OUT)/findings ] || cp $(OUT)/findings/findings.md docs/findings.md
	[ ! -d $(OUT)/findings ] || cp $(OUT)/findings/figures/*.svg docs/figures/
	$(BIN)/python -m tools.docs_parts

# Syntax nodes, functions, public names, questions, claims and tokens a line, against what we allow ourselves.
budget: .venv/core
	$(BIN)/python -m tools.budget

docs: .venv/test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(OUT)/site

# All benchmarks, one after the other; then the tables and plots of docs/speed.md, also where a benchmark has failed.
bench: .venv/test
	$(BIN)/python -m benchmarks; code=$$?; $(BIN)/python -m tools.speed_table results/benchmarks && exit $$code

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Saccade needs Python 3.11 or newer; set PYTHON=/path/to/one")'
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml constraints.txt $(COMPILED)
	$(INSTALL) --editable .
	touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt $(COMPILED)
	$(INSTALL) --editable '.[all,dev]'
	touch $@ .venv/core

clean:
	rm -rf .venv dist $(OUT) .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
