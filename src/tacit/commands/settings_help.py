"""The settings of an algorithm in help texts: the first ten, or all of them in groups. (Not a command itself.)

What `tacit.presets.settings` says is enough, so that help needs none of the packages that the algorithm needs.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from tacit import presets
from tacit.algorithms import Algorithm
from tacit.presets import settings

FEW, ALL = ("-h", "--help"), "--help-all"
FIRST = (
    *("total_steps", "inputs", "use_action", "budget", "demonstrations", "joint", "start", "margin", "multiplier"),
    *("beta", "gamma", "lr", "n_envs", "threads", "hidden", "eval_episodes", "objective", "layers"),
)
"""What people change first, in this order, as far as an algorithm has it."""
MOST_FIRST = 10


def wanted(args: list[str]) -> bool:
    """Whether help is asked for."""
    return any(arg in (*FEW, ALL) for arg in args)


def config_for_help(algorithm: Algorithm, env_id: str, preset: str | None, args: list[str]) -> Any:
    """In place of the algorithm's `Config`, an object with the same options in groups; None for one of your own."""
    if algorithm.name not in settings.SETTINGS:
        return None
    declared = settings.SETTINGS[algorithm.name]
    hints = get_type_hints(declared, include_extras=True)
    chosen = {} if preset is None else presets.load(algorithm.name, preset, env_id)
    family = _family(declared.__name__)
    docs = {name: doc for part in reversed(family) for name, doc in part.docs.items()}  # the most special one counts
    first = list(hints) if len(hints) <= MOST_FIRST else [name for name in FIRST if name in hints][:MOST_FIRST]
    more = f" --help-all shows {len(hints) - len(first)} more." if len(first) < len(hints) and ALL not in args else ""
    groups, shown = {"first": (f"What people change first.{more}", first)}, set(first)
    for part in family if ALL in args else ():
        rest = [name for name in part.docs if name not in shown]
        shown |= set(rest)
        groups |= {part.name: (part.text, rest)} if rest else {}
    boxes: list[Any] = []
    for title, (text, names) in groups.items():
        box = _box(title, names, hints, docs, chosen)
        marked: Any = Annotated[box, tyro.conf.arg(name=title, help=text), tyro.conf.OmitArgPrefixes]
        boxes.append((title, marked, box()))
    return dataclasses.make_dataclass("Settings", boxes, frozen=True)()


def _box(
    title: str, names: list[str], hints: Mapping[str, Any], docs: Mapping[str, str], chosen: Mapping[str, Any]
) -> type:
    """One box of the help: a dataclass whose defaults are those of the preset."""
    fields: list[Any] = []
    for name in names:
        kind, default = get_args(hints[name])[:2]
        value = chosen.get(name, default)
        value = tuple(value) if isinstance(value, list) else value
        fields.append((name, Annotated[kind, tyro.conf.arg(help=docs[name])], value))
    return dataclasses.make_dataclass(title, fields, frozen=True)


@dataclasses.dataclass(frozen=True)
class _Part:
    """One class of `tacit.presets.settings`, as it is written there."""

    name: str
    bases: list[str]
    text: str
    docs: dict[str, str]
    """Of the settings that the class itself declares."""


def _family(name: str) -> list[_Part]:
    """A class of settings and those that it is made of, the most special first."""
    family, waiting = [], [name]
    while waiting:
        part = _parts().get(waiting.pop(0))
        if part is not None and part not in family:
            family.append(part)
            waiting += part.bases
    return family


@cache
def _parts() -> dict[str, _Part]:
    parts = {}
    for node in ast.parse(inspect.getsource(settings)).body:
        if isinstance(node, ast.ClassDef):
            docs = {
                ast.unparse(field.target): " ".join(ast.literal_eval(after.value).split())
                for field, after in pairwise(node.body)
                if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr)
            }
            bases = [ast.unparse(base) for base in node.bases]
            parts[node.name] = _Part(node.name, bases, ast.get_docstring(node) or "", docs)
    return parts
