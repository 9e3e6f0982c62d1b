.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
CLUSTER ?= demo
# What `make image` builds.
IMG ?= decisionmodel.local/reconciler:dev
# Where it is set, every process of the tests would compile the Pulumi SDK anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 15

demo: .venv packages ## everything from nothing to an answered request, on a real local cluster
	@$(PYTHON) -m tools.demo

check: .venv ## lint, types, import contracts and every quick test that needs no cluster
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy .
	.venv/bin/lint-imports
	.venv/bin/pytest -q -n 3 --dist worksteal -m "not cluster and not exhaustive"

# In the folders' order: by number of tests, the files with few and long ones would come last, and on one process.
test: check packages ## check, then exhaustive searches and the tests on a real cluster with the real Pulumi engine
	$(PYTHON) -m tools.toolchain build
	.venv/bin/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "cluster or exhaustive"

bench: .venv packages ## speed, measured side by side: rollouts and stack operations
	@$(PYTHON) -m tools.bench

image: .venv packages ## the reconciler's image, as an archive under .local/images
	@$(PYTHON) -m tools.images reconciler

cluster-up: .venv packages ## a local cluster (CLUSTER=demo)
	@$(PYTHON) -m tools.cluster up $(CLUSTER)

cluster-down: .venv ## end it: nothing runs on; its files stay under .local/demo for the next start
	@$(PYTHON) -m tools.cluster down $(CLUSTER)

deploy: .venv packages ## the platform on that cluster, by a real `pulumi up --stack dev`
	@$(PYTHON) -m tools.deploy --cluster $(CLUSTER) --stack dev

install-yaml: .venv ## the platform in one file for kubectl, .local/install.yaml (IMG=image)
	@$(PYTHON) -m tools.install_yaml --image $(IMG)

.venv: uv.lock pyproject.toml
	sh tools/bootstrap.sh
	@touch .venv

packages: .venv
	@$(PYTHON) -m tools.toolchain packages

.PHONY: help demo check test bench image cluster-up cluster-down deploy install-yaml packages
