# Tacit. `make demo` and `make test` do all the set-up they need.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Two test processes, one thread each: BLAS threads on small matrices only get in each other's way.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: help demo setup test test-all test-hard test-extras test-commonroad audit lint docs bench results recordings lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.core  ## discover a hidden constraint, end to end, and write a report
	$(BIN)/tacit demo

setup: $(VENV)/.dev  ## make .venv with everything that the tests need

test: $(VENV)/.dev lint  ## lint, type check and the whole test suite (minutes)
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(VENV)/.dev lint  ## also the long tests
	$(BIN)/python -m pytest -n 2

# In one process: the moments are shares of the time that the job takes undisturbed.
test-hard: $(VENV)/.dev  ## more than fifty kills at random moments (part of test-all; minutes)
	$(BIN)/python -m pytest -m slow tests/test_kill.py --durations=8 $(HARD_OPTIONS)

# torch by itself first, at its pinned version: a plain `torch` would bring gigabytes of CUDA.
test-extras:  ## what needs torch with Stable-Baselines3, Ray, W&B or rliable, in an environment of its own (minutes)
	test -x .venv-extras/bin/python || $(PYTHON) -m venv .venv-extras
	sed -n 's/ \\$$//; /^[a-z].*==/p' requirements/dev.lock > .venv-extras/constraints.txt
	.venv-extras/bin/python -m pip --disable-pip-version-check install -q torch==2.13.0
	.venv-extras/bin/python -m pip --disable-pip-version-check install -q -c .venv-extras/constraints.txt \
	  -e '.[sb3,ray,wandb,onnx,minari,tensorboard]' rliable 'pandas<3' pytest hypothesis
	.venv-extras/bin/python -c 'import ray, rliable.library, stable_baselines3, wandb'
	.venv-extras/bin/python -m pytest tests/interop/test_sb3.py tests/test_rliable.py tests/sweep/test_sweep_ray.py
	.venv-extras/bin/python -m pytest tests/test_docs.py tests/run/test_sinks.py -k "sb3 or wandb_offline"

# It pins an older commonroad-io.
test-commonroad:  ## the traffic's geometry against commonroad-drivability-checker, in an environment of its own
	test -x .venv-commonroad/bin/python || $(PYTHON) -m venv .venv-commonroad
	.venv-commonroad/bin/python -m pip --disable-pip-version-check install -q -e '.[commonroad]' pytest hypothesis
	.venv-commonroad/bin/python -c 'import commonroad_dc.pycrcc'
	.venv-commonroad/bin/python -m pytest tests/envs/test_traffic_geometry.py -k commonroad

audit: $(VENV)/.dev  ## lock files against pyproject.toml, and known vulnerabilities of what they pin (needs a network)
	@test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && \
	  .venv-audit/bin/python -m pip --disable-pip-version-check install -q pip-audit; } \
	  || echo "pip-audit could not be installed" >&2
	$(BIN)/python tools/audit.py .venv-audit/bin/pip-audit

lint: $(VENV)/.dev  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.dev  ## the documentation as a site in site/, to be opened from the disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

results: $(VENV)/.dev  ## measure the exact method's results again; the others are `tacit reproduce NAME` (minutes)
	$(BIN)/tacit reproduce exact-stochasticity
	$(BIN)/python -m benchmarks exact --out results/bench-exact.json

recordings:  ## simulate the shipped traffic recordings again, with SUMO in an environment of its own, and compare (minutes)
	test -x .venv-recordings/bin/python || $(PYTHON) -m venv .venv-recordings
	.venv-recordings/bin/python -m pip --disable-pip-version-check install -q '.[recordings]'
	rm -rf build/recordings && mkdir -p build/recordings
	.venv-recordings/bin/python -m tacit.envs.traffic.sumo --out build/recordings --against src/tacit/envs/traffic/data

bench: $(VENV)/.dev  ## speed and scale, printed as ratios
	$(BIN)/python -m benchmarks

lock:  ## resolve the dependencies anew (needs uv)
	uv pip compile pyproject.toml --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --python-version 3.11 -q --upgrade -o requirements/core.lock
	uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --python-version 3.11 -q --upgrade -o requirements/dev.lock

clean:  ## remove the environment and caches (runs are kept)
	rm -rf $(VENV) .venv-extras .venv-audit .venv-commonroad .venv-recordings build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Tacit needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A lock file is its own constraint, too: for `etils[epath]`, which MuJoCo asks for, pip would look for the newest release
# although `etils` is pinned, and find that it has no hash.
#
# The package itself is installed last and editable, so that a `git pull` needs no new set-up unless the lock changed.
$(VENV)/.core: requirements/core.lock pyproject.toml | $(BIN)/python
	$(PIP) install -q --require-hashes -r requirements/core.lock -c requirements/core.lock
	$(PIP) install -q --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.core | $(BIN)/python
	$(PIP) install -q --require-hashes -r requirements/dev.lock -c requirements/dev.lock
	@touch $@
