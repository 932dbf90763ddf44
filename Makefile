# make run | test | check | ui | nltk-data | clean. On a fresh machine: Python 3.11 or 3.12, git and make.
#
#   PYTHON=python3.12     the interpreter that makes .venv
#   TORCH_INDEX=URL       where torch comes from, as https://download.pytorch.org/whl/cpu
#   ARGS="-k name"        for make test
#   PREFECT_PORT=4200 MLFLOW_PORT=5000 MRTPO_HOST=127.0.0.1    for make ui
#
# These, and what .env.example lists, may also stand in a file .env.

-include .env
GOOD := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))
ifndef PYTHON
PYTHON := $(shell for name in python3.11 python3.12 python3 python; do \
  $$name -c '$(GOOD)' 2>/dev/null && { echo $$name; break; }; done)
endif
VENV := .venv
STAMP := $(VENV)/.installed
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
ALL := .[dev,lora,chinese]
TORCH_FROM := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
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
unexport GOOD PIP ALL STAMP TORCH_FROM ARGS

.PHONY: help run test check ui clean install nltk-data study study-smoke
.DEFAULT_GOAL := help

help:  ## This list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' $(firstword $(filter %Makefile,$(MAKEFILE_LIST)))

install: $(STAMP)  ## Create .venv and install into it

# uv is far faster than pip, but pip's configuration may name a place with a CPU build of torch, or
# certificates, of which uv does not know. So pip fetches uv and torch, and all if uv cannot.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or 3.12 found; say where: make PYTHON=path"; exit 1; }
	@$(PYTHON) -c '$(GOOD)' || \
	  { echo "$(PYTHON) is `$(PYTHON) --version`; needed: 3.11 or 3.12, as in make PYTHON=python3.11"; exit 1; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) uv
	$(PIP) torch $(TORCH_FROM)
	$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -c constraints.txt -e '$(ALL)' || \
	  $(PIP) -e '$(ALL)'
	@touch $@

run: $(STAMP)  ## The main job: every stage that is not up to date, then where the report is
	@python -m flows.sources
	@dvc repro
	@python -m flows.summary

study: $(STAMP)  ## All methods on all tasks, tuned, with seeds; hours; ARGS="--tasks tools" for a part
	@python -m benchmarks.study docs/study --page docs/study.md $(ARGS)

study-smoke: $(STAMP)  ## The same in minutes, to see that it works
	@python -m benchmarks.study runs/study-smoke --work runs/study-smoke/work --smoke $(ARGS)

test: $(STAMP)  ## The tests
	@python -m pytest $(ARGS)

check: $(STAMP)  ## Linter, format, types
	@ruff check .
	@ruff format --check .
	@mypy

ui: $(STAMP)  ## Prefect with every deployment, and MLflow, until Ctrl-C
	@exec python -m flows.ui

nltk-data: $(STAMP)  ## Download what the verifiers of constraints need (4 MB of NLTK's data) into .venv
	@python -m nltk.downloader -d $(VENV)/nltk_data punkt_tab stopwords averaged_perceptron_tagger_eng

clean:  ## Remove outputs, checkpoints and isolated runs; the DVC cache, databases and .venv stay
	rm -rf data models reports runs outputs
	test ! -d state || find state -mindepth 1 -maxdepth 1 ! -name prefect -exec rm -rf {} +
	rm -rf .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
