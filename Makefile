# `make demo` and `make test` set up all they need; a second run reuses what is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torchcodec is bound to a torch release; the pair is pinned here, not in setup.cfg.
TORCH := torch==2.13.0 torchcodec==0.13.0
APT := apt-get -o DPkg::Lock::Timeout=120
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test compat lint bench clean

demo: $(VENV)/.demo
	$(BIN)/mptb demo

test: $(VENV)/.test
	@$(MAKE) --no-print-directory system
	$(BIN)/python -m pytest

# The tests of loading on the oldest release of datasets that is supported, in an environment of its own.
compat:
	PYTHON=$(PYTHON) sh tests/dataset/compat.sh

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.test
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist *.egg-info

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    $(APT) update -q && $(APT) install -qy python3-venv && $(PYTHON) -m venv $(VENV); \
	  else echo "Python's venv module is missing: install it (on Debian: apt-get install python3-venv)"; exit 1; fi; }

$(VENV)/.demo: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[plot,resample]'
	@touch $@

$(VENV)/.test: setup.cfg pyproject.toml Makefile | $(BIN)/python
	$(BIN)/python -m pip install -q $(TORCH) -e '.[dev,plot,resample,torchcodec,detectors,space]'
	@touch $@

# torchcodec loads FFmpeg's shared libraries, and the Space's page is tested in a real browser. Tests that
# need what is absent are skipped, and say so.
.PHONY: system
system:
	@missing=""; \
	command -v ffmpeg >/dev/null || missing="ffmpeg"; \
	command -v chromium >/dev/null || missing="$$missing chromium fonts-dejavu-core"; \
	[ -z "$$missing" ] || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  $(APT) update -q && DEBIAN_FRONTEND=noninteractive $(APT) install -qy --no-install-recommends $$missing; \
	else echo "missing: $$missing (on Debian: apt-get install $$missing): the tests that need it are skipped"; fi
