"""The algorithms by name. Each is a module, imported when it is asked for, with

Config    a frozen dataclass, a docstring a field: the settings, and the options of `tacit learn NAME`; the default of a
          setting that is added later is what was done without it, because earlier runs are completed with it
run(run, env_id, env_kwargs, demos, config, seed) -> summary      learn inside a run folder, resuming if it was begun
check(env_id, env_kwargs, config)                                 optional: UserError before anything is written
check_demonstrations(env_id, env_kwargs, config, demos)           optional: the same, of settings and demonstrations
settle(config) -> config                                          optional: as the run folder keeps it, after the check
bring(run, config)                                                optional: copies of files that only the settings name
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from tacit import presets
from tacit.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tacit.run import Run


@dataclass(frozen=True)
class Algorithm:
    """One line for a list, and where the code is."""

    name: str
    summary: str
    module: str
    learns: bool = True
    """From demonstrations, with `tacit learn`; an expert makes them instead."""
    needs_demos: bool = True
    """False for a reference, which is only measured beside demonstrations where there are any."""
    preset: str | None = None
    """The preset that is used when none is named; None for an algorithm that has none."""

    def load(self) -> ModuleType:
        """The module, with `Config` and `run`."""
        return import_module(self.module)

    def config(self, env_id: str, preset: str | None = None, settings: Mapping[str, Any] | None = None) -> Any:
        """A `Config`: its defaults, what the preset says of this environment, and `settings` on top."""
        preset = preset if preset is not None else self.preset
        chosen = {} if preset is None else presets.load(self.name, preset, env_id)
        config_class = self.load().Config
        make_config(config_class, chosen, f"preset {preset} of {self.name}")  # a mistake there is not the user's
        return make_config(config_class, {**chosen, **(settings or {})}, f"the settings of {self.name}")

    def check(self, env_id: str, env_kwargs: Mapping[str, Any], config: Any, demos: Any = None) -> None:
        """UserError for settings that cannot work, or not with these demonstrations."""
        module = self.load()
        if hasattr(module, "check"):
            module.check(env_id, env_kwargs, config)
        if demos is not None and hasattr(module, "check_demonstrations"):
            module.check_demonstrations(env_id, env_kwargs, config, demos)

    def settle(self, config: Any) -> Any:
        """The settings as the run folder keeps them: files by their content, not by where they lie."""
        settle = getattr(self.load(), "settle", None)
        return config if settle is None else settle(config)

    def bring(self, run: Run, preset: str | None, settings: Mapping[str, Any] | None) -> None:
        """Copy what the settings point to into the run folder, for an algorithm that wants that."""
        bring = getattr(self.load(), "bring", None)
        if bring is not None:
            bring(run, self.config(run.config["env"], preset, settings))


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "mce-exact",
            "maximum causal entropy, solved exactly with a certificate; finite environments with a known model",
            "tacit.inverse.exact_run",
        ),
        Algorithm(
            "ml-greedy",
            "greedy maximum-likelihood constraint inference; finite, deterministic environments with a known model",
            "tacit.inverse.ml_greedy",
        ),
        Algorithm(
            "ml-greedy-causal",
            "its causal version, for finite environments with stochastic dynamics and a known model",
            "tacit.inverse.ml_greedy",
        ),
        Algorithm(
            "mce",
            "maximum causal entropy with PPO and a learned feature network; any environment",
            "tacit.inverse.mce_run",
            preset="reference",
        ),
        Algorithm(
            "bc2l",
            "a binary classifier of demonstrations against the learner as cost; any environment",
            "tacit.inverse.bc2l",
            preset="reference",
        ),
        Algorithm(
            "irl-correction",
            "inverse reinforcement learning on a correction of the reward; any environment",
            "tacit.inverse.irl_correction",
            preset="reference",
        ),
        Algorithm(
            "bc",
            "behaviour cloning, the cheap reference; any environment",
            "tacit.inverse.bc",
            preset="reference",
        ),
        Algorithm(
            "ppo",
            "PPO on the reward alone, the lower reference; any environment",
            "tacit.forward.ppo_reference",
            needs_demos=False,
            preset="reference",
        ),
        Algorithm(
            "rcpo",
            "reward-constrained policy optimisation with the true cost, the upper reference; any environment",
            "tacit.forward.rcpo",
            needs_demos=False,
            preset="reference",
        ),
        Algorithm(
            "gacl",
            "a discriminator by adversarial training, PPO on reward + log D; any environment",
            "tacit.inverse.gacl",
            preset="reference",
        ),
        Algorithm(
            "me-icrl",
            "maximum entropy with a feasibility network and PPO-Lagrangian (Malik 2021); any environment",
            "tacit.inverse.me_icrl",
            preset="reference",
        ),
        Algorithm(
            "vicrl",
            "a Beta posterior of feasibility and PPO-Lagrangian (Liu 2023); any environment",
            "tacit.inverse.vicrl",
            preset="reference",
        ),
        Algorithm(
            "retrain",
            "a fresh agent with a frozen cost, to test or to transfer it",
            "tacit.forward.retrain",
            learns=False,
            preset="reference",
        ),
        Algorithm(
            "expert",
            "PPO with the true cost, to make demonstrations",
            "tacit.forward.expert",
            learns=False,
            preset="expert",
        ),
    )
}


def find(name: str) -> Algorithm:
    """The algorithm of that name; UserError with the nearest name otherwise."""
    if name not in ALGORITHMS:
        raise UserError(f"there is no algorithm {name!r}; {did_you_mean(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def make_config(config_class: type, settings: Mapping[str, Any], where: str) -> Any:
    """A Config from plain JSON or TOML; UserError for settings that it does not have, or of another type."""
    kinds = get_type_hints(config_class)
    known = [field.name for field in dataclasses.fields(config_class)]
    values = {}
    for name, value in settings.items():
        if name not in known:
            raise UserError(f"{where}: this version does not know {name!r}; {did_you_mean(name, known)}")
        try:
            values[name] = _as_kind(value, kinds[name])
        except (TypeError, OverflowError):
            raise UserError(f"{where}: {name} is {value!r}, {_wanted(kinds[name])}") from None
    return config_class(**values)


def _wanted(kind: Any) -> str:
    """What a field of that type takes, for a message."""
    if get_origin(kind) is Literal:
        return f"not one of {', '.join(map(str, get_args(kind)))}"
    return f"which is not of type {kind.__name__ if isinstance(kind, type) else str(kind).replace('typing.', '')}"


def _as_kind(value: Any, kind: Any) -> Any:
    """`value` as a field of that type holds it; TypeError when it does not fit.

    Neither JSON nor TOML has tuples, and people write 1 for 1.0: equal settings must give equal run folders.
    """
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for one in args:
            try:
                return _as_kind(value, one)
            except TypeError:
                continue
    elif origin is Literal:
        if any(value == one and type(value) is type(one) for one in args):
            return value
    elif origin is tuple and isinstance(value, list | tuple):
        each = args[:1] * len(value) if args[1:] == (...,) else args
        if len(each) == len(value):
            return tuple(_as_kind(v, one) for v, one in zip(value, each, strict=True))
    elif kind is float and type(value) in (int, float):
        return float(value)
    elif kind is Any or type(value) in (kind, origin):
        return value
    raise TypeError
