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

test-slow: .venv/ready .venv-timm/ready
	$(BIN)/pytest -m slow
	.venv-timm/bin/pytest tests/surgery/test_conformance.py -k timm

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

# torchvision, which timm needs, brings the torch that it was built for.
.venv-timm/ready: pyproject.toml
	$(PYTHON) -m venv .venv-timm
	.venv-timm/bin/pip install --quiet --disable-pip-version-check torchvision -e ".[dev,timm]"
	touch $@

clean:
	rm -rf .venv .venv-timm runs
