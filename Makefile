# Tacit. `make demo` and `make test` do all the set-up they need.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# With the hashes of a lock file. It is its own constraint, too: for `etils[epath]`, which MuJoCo asks for, pip would look
# for the newest release although `etils` is pinned, and find that it has no hash.
locked = install -q --require-hashes -r requirements/$(1).lock -c requirements/$(1).lock
# The package itself, built by a back end that is installed already.
EDITABLE := install -q --no-deps --no-build-isolation -e .
# Two test processes, one thread each: BLAS threads on small matrices only get in each other's way.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: help demo setup test test-all test-hard test-extras test-commonroad test-python test-mujoco4 package audit lint docs
.PHONY: bench results recordings lock clean

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

# torch by itself first, at its pinned version: a plain `torch` would bring gigabytes of CUDA. It is the one package
# without a hash, because its builds differ from index to index.
test-extras:  ## what needs torch with Stable-Baselines3, Ray, W&B or rliable, in an environment of its own (minutes)
	test -x .venv-extras/bin/python || $(PYTHON) -m venv .venv-extras
	.venv-extras/bin/python -m pip --disable-pip-version-check install -q torch==2.13.0
	.venv-extras/bin/python -m pip --disable-pip-version-check $(call locked,build)
	.venv-extras/bin/python -m pip --disable-pip-version-check install -q --require-hashes --no-deps -r requirements/extras.lock
	.venv-extras/bin/python -m pip --disable-pip-version-check $(EDITABLE)
	.venv-extras/bin/python -c 'import ray, rliable.library, stable_baselines3, wandb'
	.venv-extras/bin/python -m pytest tests/interop/test_sb3.py tests/interop/test_sb3_update.py tests/test_rliable.py tests/sweep/test_sweep_ray.py tests/cost/test_cost_terms.py
	.venv-extras/bin/python -m pytest tests/test_docs.py tests/run/test_sinks.py -k "sb3 or wandb_offline"

# What the classifiers in pyproject.toml claim.
CORE_TESTS := tests/run tests/cost tests/demos tests/envs tests/forward/test_ppo.py tests/forward/test_late_resets.py \
  tests/inverse/test_solve.py tests/inverse/test_solve_gridworld.py tests/inverse/test_mce.py tests/interop/test_minari.py \
  tests/test_package.py tests/test_layers.py tests/test_learn_api.py
OTHER_PYTHON = .venv-$(shell $(PYTHON) -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
test-python:  ## the core tests with another Python, in an environment of its own: make test-python PYTHON=python3.13
	test -x $(OTHER_PYTHON)/bin/python || $(PYTHON) -m venv $(OTHER_PYTHON)
	$(OTHER_PYTHON)/bin/python -m pip --disable-pip-version-check $(call locked,build)
	$(OTHER_PYTHON)/bin/python -m pip --disable-pip-version-check $(call locked,dev)
	$(OTHER_PYTHON)/bin/python -m pip --disable-pip-version-check $(EDITABLE)
	$(OTHER_PYTHON)/bin/python -m pytest -m "not slow" $(CORE_TESTS)

# Everything from the lock file but MuJoCo itself. It is uninstalled first: versions 3 and 4 share files.
test-mujoco4:  ## the robots with MuJoCo 4, and their demonstrations replayed in it, in an environment of its own
	test -x .venv-mujoco4/bin/python || $(PYTHON) -m venv .venv-mujoco4
	.venv-mujoco4/bin/python -m pip --disable-pip-version-check $(call locked,build)
	.venv-mujoco4/bin/python -m pip --disable-pip-version-check $(call locked,dev)
	.venv-mujoco4/bin/python -m pip --disable-pip-version-check $(EDITABLE)
	.venv-mujoco4/bin/python -m pip --disable-pip-version-check uninstall -q -y mujoco mujoco-core mujoco-studio
	.venv-mujoco4/bin/python -m pip --disable-pip-version-check install -q 'mujoco>=4,<5'
	.venv-mujoco4/bin/python -m pytest tests/envs/test_robots.py tests/envs/test_mujoco_vector.py tests/envs/test_shield.py \
	  tests/envs/test_capabilities.py tests/plots/test_video.py
	.venv-mujoco4/bin/python tools/replay_robots.py

package: .venv-release/.release  ## wheel and source archive in dist/, built by the locked back end and checked
	rm -rf dist
	.venv-release/bin/python -m build --no-isolation
	.venv-release/bin/python -m twine check --strict dist/*

.venv-release/.release: requirements/release.lock
	test -x .venv-release/bin/python || $(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip --disable-pip-version-check $(call locked,release)
	@touch $@

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
	.venv-recordings/bin/python tools/make_recordings.py --out build/recordings --against src/tacit/envs/traffic/data

bench: $(VENV)/.dev  ## speed and scale, printed as ratios
	$(BIN)/python -m benchmarks

COMPILE := uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 -q --upgrade
lock:  ## resolve the dependencies anew (needs uv)
	$(COMPILE) pyproject.toml -o requirements/core.lock
	$(COMPILE) pyproject.toml --extra dev -o requirements/dev.lock
	$(COMPILE) --group build -c requirements/dev.lock -o requirements/build.lock
	$(COMPILE) --group release -c requirements/dev.lock -o requirements/release.lock
	mkdir -p build && echo torch > build/excluded.txt
	$(COMPILE) pyproject.toml --extra sb3 --extra ray --extra wandb --extra onnx --extra minari --extra tensorboard \
	  --group extras -c requirements/dev.lock --excludes build/excluded.txt -o requirements/extras.lock

clean:  ## remove the environment and caches (runs are kept)
	rm -rf $(VENV) .venv-* build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Tacit needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The package itself is installed last and editable, so that a `git pull` needs no new set-up unless the lock changed.
$(VENV)/.core: requirements/core.lock requirements/build.lock pyproject.toml | $(BIN)/python
	$(PIP) $(call locked,core)
	$(PIP) $(call locked,build)
	$(PIP) $(EDITABLE)
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.core | $(BIN)/python
	$(PIP) $(call locked,dev)
	@touch $@
