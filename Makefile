# make run | test | check | ui | clean. On a fresh machine: Python 3.11 or 3.12, git and make.
#
#   PYTHON=python3.12     the interpreter that makes .venv
#   TORCH_INDEX=URL       where torch comes from, as https://download.pytorch.org/whl/cpu
#   PREFECT_PORT=4200 MLFLOW_PORT=5000 MRTPO_HOST=127.0.0.1    for make ui
#
# These, and what .env.example lists, may also stand in a file .env.

-include .env
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3 python,$(shell command -v $(name))))
VENV := .venv
STAMP := $(VENV)/.installed
PREFECT_PORT ?= 4200
MLFLOW_PORT ?= 5000

# Nothing leaves the machine. One thread: measured faster for the models of the default job.
PREFECT_SERVER_ANALYTICS_ENABLED ?= false
DO_NOT_TRACK ?= 1
MLFLOW_DISABLE_TELEMETRY ?= true
DVC_NO_ANALYTICS ?= 1
GX_ANALYTICS_ENABLED ?= false
HF_HUB_DISABLE_TELEMETRY ?= 1
OMP_NUM_THREADS ?= 1
MKL_NUM_THREADS ?= 1
# The stages' `python`, and dvc, are those of the environment.
PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export

.PHONY: help run test check ui clean install
.DEFAULT_GOAL := help

help:  ## This list
	@sed -n 's/^\([a-z]*\):.*##/  make \1\t/p' $(firstword $(filter %Makefile,$(MAKEFILE_LIST)))

install: $(STAMP)  ## Create .venv and install into it

# uv is seven times faster than pip, but pip's configuration may name a place with a CPU build of
# torch, which uv does not read. So pip fetches these two and uv the rest.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python found. Install 3.11 or 3.12, or: make PYTHON=path"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' || \
	  { echo "$(PYTHON) is `$(PYTHON) --version`; needed: 3.11 or 3.12. Try: make PYTHON=python3.11"; exit 1; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt uv
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt torch \
	  $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -c constraints.txt -e '.[dev,lora]'
	@touch $@

run: $(STAMP)  ## The main job: every stage that is not up to date, then where the report is
	@python -m flows.sources
	@dvc repro
	@python -m flows.summary

test: $(STAMP)  ## The tests
	@python -m pytest

check: $(STAMP)  ## Linter, format, types
	ruff check .
	ruff format --check .
	mypy

ui: $(STAMP)  ## Prefect with every deployment, and MLflow, until Ctrl-C
	@exec python -m flows.ui

clean:  ## Remove outputs, checkpoints and isolated runs; the DVC cache, databases and .venv stay
	rm -rf data models reports runs outputs state/flows state/train
	rm -rf .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
