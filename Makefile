# `make` alone prints the targets. Everything runs in .venv, which `make setup` builds from the
# hashed locks with nothing but Python >= 3.11; a changed lock is noticed and installed.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; done)
ARGS ?=
# PYTHON given on the command line has an environment of its own, beside the usual one.
VENV := .venv$(if $(filter command line,$(origin PYTHON)),-$(shell $(PYTHON) -c \
  'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
# KUBERNETES=1.35.4 builds, and tests with, another version than that of tests/apiserver/tools.
KUBERNETES ?=
TOOLS := $(CURDIR)/.tools/$(addsuffix /,$(KUBERNETES))bin
PYTEST := $(BIN)/python -m pytest
# A worker that is done takes over half of what another one has left.
PARALLEL := -n auto --maxprocesses=4 --dist worksteal
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without it each process that a test starts compiles all it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# A stamp per set of packages, named after what it was installed from.
key = $(shell cat $(1) pyproject.toml 2>/dev/null | cksum | cut -d' ' -f1)
RUN := $(VENV)/.run-$(call key,requirements.lock)
DEV := $(VENV)/.dev-$(call key,requirements-dev.lock)
MUTANTS := build/mutants/.tool-$(call key,requirements-mutants.lock)

.DEFAULT_GOAL := help
.PHONY: help demo test setup check tools page-tools test-real differential long mutations mutants fuzz simulated bugs chaos bench docs docs-test image image-check chart changelog notes dist version release release-check clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUN) ## place real pods in an embedded cluster and explain each step (ARGS=--once ends by itself)
	@$(BIN)/trellis demo $(ARGS)

# The house tests are part of `make check`.
test: $(DEV) ## the default test suite (ARGS="-k name" for a part of it)
	@$(PYTEST) $(PARALLEL) -q $(or $(ARGS),--ignore=tests/house)

# Compiled as pip does it with what it installs: a command starts in half the time where Python itself
# may not write its cache.
setup: $(DEV) ## build .venv from the hashed locks; quick when nothing changed
	@$(BIN)/python -m compileall -q crds operators scheduler

check: $(DEV) ## lint, format, strict types, import contracts, house tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -q tests/house

tools: ## build kube-apiserver, kube-scheduler, kube-controller-manager, kubectl, helm into .tools/bin; find etcd, Prometheus
	@KUBERNETES=$(KUBERNETES) bash tests/apiserver/tools/build.sh $(TOOLS)

page-tools: ## what checks the page's accessibility and types, by a lock with hashes into .tools/npm
	@mkdir -p .tools/npm && cp tests/page/package.json tests/page/package-lock.json .tools/npm
	@npm ci --silent --prefix .tools/npm

test-real: $(DEV) ## the tests that need a real kube-apiserver, helm or Prometheus (after `make tools`)
	@test -x $(TOOLS)/kube-apiserver -a -x $(TOOLS)/etcd || \
	  { echo "test-real needs $(TOOLS)/kube-apiserver and etcd: run 'make tools'" >&2; exit 1; }
	@PATH="$(TOOLS):$$PATH" KUBEBUILDER_ASSETS=$(TOOLS) \
	  $(PYTEST) -n auto --maxprocesses=2 -q -m "real and not long and not perf" $(ARGS)

differential: $(DEV) ## random decisions beside kube-scheduler's (CASES=1000 SEED=1; after `make tools`)
	@test -x $(TOOLS)/kube-scheduler -a -x $(TOOLS)/kube-apiserver -a -x $(TOOLS)/etcd || \
	  { echo "differential needs kube-scheduler in $(TOOLS): run 'make tools'" >&2; exit 1; }
	@PATH="$(TOOLS):$$PATH" KUBEBUILDER_ASSETS=$(TOOLS) $(BIN)/python -m tests.differential.run \
	  --cases $(or $(CASES),1000) --seed $(or $(SEED),1) --out build/differential $(ARGS)

long: $(DEV) ## fault, fuzz and soak suites in full (those on a real cluster after `make tools`)
	@PATH="$(TOOLS):$$PATH" HYPOTHESIS_PROFILE=long \
	  KUBEBUILDER_ASSETS=$$(test -x $(TOOLS)/kube-apiserver && echo $(TOOLS)) \
	  $(PYTEST) $(PARALLEL) -q -m "long and not perf" --timeout=3600 $(ARGS)

mutations: $(DEV) ## inject a bug per rule: its invariant must fail (rights too after `make tools`)
	@PATH="$(TOOLS):$$PATH" KUBEBUILDER_ASSETS=$$(test -x $(TOOLS)/kube-apiserver && echo $(TOOLS)) \
	  $(PYTEST) -q -m long --timeout=3600 tests/mutations $(ARGS)

# Draws COUNT changes of one operator or number each, and runs for each the tests that execute its line.
# Recording which these are takes a run of the tests; it is repeated when the product or a test changed.
mutants: $(DEV) $(MUTANTS) ## change the product in COUNT=100 places (SEED=1); print what no test notices (ARGS="--minutes 40")
	@export PYTHONPATH=$(CURDIR)/build/mutants TRELLIS_CONTEXTS=$(CURDIR)/build/contexts-$$(git ls-files \
	  scheduler tests | xargs cat | cksum | cut -d' ' -f1); \
	test -d $$TRELLIS_CONTEXTS || { rm -rf build/contexts-* && mkdir -p $$TRELLIS_CONTEXTS && \
	  $(PYTEST) $(PARALLEL) -q -p tests.mutations.contexts --timeout=1200 \
	    $$($(BIN)/python -m tests.mutations.packages tests) || { rm -rf $$TRELLIS_CONTEXTS; exit 1; }; }; \
	$(BIN)/python -m tests.mutations.draw $$($(BIN)/python -m tests.mutations.packages) \
	  $(or $(COUNT),100) $(or $(SEED),1) > build/mutants.json && \
	$(BIN)/python -m tests.mutations.sample build/mutants.json $$TRELLIS_CONTEXTS $(ARGS)

fuzz: $(DEV) ## 100,000 malformed pods, through simulate and through a watch
	@nice $(PYTEST) $(PARALLEL) -q -rP -m "long and not perf" --timeout=3600 tests/fuzz $(ARGS)

simulated: $(DEV) ## the daemon in simulated clusters with faults (MINUTES=1000 or SEEDS=20, SEED=1 GUIDED=1; fresh seeds without)
	@$(BIN)/python -m tests.simulated.run $(if $(SEEDS),--seeds $(SEEDS)) $(if $(CPU_SECONDS),--cpu-seconds $(CPU_SECONDS)) \
	  $(if $(SEEDS)$(CPU_SECONDS),,--minutes $(or $(MINUTES),1000)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(GUIDED),--guided) $(ARGS)

bugs: $(DEV) ## inject bugs, each of which the simulated cluster must find (ARGS="--only TEXT --minutes 200")
	@$(BIN)/python -m tests.simulated.findbugs $(ARGS)

chaos: $(DEV) ## faults on a real API server and real processes (FAULTS=1000 SEED=1; after `make tools`)
	@test -x $(TOOLS)/kube-apiserver -a -x $(TOOLS)/etcd || \
	  { echo "chaos needs $(TOOLS)/kube-apiserver and etcd: run 'make tools'" >&2; exit 1; }
	@PATH="$(TOOLS):$$PATH" KUBEBUILDER_ASSETS=$(TOOLS) $(BIN)/python -m tests.chaos.run \
	  --faults $(or $(FAULTS),1000) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: $(DEV) ## measure; results as JSON in build/bench (real cluster after `make tools`)
	@mkdir -p build/bench
	@PATH="$(TOOLS):$$PATH" TRELLIS_BENCH_DIR=$(CURDIR)/build/bench \
	  KUBEBUILDER_ASSETS=$$(test -x $(TOOLS)/kube-apiserver && echo $(TOOLS)) \
	  $(PYTEST) -q -s -m perf --timeout=3600 $(ARGS)

docs: $(DEV) ## build the documentation site into site/
	@$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/docs docs site
	@echo "open site/index.html"

docs-test: $(DEV) ## run the commands, snippets and figures of the documentation; check its links
	@$(PYTEST) $(PARALLEL) -q -m "not real and not perf" tests/docs $(ARGS)

image: ## build the container image (docker or podman; BASE_DIGEST=sha256:... pins the base)
	@engine=$$(command -v docker || command -v podman) || \
	  { echo "image needs docker or podman" >&2; exit 1; }; \
	$$engine build -t trellis-scheduler --build-arg BASE_DIGEST=$(BASE_DIGEST) \
	  --build-arg VERSION=$$($(MAKE) -s version) \
	  --build-arg REVISION=$$(git rev-parse HEAD) \
	  --build-arg CREATED=$$(git log -1 --format=%cI) .

image-check: $(DEV) ## rehearse the image's build without an engine, and run what comes out
	@$(PYTEST) -q -rP -m "long and not perf" tests/release/test_image.py $(ARGS)

chart: ## lint the Helm chart and pack it into dist/ (after `make tools`)
	@PATH="$(TOOLS):$$PATH"; command -v helm >/dev/null || \
	  { echo "chart needs helm: run 'make tools'" >&2; exit 1; }; \
	helm lint --strict charts/trellis && helm package charts/trellis -d dist

changelog: $(DEV) ## print the changes since the last release
	@$(BIN)/towncrier build --draft --version next

notes: ## print the release notes of the current version from CHANGELOG.md
	@$(PYTHON) .ci/notes.py $$($(MAKE) -s version)

dist: $(DEV) ## wheel and sdist into dist/; the same commit gives the same bytes
	@$(BIN)/python .ci/dist.py dist

release-check: $(DEV) ## archives whole and reproducible, wheels for arm64, upgrade from the release before
	@PATH="$(TOOLS):$$PATH" KUBEBUILDER_ASSETS=$$(test -x $(TOOLS)/kube-apiserver && echo $(TOOLS)) \
	  $(PYTEST) -q -rP -m "not perf" --timeout=600 tests/release $(ARGS)
	@$(BIN)/towncrier build --draft --version next >/dev/null

version: ## print the version
	@sed -n 's/^VERSION.*"\(.*\)"/\1/p' scheduler/about.py

release: $(DEV) ## all files of a release into dist/: archives, chart, SBOM, notes, checksums (after `make tools`)
	@rm -rf dist && $(MAKE) -s dist chart
	@$(MAKE) -s notes > dist/NOTES.md
	@test -x build/sbom/bin/cyclonedx-py || { $(BIN)/python -m venv build/sbom && \
	  build/sbom/bin/python -m pip install -q --no-deps --require-hashes -r requirements-sbom.lock; }
	@sed "s/^dynamic = .*/version = \"$$($(MAKE) -s version)\"/" pyproject.toml > build/sbom/pyproject.toml
	@PYTHONWARNINGS=ignore build/sbom/bin/cyclonedx-py requirements requirements.lock \
	  --pyproject build/sbom/pyproject.toml \
	  --output-reproducible --of JSON -o dist/trellis-$$($(MAKE) -s version).cdx.json
	@cd dist && sha256sum * > .sums && mv .sums SHA256SUMS && sha256sum --quiet --check SHA256SUMS && ls -1

clean: ## remove build results and caches (keeps .venv and .tools)
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find scheduler operators tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN): | $(VENV)/bin/python
	@$(call install,requirements.lock)
	@rm -f $(VENV)/.run-* && touch $(RUN)

$(DEV): | $(VENV)/bin/python
	@$(call install,requirements-dev.lock)
	@rm -f $(VENV)/.run-* $(VENV)/.dev-* && touch $(RUN) $(DEV)

# Beside .venv, not in it: no other target needs these packages.
$(MUTANTS): requirements-mutants.lock $(DEV)
	@rm -rf build/mutants && $(BIN)/python -m pip install -q --progress-bar off --no-deps \
	  --require-hashes --target build/mutants -r requirements-mutants.lock && touch $@

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Trellis needs Python 3.11 or newer as python3 (or make PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "python3 cannot make a venv; on Debian and Ubuntu install python3-venv" >&2; exit 1; }

# The project itself is installed in place, without a network: its build backend is in the lock.
# "compat" writes a plain path file, so that new packages need no new installation.
define install
echo "installing $(1) into $(VENV) ..." >&2; \
$(BIN)/python -m pip install -q --progress-bar off --no-deps --require-hashes -r $(1) && \
$(BIN)/python -m pip install -q --no-deps --no-build-isolation --no-index \
  --config-settings editable_mode=compat -e .
endef
