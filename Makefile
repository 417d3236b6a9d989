# Everything happens in .venv, which `make install` creates; every other verb calls it first.

PYTHON ?= python3
# As many processes as there are cores, at most 2: another number is `make demo JOBS=8`.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ "$$n" -gt 2 ] && n=2; echo $$n)

BIN := .venv/bin
INSTALLED := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help install demo check test fast tests fuzz lint bench docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED)  ## create .venv with all that the other verbs need

demo: $(INSTALLED)  ## levelfield compare demo: ten methods on the embedded images
	$(BIN)/levelfield compare demo --jobs $(JOBS)

check: $(INSTALLED)  ## lint and the tests of tests/fast.txt, at the same time, in a minute: while you work
	@$(MAKE) --no-print-directory --jobs 2 lint fast

test: $(INSTALLED)  ## lint and all tests and examples, at the same time: before a change is handed in
	@$(MAKE) --no-print-directory --jobs 2 lint tests

# Tests start many processes, each of which would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE
# One thread per test process: the processes share the cores, and small matrices gain nothing from more.
fast tests: export OMP_NUM_THREADS := 1
fast tests: export OPENBLAS_NUM_THREADS := 1
fast tests: export MKL_NUM_THREADS := 1
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

fast: $(INSTALLED)
	$(PYTEST) -q @tests/fast.txt

# The tests of types are left to lint, whose mypy has just read all that they need. Coverage is measured in the tests of
# tests/fast.txt only (see tests/conftest.py): in all of them it would cost half of their time again.
tests: $(INSTALLED)
	$(PYTEST) --ignore=tests/test_types.py --cov --cov-report=
	@echo "Lines of src/levelfield that the tests of tests/fast.txt ran: $$($(BIN)/coverage report --format=total) % (which: $(BIN)/coverage html)"

fuzz: $(INSTALLED)  ## the property-based tests with new random examples, and more of them
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) -q $$(grep -rl "from hypothesis" tests --include='test_*.py')

lint: $(INSTALLED)  ## ruff, mypy (also on a user's script) and the layers contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_types.py
	$(BIN)/lint-imports

bench: $(INSTALLED)  ## speed of the training loop, the cache, every objective and method, batching, the evaluation and reports, as ratios; error rates of the verdicts
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/objectives.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/batching.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/calibration.py
	$(BIN)/python benchmarks/report.py

docs: $(INSTALLED)  ## write the tables of docs/ and the names for type checkers anew from the code, and draw the pictures that no longer fit it
	$(BIN)/python docs/typed.py
	$(BIN)/python docs/draw.py
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/pml.py

clean:  ## remove what the tools left behind; .venv and runs/ stay
	rm -rf build dist src/*.egg-info .coverage htmlcov .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

# torch comes first and by name, so that its pinned version is settled before anything else could ask for another.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "levelfield needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make install PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv; the first time this takes a few minutes."
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[demo,dev,tensorboard]'
	@touch $@
