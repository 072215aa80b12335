"""The algorithms by name: those of Tacit, those of installed packages, and one of your own.

    find("mce")                          one of Tacit's
    find("name")                         of an installed package, which declares the entry point
                                         [project.entry-points."tacit.algorithms"]  name = "package.module:MyMethod"
    find("package.module:MyMethod")      any that can be imported; see docs/own-environment.md#write-an-algorithm

Behind a name is an object (a module, a class without arguments, or an instance) with

Config    a frozen dataclass, a docstring per field: the settings, and the options of `tacit learn NAME`; the default of
          a setting that is added later is what was done without it, because earlier runs are completed with it;
          `Config.UNUSED` (optional) names the settings that another setting makes useless, so that they are refused
train(run, env_id, env_kwargs, demos, config, seed) -> summary    learn inside a run folder, resuming if it was begun
check(env_id, env_kwargs, config)                                 optional: UserError before anything is written
check_demonstrations(env_id, env_kwargs, config, demos)           optional: the same, of settings and demonstrations
settle(config) -> config                                          optional: as the run folder keeps it, after the check
bring(run, config)                                                optional: copies of files that only the settings name

`tacit.inverse.loop.Method` has all of it but the method itself.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module, metadata
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from tacit import presets
from tacit.envs.registry import import_named
from tacit.errors import UserError, did_you_mean, extra_of, install_command
from tacit.run.naming import UNCHANGED, History, Unused

if TYPE_CHECKING:
    from tacit.run import Run

GROUP = "tacit.algorithms"
"""The entry points of installed packages."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: its line in a list, and where its code is."""

    name: str
    summary: str
    target: str
    """The module, or module:Name."""
    learns: bool = True
    """Whether it learns from demonstrations, with `tacit learn`; an expert makes them instead."""
    needs_demos: bool = True
    """False for a reference, which is only measured beside demonstrations where there are any."""
    preset: str | None = None
    """The preset that is used when none is named; None for an algorithm that has none."""

    def load(self) -> Any:
        """The object with `Config` and `train`."""
        module, _, attribute = self.target.partition(":")
        try:
            imported = import_module(module)
        except ModuleNotFoundError as error:
            if (extra := extra_of(error)) is not None and not hasattr(error, "__notes__"):
                error.add_note(f"{self.name} needs it: {install_command(extra)}")
            raise
        return _method(imported, attribute, self.target) if attribute else imported

    @property
    def history(self) -> History:
        """How its settings have changed, for the names of run folders."""
        config_class = self.load().Config
        history: History = getattr(config_class, "HISTORY", UNCHANGED)
        added = [base.__dict__.get("ADDED", {}) for base in config_class.__mro__]
        return replace(history, added={**history.added, **{name: old for part in added for name, old in part.items()}})

    def config(self, env_id: str, preset: str | None = None, settings: Mapping[str, Any] | None = None) -> Any:
        """A `Config`: its defaults, what the preset says of this environment, and `settings` on top."""
        preset = preset if preset is not None else self.preset
        chosen = {} if preset is None else presets.load(self.name, preset, env_id)
        config_class = self.load().Config
        usual = make_config(config_class, chosen, f"preset {preset} of {self.name}")  # a mistake there is ours
        config = make_config(config_class, {**chosen, **(settings or {})}, f"the settings of {self.name}")
        changed = [name for name in settings or () if getattr(config, name, None) != getattr(usual, name, None)]
        self.refuse_unused(config, changed, env_id)
        return config

    def refuse_unused(self, config: Any, changed: Iterable[str], env_id: str) -> None:
        """UserError for one of the settings `changed` that has no effect beside the others."""
        refused = unused(type(config), vars(config))
        for name in changed:
            if name in refused:
                choice = refused[name]
                settings = {preset: presets.load(self.name, preset, env_id) for preset in presets.names(self.name)}
                others = [preset for preset in settings if name not in unused(type(config), settings[preset])]
                instead = f"preset {' or '.join(others)}" if others else f"another {choice}"
                raise UserError(
                    f"{self.name} with {choice} {getattr(config, choice)!r} does not use {name}: leave it out, or "
                    f"choose {instead}"
                )

    def check(self, env_id: str, env_kwargs: Mapping[str, Any], config: Any, demos: Any = None) -> None:
        """UserError for settings that cannot work, or not with these demonstrations."""
        method = self.load()
        if hasattr(method, "check"):
            method.check(env_id, env_kwargs, config)
        if demos is not None and hasattr(method, "check_demonstrations"):
            method.check_demonstrations(env_id, env_kwargs, config, demos)

    def settle(self, config: Any) -> Any:
        """The settings as the run folder keeps them: files by their content, not by where they lie."""
        settle = getattr(self.load(), "settle", None)
        return config if settle is None else settle(config)

    def bring(self, run: Run, preset: str | None, settings: Mapping[str, Any] | None) -> None:
        """Copy what the settings point to into the run folder, for an algorithm that wants that."""
        bring = getattr(self.load(), "bring", None)
        if bring is not None:
            bring(run, self.config(run.config["env"], preset, settings))


def _deep(name: str, summary: str) -> Algorithm:
    """A deep inverse method, in the module of its name."""
    return Algorithm(name, f"{summary}; any environment", f"tacit.inverse.{name.replace('-', '_')}", preset="reference")


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
        _deep("mce", "maximum causal entropy with PPO; the cost is a short sum of tables, or the paper's network"),
        _deep("bc2l", "a binary classifier of demonstrations against the learner as cost"),
        _deep("irl-correction", "inverse reinforcement learning on a correction of the reward"),
        _deep("bc", "behaviour cloning, the cheap reference"),
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
            "box",
            "the box around the demonstrations as constraint, a control without learning; any environment",
            "tacit.forward.box",
            preset="reference",
        ),
        _deep("gacl", "a discriminator by adversarial training, PPO on reward + log D"),
        _deep("me-icrl", "maximum entropy with a feasibility network and PPO-Lagrangian (Malik 2021)"),
        _deep("vicrl", "a Beta posterior of feasibility and PPO-Lagrangian (Liu 2023)"),
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


def find(name: str, *, here: bool = False) -> Algorithm:
    """The algorithm of that name; UserError with the nearest name otherwise.

    With `here` the module of module:Name may also be a file in the current folder. That is for names that a person has
    typed: a name out of a file must not be able to choose code that came along with it.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    module, _, attribute = name.partition(":")
    if attribute:
        import_named(module, here=here, what="the algorithm")
        return _described(name, name, _method(import_module(module), attribute, name))
    installed = {entry.name: entry for entry in entry_points()}
    if name in installed:
        return _installed(installed[name])
    names = [*ALGORITHMS, *installed]
    hint = "" if "." not in name else f" (one of your own is named {name}:MyMethod, after the object in that module)"
    raise UserError(f"there is no algorithm {name!r}; {did_you_mean(name, names)}{hint}")


def every() -> Iterable[Algorithm]:
    """Tacit's algorithms, then those of installed packages. One that cannot be imported is left out."""
    yield from ALGORITHMS.values()
    for entry in entry_points():
        if entry.name not in ALGORITHMS:
            try:
                yield _installed(entry)
            except UserError:
                continue


@cache
def entry_points() -> tuple[metadata.EntryPoint, ...]:
    """What installed packages declare."""
    return tuple(metadata.entry_points(group=GROUP))


def _installed(entry: metadata.EntryPoint) -> Algorithm:
    try:
        return _described(entry.name, entry.value, _instance(entry.load(), entry.value))
    except Exception as error:  # it is somebody else's code: whatever it raises
        raise UserError(f"the algorithm {entry.name} ({entry.value}) cannot be loaded: {error}") from error


def _method(module: ModuleType, attribute: str, name: str) -> Any:
    method = getattr(module, attribute, None)
    if method is None:
        raise UserError(f"{module.__name__} has no {attribute}, so there is no algorithm {name}")
    return _instance(method, name)


def _instance(method: Any, name: str) -> Any:
    """The object itself, made if it is a class. UserError for what is not an algorithm."""
    method = method() if inspect.isclass(method) else method
    missing = [wanted for wanted in ("Config", "train") if not hasattr(method, wanted)]
    if missing:
        lacks = " and no ".join(missing)
        raise UserError(
            f"{name} is not an algorithm: it has no {lacks} (see docs/own-environment.md#write-an-algorithm)"
        )
    if not dataclasses.is_dataclass(method.Config):
        raise UserError(f"{name}.Config must be a dataclass: its fields are the settings")
    return method


def _described(name: str, target: str, method: Any) -> Algorithm:
    summary = getattr(method, "summary", None) or (inspect.getdoc(method) or "an algorithm of your own").splitlines()[0]
    return Algorithm(name, str(summary).rstrip("."), target, needs_demos=bool(getattr(method, "needs_demos", True)))


def make_config(config_class: type, settings: Mapping[str, Any], where: str) -> Any:
    """A Config from plain JSON or TOML; UserError for settings that it does not have, or of another type."""
    kinds = get_type_hints(config_class)
    fields = [field.name for field in dataclasses.fields(config_class)]
    retired = getattr(config_class, "HISTORY", UNCHANGED).retired
    values = {}
    for name, value in settings.items():
        if name in retired:
            only, why = retired[name]
            if (tuple(value) if isinstance(value, list) else value) != only:
                raise UserError(f"{where}: {name} has no effect, because {why}: leave it out")
            continue
        if name not in fields:
            raise UserError(f"{where}: this version does not know {name!r}; {did_you_mean(name, fields)}")
        try:
            values[name] = _as_kind(value, kinds[name])
        except (TypeError, OverflowError):
            raise UserError(f"{where}: {name} is {value!r}, {_wanted(kinds[name])}") from None
    return config_class(**values)


def unused(config_class: type, settings: Mapping[str, Any]) -> dict[str, str]:
    """{setting that has no effect beside these: the one of these that decides it}, by the `Config`'s UNUSED."""
    ways: Unused = getattr(config_class, "UNUSED", {})
    values = {choice: settings.get(choice, getattr(config_class, choice)) for choice in ways}
    return {name: choice for choice, value in values.items() for name in ways[choice].get(value, ())}


def _wanted(kind: Any) -> str:
    """What a field of that type takes, for a message."""
    if get_origin(kind) is Literal:
        return f"not one of {', '.join(map(str, get_args(kind)))}"
    return f"which is not of type {kind.__name__ if isinstance(kind, type) else str(kind).replace('typing.', '')}"


def _as_kind(value: Any, kind: Any) -> Any:
    """`value` as a field of that type holds it; TypeError when it does not fit.

    Neither JSON nor TOML has tuples, and people write 1 for 1.0 and 1e4 for 10000: equal settings must give equal run
    folders.
    """
    value = value.item() if isinstance(value, np.generic) else value
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
        kinds = args[:1] * len(value) if args[1:] == (...,) else args
        if len(kinds) == len(value):
            return tuple(_as_kind(v, one) for v, one in zip(value, kinds, strict=True))
    elif kind is float and type(value) in (int, float):
        return float(value)
    elif kind is int and type(value) is float and value.is_integer():
        return int(value)
    elif kind is Any or type(value) in (kind, origin) or (origin is Mapping and isinstance(value, dict)):
        return value
    raise TypeError
