# `make demo` and `make test` set up all they need; a second run reuses what is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torchcodec is bound to a torch release; the pair is pinned here, not in setup.cfg.
TORCH := torch==2.13.0 torchcodec==0.13.0
SUDO_APT := apt-get -o DPkg::Lock::Timeout=120
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint bench clean

demo: $(VENV)/.demo
	$(BIN)/mptb demo

test: $(VENV)/.test
	@$(MAKE) --no-print-directory ffmpeg
	$(BIN)/python -m pytest

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
	    $(SUDO_APT) update -q && $(SUDO_APT) install -qy python3-venv && $(PYTHON) -m venv $(VENV); \
	  else echo "Python's venv module is missing: install it (on Debian: apt-get install python3-venv)"; exit 1; fi; }

$(VENV)/.demo: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[plot]'
	@touch $@

$(VENV)/.test: setup.cfg pyproject.toml Makefile | $(BIN)/python
	$(BIN)/python -m pip install -q $(TORCH) -e '.[dev,plot,torchcodec]'
	@touch $@

# torchcodec loads FFmpeg's shared libraries; the tests that need it say so when it is absent.
.PHONY: ffmpeg
ffmpeg:
	@command -v ffmpeg >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    $(SUDO_APT) update -q && DEBIAN_FRONTEND=noninteractive $(SUDO_APT) install -qy --no-install-recommends ffmpeg; \
	  else echo "FFmpeg is missing (on Debian: apt-get install ffmpeg): the torchcodec tests will be skipped"; fi
