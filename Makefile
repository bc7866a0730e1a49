# A fresh machine needs Python 3.11 (or 3.12) and make; everything else comes into .venv.

BIN := .venv/bin
UV_VERSION := $(shell sed -n '/^name = "uv"$$/{n;s/^version = "\(.*\)"$$/\1/p;}' uv.lock)
# Never another Python than the one found below, nor another place than .venv. It compiles what it
# installs, as pip does.
UV := UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv UV_COMPILE_BYTECODE=1 $(BIN)/uv --quiet
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Where this is set, each process would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := orchestrator ha placement streams topology foundation vivace pyspark_vivace
# Share the tests, which often wait.
PROCESSES := 4
JSON_FILE := $(if $(JSON),--json-file $(JSON))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup data demo test test-long check lint format monitoring monitoring-live rebalancing round-trip elsewhere simulate mutate fuzz fuzz-api clean

help: ## List the targets
	@echo 'make TARGET, where TARGET is one of'
	@sed -n 's/^\([a-z%-]*\):[^#]*## /\1	/p' Makefile | sed 's/%/NAME/' \
	    | while IFS='	' read -r target text; do printf '  %-11s %s\n' "$$target" "$$text"; done

setup: .venv/.synced ## Create .venv, with a Java runtime in it if the machine has none
	@$(BIN)/python -c 'from orchestrator.embedded.java import find_java; find_java()' 2>/dev/null \
	    || { echo 'No Java of version 17 or later here: installing one into .venv'; \
	         $(UV) sync --frozen --inexact --extra cluster --extra web --extra java; }
	@test .venv/.class-data -nt .venv/.synced || { \
	    echo 'Keeping class data, so that Spark and ZooKeeper start sooner: about a minute, once'; \
	    $(BIN)/python -m orchestrator.spark.hosts.class_data && touch .venv/.class-data; } \
	    || echo 'That failed; they start as they would without'

# Each host would compile the kernels for itself, had none been compiled before.
.venv/.synced: pyproject.toml uv.lock
	@test -x $(BIN)/uv || { \
	    for python in python3.11 python3.12 python3; do \
	        if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' \
	            2>/dev/null; then found=$$python; break; fi; \
	    done; \
	    test -n "$${found-}" || { echo 'make setup: no Python 3.11 or 3.12 on the PATH' >&2; exit 2; }; \
	    echo "Creating .venv with $$found, about a minute the first time"; \
	    "$$found" -m venv .venv && \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	@$(UV) sync --frozen --inexact --extra cluster --extra web
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@$(BIN)/python -c 'from streams.kernels import kernels; kernels.load()'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@touch $@

data: build/data/.fetched ## Fetch the examples' input into build/data

build/data/.fetched: examples/fetch.py examples/data.txt examples/collision_rounds.py | setup
	@$(BIN)/python examples/fetch.py
	@$(BIN)/python examples/collision_rounds.py
	@touch $@

demo: setup data ## Run the aircraft example with an executor killed; JSON=FILE keeps the verdict
	@$(BIN)/vivace demo $(JSON_FILE)

test: setup data ## Run all tests but the long ones; ARGS='-k NAME' and the like go to pytest, one process
	@$(BIN)/pytest $(or $(ARGS),-n $(PROCESSES))

test-long: setup data ## Run the tests that take long, which `make test` leaves out
	@$(BIN)/pytest -m long -n $(PROCESSES)

check: lint test ## What CI runs: lint, then test

lint: setup ## Check style, types, imports, vocabulary and class names
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check || { echo '`make format` reformats them' >&2; exit 1; }
	@said=$$($(BIN)/pyright) || { echo "$$said"; exit 1; }
	@said=$$($(BIN)/lint-imports --no-logo) || { echo "$$said"; exit 1; }
	@$(BIN)/python -m scripts.vocabulary
	@$(BIN)/python -m scripts.class_names
	@echo 'Style, types, imports, vocabulary and class names are in order'

format: setup ## Sort imports and reformat
	@$(BIN)/ruff check --quiet --select I --fix
	@$(BIN)/ruff format --quiet

monitoring: ## Check alert rules and play their tests, by Prometheus' promtool
	@if command -v promtool >/dev/null; then \
	    promtool check rules deploy/monitoring/alerts.yaml && \
	    promtool test rules deploy/monitoring/rules_test.yaml; \
	else \
	    echo 'The rules were not checked: no promtool on the PATH (Debian: apt-get install prometheus)'; \
	fi

monitoring-live: setup ## Faults on a cluster that a real Prometheus reads raise the alerts; ARGS='-k quiet'
	@$(BIN)/pytest -m round_trip tests/round_trip/test_monitoring.py -rs $(ARGS)

bench-%: setup ## Run the benchmark of that name; JSON=FILE keeps its figures, ARGS=--quick
	@$(BIN)/python -m bench run $* $(if $(JSON),--json $(JSON)) $(ARGS)

bench-drills: data

elsewhere: setup ## Every verb from a network namespace that reaches nothing but the HTTP API; takes root
	@$(BIN)/pytest -m round_trip tests/round_trip/test_elsewhere.py -rs $(ARGS)

REBALANCING := tests/property/placement/rebalancing tests/unit/placement/rebalancing \
	tests/unit/orchestrator/control/decide tests/unit/orchestrator/api/test_plan_files.py \
	tests/simulation/test_moving.py tests/simulation/test_rebalancing.py tests/functional/test_whatif.py

rebalancing: setup ## All tests of moves, plans of moves and what-if, the long ones too; ARGS='-k undo'
	@$(BIN)/pytest -m 'not round_trip' $(REBALANCING) $(ARGS)

round-trip: setup ## Results through Kafka and Spark while processes are killed; SEED=n, ARGS='-k kafka'
	@ROUND_TRIP_SEED=$(SEED) $(BIN)/pytest -m round_trip $(or $(ARGS),tests/round_trip)

simulate: setup ## Play random schedules of faults; SEEDS=300, FROM=0; ARGS='--kind crash'
	@$(BIN)/vivace simulate --seeds $(or $(SEEDS),300) --from $(or $(FROM),0) $(ARGS)

mutate: setup data ## Break the product one line at a time, and check that a test notices
	@$(BIN)/python -m scripts.mutate $(ARGS)

fuzz: setup ## Send two hosts random and damaged frames; SECONDS=60
	@$(BIN)/python -m scripts.fuzz $(or $(SECONDS),60) $(ARGS)

fuzz-api: setup ## Ask a cluster's HTTP API for all that its OpenAPI document permits; MINUTES=5
	@$(BIN)/python -m scripts.fuzz_api $(or $(MINUTES),5)

clean: ## Remove all that was built or fetched, but .venv
	@rm -rf build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
