# Everything that a person or CI needs. `make run` works on a machine with Python 3.11 to 3.14 and nothing else.

SHELL := /bin/bash
PORT ?= 8000
export PORT

# Bytecode is kept in the environment, also where the machine forbids it beside the sources (PYTHONDONTWRITEBYTECODE, as
# images often set it): without it each process compiles all that it imports, torch among it.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

# The system's own Python first, since its builders let the compiler optimise for what programs do (one that pyenv builds takes
# a tenth more of the processor), then the first one that requirements.lock is for; PYTHON=/path/to/python3 chooses another.
# One that can make virtual environments, if there is any.
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for check in "import ensurepip, venv; $(FITS)" "$(FITS)"; do \
	for name in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$name" -c "$$check" 2>/dev/null && echo "$$name" && exit; done; done)
VENV := .venv
INSTALL = webapp/stack/install.py
PYTEST_ARGS ?=

.PHONY: help run setup setup-dev setup-train lock sbom images test test-long test-slow test-kill test-browser lint format check-python

help:
	@echo "make run            start Envarium at http://127.0.0.1:8000 (PORT=... for another port)"
	@echo "make test           the quick tests: no browser, no killed processes, no large data"
	@echo "make test-long      the two below at once, as .ci/run does"
	@echo "make test-slow      large databases, generated requests to the whole API, batches under misfortune"
	@echo "make test-kill      tests that stop real processes with SIGKILL"
	@echo "make test-browser   tests that drive Chromium"
	@echo "make setup-train    install what a training worker needs, on a machine without the site"
	@echo "make lock           pin the newest versions that pyproject.toml allows (PACKAGE=name: of that package alone)"
	@echo "make images         write the digests of the container images of today into docker/ (needs Docker)"
	@echo "make sbom           the bill of materials of what is installed: build/sbom.json"
	@echo "make lint           ruff and mypy"
	@echo "make format         let ruff rewrite the code"

check-python:
	@if [ -z "$(PYTHON)" ]; then \
		found=$$(python3 --version 2>&1 || true); \
		echo "Envarium needs Python 3.11 to 3.14; found: $${found:-none}." >&2; \
		echo "Install one (Debian, Ubuntu: apt install python3 python3-venv), or name it: make run PYTHON=/path/to/python3.12" >&2; \
		exit 1; fi

setup: check-python
	@"$(PYTHON)" $(INSTALL) web synthesis

setup-dev: check-python
	@"$(PYTHON)" $(INSTALL) web synthesis dev train

setup-train: check-python
	@"$(PYTHON)" $(INSTALL) train

# Torch stands in webapp/stack/install.py, images in docker/; these two write the rest anew and say what changed.
lock: setup-dev
	@"$(PYTHON)" $(INSTALL) lock
	@$(VENV)/bin/python -m tests.supply.lock $(PACKAGE)

images: check-python
	@"$(PYTHON)" docker/digests.py

sbom: setup-dev
	@$(VENV)/bin/python -m tests.supply.bill_of_materials build/sbom.json

run: setup
	@exec $(VENV)/bin/python -m webapp.stack

test: setup-dev
	$(VENV)/bin/python -m pytest -n 3 --dist loadgroup $(PYTEST_ARGS)

# One session imports everything once; the long ones begin. Three at a time, since most of them wait for what they killed.
# What drives Chromium has a site that nobody shook before.
test-long: setup-dev
	$(VENV)/bin/python -m pytest -n 3 --dist loadgroup -m "slow or kill" $(PYTEST_ARGS)

test-slow: setup-dev
	$(VENV)/bin/python -m pytest -n 2 -m slow $(PYTEST_ARGS)

test-kill: setup-dev
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m kill $(PYTEST_ARGS)

test-browser: setup-dev
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m browser $(PYTEST_ARGS)

lint: setup-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: setup-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
