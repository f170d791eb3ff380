SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
SERVES := .venv/.serves
STAMP := .venv/.installed

# Tests start hundreds of processes; where bytecode may not be kept each would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ \
	  words = split($$2, word, " "); line = sprintf("  %-17s", $$1); \
	  for (at = 1; at <= words; at++) { \
	    if (length(line) + length(word[at]) > 79) { print line; line = sprintf("%19s", "") } \
	    line = line " " word[at] } \
	  print line }'

# Wheels only: a source distribution runs code of its own and fetches build tools that no hash covers. PySpark has no
# wheel: it comes after all others, built by the setuptools that is locked here, and so is Klamm itself.
# --no-deps: a lock is whole (gate/architecture/test_supply_chain.py). Asked for dependencies too, pip looks for the
# newest release of what another package wants with an extra, pytest-cov's coverage[toml], and refuses it for its hash.
# pip is not quiet: what it fetches and builds takes a minute or more, and must be seen to move.
LOCKED_ALONE = awk '/^[^ \t\#]/ { is = /^$(1)==/ } is' requirements-dev.lock
LOCKED_BUT = awk '/^[^ \t\#]/ { is = /^$(1)==/ } !is' requirements-dev.lock
INSTALL := install --disable-pip-version-check --require-hashes --no-deps --only-binary :all:

$(SERVES): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'Klamm needs Python 3.11 or newer; name it: make PYTHON=python3.11 ...'; exit 1; }
	@echo 'Setting up .venv with what serving needs; once'
	$(PYTHON) -m venv .venv
	{ cat requirements.lock; $(call LOCKED_ALONE,setuptools); } > .venv/serves.lock
	$(BIN)/pip $(INSTALL) --requirement .venv/serves.lock
	PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
	@touch $@

# The serving part has its own lock, which the other one holds as well: a change to either renews what it says.
$(STAMP): pyproject.toml requirements-dev.lock | $(SERVES)
	@echo 'Setting up .venv with what the tests and the pipeline need as well, 1.2 GB with PySpark; once'
	$(call LOCKED_BUT,pyspark) > .venv/wheels.lock
	$(call LOCKED_ALONE,pyspark) > .venv/pyspark.lock
	$(BIN)/pip $(INSTALL) --requirement .venv/wheels.lock
	$(BIN)/pip $(INSTALL) --no-binary pyspark --no-build-isolation --requirement .venv/pyspark.lock
	@touch $@

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything that serving, the pipeline and testing need, as locked

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(if $(filter 1,$(UPGRADE)),--upgrade)
BUILD_REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")

.PHONY: lock
lock: $(STAMP) ## Renew the locks from pyproject.toml, pins kept where they still fit; UPGRADE=1 takes the newest
	set -o pipefail; $(BIN)/python -c '$(BUILD_REQUIRES)' | $(COMPILE) pyproject.toml - --extra dev --output-file requirements-dev.lock >/dev/null
	$(COMPILE) pyproject.toml --extra embedded --extra otel --constraint requirements-dev.lock --output-file requirements.lock >/dev/null
	$(COMPILE) pyproject.toml --extra spark --constraint requirements-dev.lock --output-file requirements-spark.lock >/dev/null
	$(COMPILE) deploy/clients/python/requirements.in --constraint requirements-dev.lock --output-file deploy/clients/python/requirements.lock >/dev/null

.PHONY: lock-deploy-tools
lock-deploy-tools: $(STAMP) ## Renew .ci/deploy-tools.lock, what check-deploy looks with, from .ci/deploy-tools.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock-deploy-tools' .ci/deploy-tools.in --output-file .ci/deploy-tools.lock >/dev/null

.PHONY: lock-docs-tools
lock-docs-tools: $(STAMP) ## Renew .ci/docs-tools.lock, what builds the docs' site, from .ci/docs-tools.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock-docs-tools' .ci/docs-tools.in --output-file .ci/docs-tools.lock >/dev/null

.PHONY: docs
docs: $(STAMP) ## Build the docs as a site in build/site, reference made from the code, every link checked; what builds it is fetched once
	@$(BIN)/python .ci/build_docs.py

.PHONY: audit
audit: $(STAMP) ## Ask for known advisories about packages, jars, scripts and images (needs the internet, and trivy); 'not checked' is an error as well
	@$(BIN)/python .ci/audit.py requirements-dev.lock

SBOM_ROOT := s/^dynamic = \["version"\]/version = "'"$$($(BIN)/python -c 'import app; print(app.__version__)')"'"/

.PHONY: sbom
sbom: $(STAMP) ## Write build/sbom.json: what serves, as locked, in CycloneDX
	rm -rf build/sbom && mkdir -p build/sbom
	sed '$(SBOM_ROOT)' pyproject.toml > build/sbom/pyproject.toml
	$(PYTHON) -m venv --without-pip build/sbom/venv
	$(BIN)/pip --python build/sbom/venv $(INSTALL) --quiet --requirement requirements.lock
	$(BIN)/cyclonedx-py environment --pyproject build/sbom/pyproject.toml --output-reproducible --validate --output-file build/sbom.json build/sbom/venv
	rm -rf build/sbom

.PHONY: format
format: $(STAMP) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

LAWS := $(BIN)/pytest tests/laws -q -p no:randomly -p no:cacheprovider --hypothesis-profile check

# Without its cache mypy takes a core for 20 s: the tests have the other one.
.PHONY: check
check: $(STAMP) ## Format, lint, types, layers, laws of core with few draws: green at every commit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	@echo "$(BIN)/mypy, beside $(LAWS)"
	@$(BIN)/mypy >.venv/mypy.txt 2>&1 & types=$$!; $(LAWS); tests=$$?; \
	wait $$types; types=$$?; cat .venv/mypy.txt; exit $$((tests ? tests : types))

.PHONY: openapi
openapi: $(SERVES) ## Write openapi.json from the code
	$(BIN)/klamm openapi --output openapi.json

.PHONY: openapi-lint
openapi-lint: ## Lint openapi.json with spectral and redocly (needs node)
	npx --yes @stoplight/spectral-cli@6.16.3 lint openapi.json
	npx --yes @redocly/cli@2.77.0 lint openapi.json

.PHONY: run
run: $(SERVES) ## Serve on embedded PostgreSQL at 127.0.0.1:8080, with the example's ACLs and three decisions; Ctrl-C ends it, KLAMM_PORT=8081 chooses another port
	@KLAMM_SUPER_USERS="$${KLAMM_SUPER_USERS-User:admin}" KLAMM_LOG_FORMAT="$${KLAMM_LOG_FORMAT-TEXT}" exec $(BIN)/klamm serve --example examples/acls.json

.PHONY: pipeline-demo
pipeline-demo: $(STAMP) ## An example company's store and decisions, all jobs over them, and a report to look at (needs Java)
	@exec $(BIN)/python -m examples.pipeline_demo

.PHONY: clients
clients: $(STAMP) ## Generate and build clients in Python, Java, Go and TypeScript in build/clients; ONLY=python,go for some
	@$(BIN)/python -m deploy.clients.generate $(if $(ONLY),--only $(ONLY))

.PHONY: check-deploy
check-deploy: $(STAMP) ## Check all in deploy/ and .github/ by the tools of those who run it (hadolint, Helm, promtool, actionlint, ...); they are fetched
	@$(BIN)/python .ci/check_deploy.py

.PHONY: wheel
wheel: $(SERVES) ## Build Klamm's wheel in build/dist, by the setuptools that is locked
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --wheel-dir build/dist .

.PHONY: migrate
migrate: $(SERVES) ## Bring the database of KLAMM_DATABASE_URL to this version
	$(BIN)/klamm migrate

.PHONY: test
test: $(STAMP) ## The gate: tests/gate in a fixed order, drawn the same each time; K=NAME for the tests of a name
	@$(BIN)/pytest tests/gate -q -rsfE -p no:randomly -n 3 --dist worksteal $(if $(K),-k '$(K)')

# Those that draw in laws and gate are among them, and draw more here. What CHANGED=1 meets is what differs from $BASE,
# or from the merge base.
.PHONY: proof
proof: $(STAMP) ## What the gate leaves, in tests/proof: all, or CHANGED=1 what a change meets (MINUTES=25), or DUE=1 the part whose turn it is; FOLDER=... for a part, SEED=7 as drawn
	@exec $(BIN)/python -m tests.proof.run \
	  $(foreach option,CHANGED DUE MINUTES SEED FOLDER TIMES LIST,$(if $($(option)),--$(shell echo $(option) | tr A-Z a-z)='$($(option))'))

.PHONY: test-kafka-own
test-kafka-own: $(STAMP) ## All of Kafka's own tests of authorizers, under its own one and under the plugin (half an hour); CLASSES=... for some
	@$(BIN)/python -m tests.proof.kafka.own.run $(CLASSES)

.PHONY: campaign
campaign: $(STAMP) ## Half an hour of faults drawn by a seed for services, followers and a broker; SEED=2, MINUTES=5 (needs a JDK, and Maven)
	@exec $(BIN)/python -m tests.campaign.followers --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1)

.PHONY: campaign-upgrade
campaign-upgrade: $(STAMP) ## Service, follower and plugin of this version and of one before in all mixtures (20 minutes); BEFORE=commit
	@exec $(BIN)/python -m tests.campaign.upgrade $(if $(BEFORE),--before $(BEFORE))

.PHONY: bench-plugin
bench-plugin: ## Measure the plugin beside Kafka's own authorizer by JMH (half an hour); ROW='1000000 ACLs' for one row (a minute)
	mvn --batch-mode --quiet --file plugin/bench/pom.xml package
	@java -cp "build/bench-plugin/klamm-kafka-bench.jar:build/bench-plugin/jars/*" klamm.kafka.Bench $(if $(ROW),"$(ROW)")

.PHONY: plugin
plugin: ## Build build/plugin/klamm-kafka-authorizer.jar, a Kafka broker's own authorizer (needs a JDK 17 or newer, and Maven)
	mvn --batch-mode --quiet --file plugin/pom.xml -DskipTests package
	@ls -l build/plugin/klamm-kafka-authorizer.jar

# Counted lines make a service several times slower, so a test of overload may fail here that passes in `make proof`.
.PHONY: coverage
coverage: $(STAMP) ## Check, gate and proof with branch coverage, processes included: core 100 %, overall 95 % or more
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest -q tests/laws tests/gate tests/proof -n 4 --dist loadfile
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include 'app/core/*' --fail-under 100
	$(BIN)/coverage report --fail-under 95

.PHONY: bench
bench: $(STAMP) ## Measure speed and size side by side, and write docs/benchmarks-tables.md; QUICK=1 for the short form, ONLY=http,writes for parts of it
	@$(BIN)/python -m tests.bench.run $(if $(filter 1,$(QUICK)),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(OUTPUT),--output $(OUTPUT))
