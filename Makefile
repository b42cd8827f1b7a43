# Every target makes its own virtual environment first: nothing is needed but Python 3.11 or newer, with venv, and make.
# The environment is reused until a lock file or pyproject.toml changes.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PY := .venv/bin/python
CODE := src tests tools bench demo
# Tests that `make test` runs: the slow ones are run by .ci/run, the cases of others by `make cases`.
FAST := not slow and not cases
# One more than the cores that CI has: the stories wait for processes more than they compute.
WORKERS ?= 3
SPREAD := -n $(WORKERS) --dist worksteal
LONGEST := --durations=12 --durations-min=5
MINUTES ?= 20

.PHONY: help install demo testbed test check style types layers sizes docs docs-check coverage slow machine cases bench lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

# --- the environment ---------------------------------------------------------------------------------------------

.venv/.locked: requirements/dev.txt
	@[ -x $(PY) ] || { python="$$(sh tools/find-python.sh)" && rm -rf .venv && "$$python" -m venv .venv; }
	@echo "== packages, as locked in requirements/dev.txt"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

.venv/.installed: .venv/.locked pyproject.toml
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

install: .venv/.installed ## make .venv with exactly the locked packages, and hostler in it

# --- what people run ---------------------------------------------------------------------------------------------

demo: install ## the whole story with real engines, a minute and a half after the install (KEEP=1 leaves it running)
	@$(PY) -m demo $(if $(KEEP),--keep)

bench: install ## the gateway beside nginx; ARGS=schedule: leases, jobs and the feed beside bare SQLite
	@$(PY) -m bench $(ARGS)

testbed: install ## two hosts in network namespaces, until Ctrl-C (root, iproute2)
	@$(PY) -m tests.testbed

cases: install ## inputs of others, when their folder is there (HOSTLER_CASES, else ../shared/cases)
	@folder="$${HOSTLER_CASES:-../shared/cases}"; \
	if [ -d "$$folder" ]; then HOSTLER_CASES="$$folder" $(PY) -m pytest $(SPREAD) -p tests.cases.table; \
	elif [ -n "$$HOSTLER_CASES" ]; then echo "make cases: HOSTLER_CASES names no folder: $$folder" >&2; exit 1; \
	else echo "make cases: nothing run, there is no folder $$folder (HOSTLER_CASES names another)"; fi

# --- what must hold ----------------------------------------------------------------------------------------------

check: style types layers sizes docs-check test ## all that .ci/run checks, but the slow tests
	@echo "== make check: all of it holds"

style: install
	@echo "== ruff"
	@$(PY) -m ruff format --check --quiet $(wildcard $(CODE)) || { $(PY) -m ruff format --check $(wildcard $(CODE)); exit 1; }
	@$(PY) -m ruff check --quiet $(wildcard $(CODE))

types: install
	@echo "== mypy --strict"
	@$(PY) -m mypy $(wildcard $(CODE))

layers: install
	@echo "== layers"
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-cache

sizes: install
	@echo "== sizes and names"
	@$(PY) -m tools.sizes $(wildcard $(CODE))

docs: install ## write the generated pages anew
	@$(PY) -m tools.requirements_table
	@$(PY) -m tools.generate_docs

docs-check: install
	@echo "== generated pages"
	@$(PY) -m tools.requirements_table --check
	@$(PY) -m tools.generate_docs --check

test: install ## the tests, warnings as errors, and the coverage of the domain
	@echo "== tests"
	@$(PY) -m pytest $(SPREAD) -m "$(FAST)" $(LONGEST) --cov=hostler --cov-branch --cov-report=
	@$(MAKE) --no-print-directory coverage

coverage: install
	@echo "== branch coverage: services (reported), domain (100)"
	@$(PY) -m coverage report --include='src/hostler/services/*' --skip-covered
	@$(PY) -m coverage report --include='src/hostler/domain/*' --skip-covered --show-missing --fail-under=100

slow: install ## the tests that take longer
	@echo "== slow tests"
	@$(PY) -m pytest $(SPREAD) -m "slow and not cases" $(LONGEST) || { code=$$?; [ $$code -eq 5 ] && echo "no test is marked slow" || exit $$code; }

machine: install ## the state machine of leases and jobs, with random examples (MINUTES=20)
	@$(PY) -m tools.machine --minutes $(MINUTES)

# --- upkeep ------------------------------------------------------------------------------------------------------

LOCK := $(PY) -m uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	--custom-compile-command "make lock"

lock: install ## newest packages that pyproject.toml allows, with hashes and without addresses
	@$(LOCK) --upgrade pyproject.toml -o requirements/runtime.txt
	@$(LOCK) --upgrade pyproject.toml --group dev -c requirements/runtime.txt -o requirements/dev.txt
	@! grep -nE '://|^-' requirements/runtime.txt requirements/dev.txt

clean: ## remove the environment and every cache
	rm -rf .venv build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools bench demo -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
