SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'Klamm needs Python 3.11 or newer; name it: make PYTHON=python3.11 ...'; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything that serving and testing need

.PHONY: format
format: $(STAMP) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

.PHONY: check
check: $(STAMP) ## Format, lint, types, layers, unit tests: green at every commit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/unit tests/architecture tests/differential -m 'not slow' -q -p no:cacheprovider

.PHONY: openapi
openapi: $(STAMP) ## Write openapi.json from the code
	$(BIN)/klamm openapi --output openapi.json

.PHONY: openapi-lint
openapi-lint: ## Lint openapi.json with spectral and redocly (needs node)
	npx --yes @stoplight/spectral-cli@6.16.3 lint openapi.json
	npx --yes @redocly/cli@2.77.0 lint openapi.json

.PHONY: run
run: $(STAMP) ## Serve on embedded PostgreSQL at 127.0.0.1:8080, with the example's ACLs and three decisions; Ctrl-C ends it
	@KLAMM_SUPER_USERS="$${KLAMM_SUPER_USERS-User:admin}" exec $(BIN)/klamm serve --example examples/acls.json

.PHONY: migrate
migrate: $(STAMP) ## Bring the database of KLAMM_DATABASE_URL to this version
	$(BIN)/klamm migrate

.PHONY: test
test: $(STAMP) ## The whole suite
	@$(BIN)/pytest -q

.PHONY: coverage
coverage: $(STAMP) ## The whole suite with branch coverage, processes included: core 100 %, overall 95 % or more
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include 'app/core/*' --fail-under 100
	$(BIN)/coverage report --fail-under 95

.PHONY: bench
bench: $(STAMP) ## Measure all that docs/benchmarks.md says, and write it; QUICK=1 for the short form, ONLY=http,writes for parts of it
	@$(BIN)/python -m tests.bench.run $(if $(filter 1,$(QUICK)),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(OUTPUT),--output $(OUTPUT))
