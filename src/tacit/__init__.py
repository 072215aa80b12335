"""Tacit: learn the constraints that nobody wrote down.

    import gymnasium, tacit                                   # registers tacit/Gridworld-v0 and all others
    from tacit import MDP, solve                              # the exact method on any finite MDP
    learned = tacit.learn("tacit/Pendulum-v0")                # the deep method on any environment
    data = tacit.demos.load("expert.npz")                     # every part of the package by its name

Importing this package registers the environments and does nothing else; the names below load their module when used.
"""

# ruff: noqa: E402  (the first import takes the current folder out of the search for all others)
from tacit import startup

startup.begin()

from importlib import import_module
from typing import TYPE_CHECKING, Any

import tacit.envs as envs
from tacit import moved

__version__ = "0.2.0"

_MODULE_OF = {
    "MDP": "tacit.tabular",
    "Solution": "tacit.tabular",
    "solve": "tacit.tabular",
    "GridworldSpec": "tacit.envs.gridworld",
    "make_spec": "tacit.envs.gridworld",
    "Demonstrations": "tacit.demos",
    "Trajectory": "tacit.demos",
    "LearnedCost": "tacit.cost",
    "load_cost": "tacit.cost",
    "CostWrapper": "tacit.envs.wrappers",
    "ShieldWrapper": "tacit.envs.wrappers",
    "VectorCostWrapper": "tacit.envs.wrappers",
    "Run": "tacit.run",
    "Learned": "tacit.learned",
    "learn": "tacit.learned",
    "UserError": "tacit.errors",
    "RunFailed": "tacit.errors",
}

MODULES = ("algorithms", "cost", "demos", "evaluate", "plots", "policy", "presets", "run", "tabular")
"""What `import tacit` offers as tacit.NAME, imported when it is used."""

__all__ = ["MDP", "Demonstrations", "GridworldSpec", "Run", "RunFailed", "Solution", "Trajectory", "UserError"]
__all__ += ["Learned", "__version__", "envs", "learn", "make_spec", "solve"]
__all__ += ["CostWrapper", "LearnedCost", "ShieldWrapper", "VectorCostWrapper", "load_cost"]

if TYPE_CHECKING:
    from tacit import algorithms as algorithms
    from tacit import cost as cost
    from tacit import demos as demos
    from tacit import evaluate as evaluate
    from tacit import plots as plots
    from tacit import policy as policy
    from tacit import presets as presets
    from tacit import run as run
    from tacit import tabular as tabular
    from tacit.cost import LearnedCost, load_cost
    from tacit.demos import Demonstrations, Trajectory
    from tacit.envs.gridworld import GridworldSpec, make_spec
    from tacit.envs.wrappers import CostWrapper, ShieldWrapper, VectorCostWrapper
    from tacit.errors import RunFailed, UserError
    from tacit.learned import Learned, learn
    from tacit.run import Run
    from tacit.tabular import MDP, Solution, solve


moved.install()


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"tacit.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *MODULES})
