# `make demo` and `make test` need only Python >= 3.11, git >= 2.39 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Three on two cores: some tests wait for a time limit.
PYTEST := $(BIN)/pytest -n 3 --dist worksteal

.PHONY: test quick lint types unit full fuzz crash crash-agent attacks at-once remotes faults records year reliability tables demo bench bench-full bench-year bench-runtime clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,all]'
	touch $@

test: lint types unit

# Lint, types, contracts, the pure tests with few examples, and one loop through the command line.
quick: lint types
	TEST_PROFILE=quick $(PYTEST) -n 2 -m 'quick and not full'

lint: $(STAMP)
	$(BIN)/ruff check cn tests demo docs benchmarks
	$(BIN)/ruff format --check cn tests demo docs benchmarks
	$(BIN)/lint-imports --no-cache

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(PYTEST)

# The rest of what `make test` has a slice of, and the long harnesses (kills at every instant, floods): hours.
full: $(STAMP)
	$(PYTEST) -m full

# Parsers against bytes that nobody would write: many examples, minutes. Finds are kept in tests/corpus/fuzz.
fuzz: $(STAMP)
	TEST_FUZZ=$(or $(EXAMPLES),20000) TEST_FIGURES=$(FOLDER) $(BIN)/pytest -n 2 -s tests/fuzz

# The harnesses of docs/reliability.md, and its table from what they wrote. Hours for all of them;
# TEST_SLICE=0:10 takes every tenth kill.
FIGURES ?= build/figures
# Tests stand in a folder of their own.
FOLDER = $(abspath $(FIGURES))
HARNESS = TEST_FIGURES=$(FOLDER) $(BIN)/pytest -n 2 -s -m full

crash: $(STAMP)
	$(HARNESS) tests/reliability/test_crash.py
	$(HARNESS) tests/reliability/test_machine_faults.py -k signal

crash-agent: $(STAMP)
	$(HARNESS) tests/reliability/test_agent_crash.py tests/reliability/test_runtime_crash.py tests/reliability/test_runtime_chaos.py

attacks: $(STAMP)
	TEST_FIGURES=$(FOLDER) $(BIN)/pytest -n 2 -s -m 'full or not full' tests/attacks

at-once: $(STAMP)
	$(HARNESS) tests/reliability/test_at_once.py

remotes: $(STAMP)
	$(HARNESS) tests/reliability/test_faulty_remotes.py

faults: $(STAMP)
	$(HARNESS) tests/reliability/test_machine_faults.py -k room

records: $(STAMP)
	$(HARNESS) tests/agency/store

year: $(STAMP)
	$(HARNESS) tests/reliability/test_long_run.py

reliability: $(STAMP)
	$(BIN)/python docs/reliability.py $(FOLDER)

# The tables of docs/protocol/state-machines.md, and the picture and table of docs/architecture.md, from the code.
tables: $(STAMP)
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/architecture.py

demo: $(STAMP)
	$(BIN)/python demo/demo.py

# Every cheap path and the bulk ones beside their floors; writes benchmarks/RESULTS.md. The full one
# takes the large sizes too, and 120 days for its growth; bench-year lives through a year.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

bench-full: $(VENV)/.bench
	$(BIN)/python -m benchmarks --full

bench-year: $(VENV)/.bench
	$(BIN)/python -m benchmarks growth --size 365

$(VENV)/.bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,all,bench]'
	touch $@

# Latency, memory and losses of the runtime. Some minutes; a quiet machine tells more.
bench-runtime: $(STAMP)
	$(BIN)/python benchmarks/runtime.py

clean:
	rm -rf $(VENV) build dist
