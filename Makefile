PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: run test check bench bench-locks docs requirements clean

run: $(READY)  ## set up; five nodes on this machine, workers that fight for a lock, one node killed
	$(BIN)/coterie demo

test: check  ## set up, check and test everything
	$(BIN)/pytest

check: $(READY)  ## format, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

bench: $(READY)  ## compare with peers, in the same run
	$(BIN)/python benchmarks/simulator_against_simpy.py
	$(BIN)/python benchmarks/hundred_thousand.py
	$(BIN)/python benchmarks/explorer_against_spin.py

bench-locks: $(READY)  ## our locks beside a bare lock table, and Redis if its server and client are there
	$(BIN)/python benchmarks/locks.py

docs: $(READY)  ## run everything that the docs show, and record it again
	$(BIN)/python docs/record.py

requirements: $(READY)  ## pin the newest versions of everything
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --universal --generate-hashes --upgrade --quiet \
		--custom-compile-command "make requirements" \
		--all-extras pyproject.toml requirements-build.in -o requirements.txt

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
