# `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV ?= .venv
cluster := tests/cluster/cluster
crd := charts/encoderpool/files/encoderpools.yaml
quick := tests/unit tests/property tests/contract tests/http
export PATH := $(abspath $(VENV))/bin:$(PATH)
truncating := server-with-test-encoder tests/e2e/truncating_encoder
redis := redis tests/e2e/redis
step := . scripts/step.sh; step
# Clones share it: a type checker that has read torch once need not read it again.
mypy_cache := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/encoderpool/mypy
# The end-to-end tests enter the project's own cluster, unless the environment allows another one.
enter := $(if $(ENCODERPOOL_E2E_CONTEXTS),,$(cluster) run)

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: venv
venv: ## Make the Python environment from constraints/dev.txt (VENV=.venv)
	@scripts/venv $(VENV)

.PHONY: check
check: venv ## Lint, types, import rules and the tests that need neither torch nor a cluster
	@$(step) "ruff check" ruff check --quiet .
	@$(step) "ruff format" ruff format --quiet --check .
	@$(step) "mypy" mypy --cache-dir $(mypy_cache) encoder_server operator/encoder_operator tests examples
	@$(step) "lint-imports" lint-imports
	@if command -v shellcheck >/dev/null; then $(step) "shellcheck" scripts/shell-lint; fi
	@$(step) "quick tests" pytest -q $(wildcard $(quick))

.PHONY: test
test: ## Everything: packages, check, the engine's tests, and a real cluster, started anew, with the e2e tests
	@$(cluster) packages
	@$(MAKE) check
	@$(step) "engine tests" pytest -q tests/engine
	@$(step) "conformance tests" pytest -q tests/conformance
	@$(cluster) fresh
	@$(cluster) image $(truncating)
	@$(cluster) image $(redis)
	@$(cluster) prometheus
	@$(step) "end-to-end tests" $(cluster) run pytest tests/e2e

.PHONY: e2e
e2e: ## Only the end-to-end tests, on the cluster that is up or one that ENCODERPOOL_E2E_CONTEXTS allows
	@$(enter) kubectl version >/dev/null
	@$(MAKE) venv
	@$(step) "end-to-end tests" $(enter) pytest tests/e2e

.PHONY: kind-test
kind-test: ## The end-to-end tests on a kind cluster: needs a Docker engine and kind
	@tests/kind/kind needs
	@$(MAKE) venv
	@tests/kind/kind test

# Each takes turns with its ceiling for ROUNDS rounds of SECONDS: about 12 minutes, and memory's ten on top.
.PHONY: bench-server
bench-server: venv ## The server's speed beside ceilings and peers (ONLY="cached fresh" ROUNDS=3 BY=cpu MEMORY_SECONDS=60)
	@command -v wrk >/dev/null || { echo "bench-server: missing on this machine: wrk (Debian package: wrk)" >&2; exit 1; }
	@scripts/peers .bench
	@python -m tests.bench --by $(or $(BY),rate) --rounds $(or $(ROUNDS),5) --seconds $(or $(SECONDS),5) \
	  --memory-seconds $(or $(MEMORY_SECONDS),600) $(if $(OUT),--out $(OUT)) --only $(ONLY)

.PHONY: demo
demo: ## Set everything up, then show a pool that notices, cordons and repairs; the cluster stays up
	@$(MAKE) cluster-up
	@PYTHONPATH=. $(cluster) run python scripts/demo.py

.PHONY: demo-down
demo-down: cluster-down ## Stop what `make demo` left running

.PHONY: cluster-up
cluster-up: ## A cluster with the images and Prometheus: quick where it is there already
	@$(cluster) packages
	@$(MAKE) venv
	@$(cluster) up
	@$(cluster) image $(truncating)
	@$(cluster) image $(redis)
	@$(cluster) prometheus

.PHONY: cluster-down
cluster-down: ## Stop the cluster; its image store stays
	@$(cluster) down

.PHONY: images
images: ## Build the images and put them into the running cluster, only what changed
	@$(cluster) image $(truncating)
	@$(cluster) image $(redis)

.PHONY: pins
pins: ## Write constraints/ anew from pyproject.toml (UPGRADE=1: newest versions)
	@scripts/pins $(if $(UPGRADE),--upgrade)

.PHONY: crds
crds: ## Copy the one source of the schema into the chart
	@mkdir -p $(dir $(crd))
	@cp crds/encoderpools.yaml $(crd)
