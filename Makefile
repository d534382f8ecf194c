# Every target first brings .venv up to date, which takes no time when it is.

PYTHON ?= python3
ARGS ?=
RUN := .venv/bin/python
# Tests wait nearly as long as they compute: one process more than there are cores.
PROCESSES = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL = -n $(PROCESSES) --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations=25 --durations-min=10
SOURCES := hmi_site tenants versiontree inference workers frontend hmi_client benchmarks demo tests manage.py requirements

.DEFAULT_GOAL := help
.PHONY: help setup dev up demo test unit slow both thorough gpu lint format types wheel screenshots clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.stamp ## virtual environment and pinned packages (PYTHON=python3.12 chooses another Python)
	@:

dev: .venv/.dev-stamp ## the same with the packages of tests, lint and types
	@:

.venv/.stamp: pyproject.toml requirements/constraints.txt requirements/bootstrap.py requirements/installers.py
	@$(PYTHON) requirements/bootstrap.py
	@touch $@

.venv/.dev-stamp: .venv/.stamp
	@$(PYTHON) requirements/bootstrap.py dev
	@touch $@

up: setup ## run everything in the foreground; Ctrl-C stops it
	@HMI_SUPERVISED=$$PPID exec $(RUN) manage.py up $(ARGS)

demo: setup ## build the demo if absent, send requests, print the report, stop
	@HMI_SUPERVISED=$$PPID exec $(RUN) -m benchmarks.product.demo_report $(ARGS)

test: dev ## the tests but for the slow ones, on services of their own (ARGS="-m unit" runs some)
	@exec $(RUN) -m pytest $(PARALLEL) -m "not slow and not thorough" $(ARGS)

unit: dev ## the tests of single modules, in less than two minutes on two cores
	@exec $(RUN) -m pytest $(PARALLEL) -m "not slow and not thorough" tests/unit $(ARGS)

slow: dev ## the tests that take longer: in a browser, of processes that are killed, of trainings, the whole demo
	@exec $(RUN) -m pytest $(PARALLEL) -m "slow and not thorough" $(ARGS)

both: dev ## the tests and the slow ones, collected once
	@exec $(RUN) -m pytest $(PARALLEL) -m "not thorough" $(ARGS)

thorough: dev ## the tests at full scale: ten thousand models, a soak, gigabytes, every benchmark, other families, the administration, all made-up requests
	@$(RUN) -m pytest $(PARALLEL) -m thorough $(ARGS)
	@HMI_FUZZ_CASES=1 exec $(RUN) -m pytest $(PARALLEL) tests/integration/fuzz tests/integration/contract

gpu: dev ## the tests that need a GPU, one after another; they are skipped where PyTorch finds none
	@exec $(RUN) -m pytest -m gpu $(ARGS)

lint: dev ## style, layers, missing migrations
	@$(RUN) -m ruff check $(SOURCES)
	@$(RUN) -m ruff format --check $(SOURCES)
	@$(RUN) -c "from importlinter.cli import lint_imports_command; lint_imports_command()" --no-cache
	@$(RUN) -W ignore manage.py makemigrations --check --dry-run

format: dev ## let ruff format and sort
	@$(RUN) -m ruff check --fix-only $(SOURCES)
	@$(RUN) -m ruff format $(SOURCES)

types: dev ## strict type check
	@$(RUN) -m mypy

wheel: setup ## the client and its command alone, as a wheel in dist/
	@$(RUN) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/hmi-*.whl

screenshots: dev ## pictures of every page, into var/screenshots; those of the README into docs/images
	@HMI_SCREENSHOTS=var/screenshots $(RUN) -m pytest tests/e2e/test_gallery.py tests/e2e/test_gallery_admin.py $(ARGS)
	@mkdir -p docs/images
	@cp var/screenshots/home-desktop-light.png docs/images/home.png
	@cp var/screenshots/quick-and-trained-desktop-light.png docs/images/quick.png
	@cp var/screenshots/tree-desktop-light.png docs/images/tree.png
	@cp var/screenshots/try-desktop-light.png docs/images/try.png

clean: ## remove .venv and caches; your data in var/ stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -not -path './var/*' -prune -exec rm -rf {} +
