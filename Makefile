# `make demo` and `make test` need only Python >= 3.11, git >= 2.39 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Three on two cores: some tests wait for a time limit.
PYTEST := $(BIN)/pytest -n 3

.PHONY: test quick lint types unit full fuzz growth crash crash-agent attacks at-once remotes faults records simulation year reliability tables demo bench bench-full bench-year bench-runtime bench-server screenshots agents bench-agents clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,all]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary sandlock -e '.[sandlock]' || echo 'without sandlock: its tests are skipped'
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
full: $(VENV)/.claude $(VENV)/.inspector
	$(PYTEST) -m full

# Brings the program of Claude Code, 380 MB, which a runner's tests start offline.
$(VENV)/.claude: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,all,claude]'
	touch $@

# Parsers against bytes that nobody would write: many examples, minutes. Finds are kept in tests/corpus/fuzz.
fuzz: $(STAMP)
	TEST_FUZZ=$(or $(EXAMPLES),20000) TEST_FIGURES=$(FOLDER) $(BIN)/pytest -n 2 -s tests/fuzz

# Whole runs with more and more of one thing, by processor time: minutes.
growth: $(STAMP)
	TEST_FIGURES=$(FOLDER) $(BIN)/pytest -n 2 -s -m 'full or not full' tests/reliability/test_growth_of_runs.py

# Brings the Inspector, a client of MCP that nobody here wrote, 150 MB, where npm is; its tests are skipped elsewhere.
$(VENV)/.inspector: $(STAMP)
	npm install --silent --no-fund --no-audit --prefix $(VENV)/inspector @modelcontextprotocol/inspector || echo 'without the MCP Inspector: its tests are skipped'
	touch $@

# The harnesses of docs/reliability.md, and its table from what they wrote. Hours for all of them;
# TEST_SLICE=0:10 takes every tenth kill.
FIGURES ?= build/figures
# Tests stand in a folder of their own.
FOLDER = $(abspath $(FIGURES))
HARNESS = TEST_FIGURES=$(FOLDER) $(BIN)/pytest -n 2 -s -m full

crash: $(STAMP)
	$(HARNESS) tests/reliability/test_crash.py
	$(HARNESS) tests/reliability/test_machine_faults.py -k signal
	$(HARNESS) tests/reliability/test_deaf_children.py

crash-agent: $(STAMP)
	$(HARNESS) tests/reliability/test_agent_crash.py tests/reliability/test_runtime_crash.py tests/reliability/test_runtime_chaos.py

attacks: $(STAMP)
	TEST_FIGURES=$(FOLDER) $(BIN)/pytest -n 2 -s -m 'full or not full' tests/attacks tests/reliability/test_killer_inputs.py

at-once: $(STAMP)
	$(HARNESS) tests/reliability/test_at_once.py tests/reliability/test_conversations.py tests/reliability/test_showings.py

remotes: $(STAMP)
	$(HARNESS) tests/reliability/test_faulty_remotes.py

faults: $(STAMP)
	$(HARNESS) tests/reliability/test_machine_faults.py -k room

records: $(STAMP)
	$(HARNESS) tests/agency/store tests/agency/test_command_kills.py

# A thousand handlers for a week of set-forward time, killed every few seconds: minutes. TEST_HANDLERS, TEST_DAYS.
simulation: $(STAMP)
	$(HARNESS) tests/agency/test_simulation.py

agents: $(STAMP)
	$(HARNESS) tests/reliability/test_agents_crash.py

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

# The pages of cn web as pictures, in build/screenshots, and those of the documentation. It needs chromium.
screenshots: $(STAMP)
	$(BIN)/python demo/screenshots.py build/screenshots docs

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

# Agency's server beside an empty tool of the same library; writes benchmarks/RESULTS-server.md.
bench-server: $(STAMP)
	$(BIN)/python benchmarks/agency_server.py

# How long a message waits for an agent; printed.
bench-agents: $(STAMP)
	$(BIN)/python benchmarks/agency_agents.py

clean:
	rm -rf $(VENV) build dist
