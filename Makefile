# Two commands do everything: `make search` and `make test`. Both set up .venv on the first run and reuse it afterwards.
PYTHON ?= python3
# The torch release that the figures in studies/ were measured with; `make search TORCH=torch` takes the newest.
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: search test test-slow clean

search: .venv/ready
	$(BIN)/headtune search studies/digits_vit.yaml

test: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -m "not slow" -n 2

test-slow: .venv/ready
	$(BIN)/pytest -m slow

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

clean:
	rm -rf .venv runs
