# `make help` lists the targets. Everything is made inside the checkout: .venv, .venv-peers and build/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

PYTHON ?=
STAGE ?= 3
SHORT ?=
BUNDLE ?= build/device
ARGS ?=
PREFIX ?= build/install

PY := .venv/bin/python
# .venv first: it holds cmake and ninja where the distribution's are missing or too old.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Paths relative to the checkout, so that a second clone finds the first one's compilations.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

NOT_FOR_TEST := not long and not gpu and not peers

.PHONY: help setup build install test demo lint format bench peers test-peers test-model test-long test-gpu \
  device-bundle asan tsan docs wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16
	@echo
	@echo 'PYTHON=/path/python  make .venv on top of that Python and its torch (>= 2.11)'

setup: ## install what is missing: system packages (where allowed) and .venv
	@tools/setup.sh $(if $(PYTHON),--python $(PYTHON))

build/cmake/build.ninja: | setup
	cmake -G Ninja -S . -B build/cmake -DSHOAL_BUILD_TORCH=ON -DPython_EXECUTABLE=$(CURDIR)/$(PY)

build: setup build/cmake/build.ninja ## build the libraries, the Python module and the C++ tests
	@ninja -C build/cmake

install: build ## install the C++ package to PREFIX (default build/install)
	cmake --install build/cmake --component cxx --prefix $(PREFIX)

test: build ## run every C++ and Python test but the long ones
	ctest --test-dir build/cmake --output-on-failure -j 2 -LE long
	$(PY) -m pytest tests/python -m "$(NOT_FOR_TEST)" $(ARGS)

demo: build ## train a small GPT on two ranks (STAGE=0..3, SHORT=1 for a minute)
	$(PY) examples/demo/run.py --stage $(STAGE) $(if $(SHORT),--short)

lint: build ## formatting, static checks, layering, types, public surface
	$(PY) tools/lint.py $(ARGS)

format: setup ## rewrite sources in the project's style
	git ls-files 'src/*.h' 'src/*.cc' 'tests/*.cc' | xargs -r .venv/bin/clang-format -i
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

bench: build ## run the benchmarks, one JSON file each in build/bench
	$(PY) tools/bench.py $(ARGS)

peers: setup ## make .venv-peers with what Shoal is compared with
	@tools/setup_peers.sh

# pytest ends with 5 when no test carries the marker; that is said and is no failure.
define run_marked
	@rc=0; $(1) -m pytest tests -m "$(2)" $(ARGS) || rc=$$?; \
	if [ $$rc -eq 5 ]; then echo "make $@: no test is marked '$(2)': nothing ran"; else exit $$rc; fi
endef

test-peers: build peers ## run the tests that compare with peers
	$(call run_marked,.venv-peers/bin/python,peers)

test-model: build ## run the model-based tests (random operation sequences against a model)
	$(call run_marked,$(PY),model)

test-long: build ## run the tests that take minutes each
	ctest --test-dir build/cmake --output-on-failure -L long
	$(call run_marked,$(PY),long)

test-gpu: ## on a GPU host: build torch/ and bindings/ from BUNDLE against its torch, run the GPU tests
	@PYTHON="$(or $(PYTHON),python3)" tools/test_gpu.sh $(BUNDLE) $(ARGS)

device-bundle: build ## make build/device: what a GPU host without network needs (<= 50 MiB)
	$(PY) tools/device_bundle.py build/device

asan: setup ## run the torch-free tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/sanitize.sh asan address,undefined

tsan: setup ## run the torch-free tests under ThreadSanitizer
	@tools/sanitize.sh tsan thread

docs: build ## build the documentation site into site/
	$(PY) -m pip install --quiet --disable-pip-version-check -r tools/requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "docs: open site/index.html"

wheel: setup ## build the wheel into dist/
	$(PY) -m pip wheel . --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist

clean: ## remove what was built; .venv stays
	rm -rf build dist site python/shoal/*.so python/shoal/_build_info.py .mypy_cache .ruff_cache .pytest_cache
