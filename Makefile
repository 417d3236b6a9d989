# Everything happens in .venv, which `make install` creates; every other verb calls it first.

PYTHON ?= python3
# As many processes as there are cores, at most 2: another number is `make demo JOBS=8`.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ "$$n" -gt 2 ] && n=2; echo $$n)

BIN := .venv/bin
INSTALLED := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help install demo test tests lint bench docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED)  ## create .venv with all that the other verbs need

demo: $(INSTALLED)  ## levelfield compare demo: ten methods on the embedded images
	$(BIN)/levelfield compare demo --jobs $(JOBS)

test: $(INSTALLED)  ## lint and all tests and examples, at the same time
	@$(MAKE) --no-print-directory --jobs 2 lint tests

# One thread per test process: the processes share the cores, and small matrices gain nothing from more.
tests: export OMP_NUM_THREADS := 1
tests: export OPENBLAS_NUM_THREADS := 1
tests: export MKL_NUM_THREADS := 1
tests: $(INSTALLED)
	$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

lint: $(INSTALLED)  ## ruff, mypy and the layers contract
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED)  ## speed of the training loop, the cache, every objective and method, batching, the evaluation and reports, as ratios; error rates of the verdicts
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/objectives.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/batching.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/calibration.py
	$(BIN)/python benchmarks/report.py

docs: $(INSTALLED)  ## write the tables of docs/ anew from the code, and draw the pictures that no longer fit it
	$(BIN)/python docs/draw.py
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/pml.py

clean:  ## remove what the tools left behind; .venv and runs/ stay
	rm -rf build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
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
