# All targets use .venv. `make demo` installs only what it runs; every other target needs `make install` and runs it first.

PYTHON ?= python3
# One process per core, at most 2; to change it: `make demo JOBS=8`.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ "$$n" -gt 2 ] && n=2; echo $$n)

BIN := .venv/bin
DEMO := .venv/demo
INSTALLED := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help install demo check check-data test fast tests coverage fuzz lint bench tables docs page wheel clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED)  ## create .venv with all requirements of the other targets

demo: $(DEMO)  ## levelfield compare demo: ten methods on the embedded images
	$(BIN)/levelfield compare demo --jobs $(JOBS)

check: $(INSTALLED)  ## lint and the tests of tests/fast.txt in parallel (a minute): run it while you work
	@$(MAKE) --no-print-directory --jobs 2 lint fast

test: $(INSTALLED)  ## lint, all tests and all examples in parallel: run it before you submit a change
	@$(MAKE) --no-print-directory --jobs 2 lint tests

# Tests start many processes, each of which would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE
# One thread per test process: the processes share the cores, and small matrices do not benefit from more threads.
coverage fast tests: export OMP_NUM_THREADS := 1
coverage fast tests: export OPENBLAS_NUM_THREADS := 1
coverage fast tests: export MKL_NUM_THREADS := 1
# One process more than cores: tests of clusters, browsers and killed processes wait for most of their time.
PYTEST := $(BIN)/pytest -n $$(($(JOBS) + 1)) --dist loadfile --no-loadscope-reorder

fast: $(INSTALLED)
	$(PYTEST) -q @tests/fast.txt

# `make lint` runs the type tests, because its mypy cache is warm.
tests: $(INSTALLED)
	$(PYTEST) --ignore=tests/test_types.py

coverage: $(INSTALLED)  ## the lines of src/levelfield that the tests of tests/fast.txt run, into htmlcov/
	$(PYTEST) -q --cov --cov-report=html --cov-report=term:skip-covered @tests/fast.txt

check-data: $(INSTALLED)  ## DATA=DIR: every paper's table that names CUB, on your copy of it, a few steps each (an hour)
	@test -n "$(DATA)" || { echo "Where is CUB_200_2011? make check-data DATA=DIR"; exit 1; }
	$(BIN)/python benchmarks/check_data.py "$(DATA)"

fuzz: $(INSTALLED)  ## the property-based tests with new and more random examples
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) -q $$(grep -rl "from hypothesis" tests --include='test_*.py')

lint: $(INSTALLED)  ## ruff, mypy (also on a user's script), the import layers, and links and navigation of the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_types.py
	$(BIN)/lint-imports
	$(BIN)/python docs/site/links.py

bench: $(INSTALLED)  ## speed ratios of the training loop, the loader, the cache, objectives, methods, batching, evaluation and reports; error rates of the verdicts
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/feeding.py
	$(BIN)/python benchmarks/objectives.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/batching.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/big_evaluation.py
	$(BIN)/python benchmarks/calibration.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/ship.py
	$(BIN)/python benchmarks/embedding_maps.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/page_browser.py
	$(BIN)/python benchmarks/tuning.py
	$(BIN)/python benchmarks/scale.py

tables: $(INSTALLED)  ## regenerate the tables of docs/, the names for type checkers and outdated pictures from the code
	$(BIN)/python tools/typed.py
	$(BIN)/python tools/draw.py
	$(BIN)/python tools/generate.py
	$(BIN)/python tools/fidelity.py
	$(BIN)/python tools/pml.py
	$(BIN)/python tools/walks.py --write

docs: tables  ## make tables, then build the documentation site into site/ (open site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in site/: open site/index.html."

# Users and tests need no Node: the built files are in the repository, and a test finds outdated ones.
page:  ## build the page of studies from page/src (needs Node 18 and npm)
	cd page && npm ci --no-audit --no-fund && npm run build

# The wheel is built from the sdist, so that both have everything.
wheel: $(INSTALLED)  ## build the sdist and the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean:  ## remove temporary files of the tools; keeps .venv and runs/
	rm -rf build dist site src/*.egg-info .coverage htmlcov .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

# Install torch first, so that no other package can select a different version.
$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "levelfield needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Use another version: make install PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv; the first time this takes a few minutes."
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[demo]'
	@touch $@

$(INSTALLED): $(DEMO)
	@echo "Installing the tools of the tests and of the documentation."
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[demo,dev,docs,lite1,lite2,mobilenetv2,tensorboard]'
	@sh tests/page/install_browser.sh
	@touch $@
