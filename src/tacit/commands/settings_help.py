"""The settings of an algorithm in help texts: the first ten, or all of them in groups. (Not a command itself.)

For Tacit's algorithms `tacit.presets.settings` says enough, so that help needs none of the packages that they need. For
one of your own the source of its `Config` says the same.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from tacit import presets
from tacit.algorithms import Algorithm
from tacit.presets import settings

ALL = "--help-all"
FIRST = (
    *(
        "total_steps",
        "inputs",
        "use_action",
        "features",
        "bootstrap_steps",
        "demonstrations",
        "start",
        "margin",
        "budget",
    ),
    *("multiplier", "beta", "gamma", "lr", "n_envs", "threads", "hidden", "eval_episodes", "objective", "layers"),
)
"""Settings that people change first, in this order. Those that an algorithm lacks are skipped."""
MOST_FIRST = 10
Setting = tuple[Any, Any]
"""(type, default)"""


def config_for_help(algorithm: Algorithm, env_id: str, preset: str | None, args: list[str]) -> Any:
    """An object with the options of the algorithm's `Config`, in groups; None if its source cannot be read."""
    chosen = {} if preset is None else presets.load(algorithm.name, preset, env_id)
    try:
        hints, family = _declared(algorithm)
    except OSError:
        return None
    docs = {name: doc for part in reversed(family) for name, doc in part.docs.items()}  # the most special one counts
    unused = _unused(algorithm, hints, chosen)
    first = [name for name in hints if name not in unused]
    if len(first) > MOST_FIRST:
        first = [name for name in FIRST if name in first][:MOST_FIRST]
    more = f" --help-all shows {len(hints) - len(first)} more." if len(first) < len(hints) and ALL not in args else ""
    groups, grouped = {"first": (f"What people change first.{more}", first)}, set(first)
    for part in family if ALL in args else ():
        rest = [name for name in part.docs if name not in grouped]
        grouped |= set(rest)
        groups |= {part.name: (part.text, rest)} if rest else {}
    if ALL in args and len(grouped) < len(hints):
        groups["more"] = ("", [name for name in hints if name not in grouped])
    boxes: list[Any] = []
    for title, (text, names) in groups.items():
        box = _box(title, names, hints, docs, chosen)
        marked: Any = Annotated[box, tyro.conf.arg(name=title, help=text), tyro.conf.OmitArgPrefixes]
        boxes.append((title, marked, box()))
    return dataclasses.make_dataclass("Settings", boxes, frozen=True)()


def _unused(algorithm: Algorithm, hints: Mapping[str, Setting], chosen: Mapping[str, Any]) -> set[str]:
    """Settings that have no effect with the settings of the preset."""
    ways = settings.UNUSED.get(algorithm.name, {})
    values = {choice: chosen.get(choice, hints[choice][1]) for choice in ways}
    return {name for choice, value in values.items() for name in ways[choice][value]}


def _declared(algorithm: Algorithm) -> tuple[dict[str, Setting], list[_Part]]:
    """({setting: (type, default)}, the classes that declare them, the most derived one first)."""
    typed = settings.SETTINGS.get(algorithm.name)
    if typed is not None:
        hints = get_type_hints(typed, include_extras=True)
        return {name: get_args(hint)[:2] for name, hint in hints.items()}, _family(typed.__name__)
    config = algorithm.load().Config
    hints = get_type_hints(config, include_extras=True)
    default = config()
    sources = [inspect.getsource(base) for base in config.__mro__[:-1] if hasattr(base, "__dataclass_fields__")]
    parts = [_part(ast.parse(textwrap.dedent(source)).body[0]) for source in sources]
    return {one.name: (hints[one.name], getattr(default, one.name)) for one in dataclasses.fields(config)}, parts


def _box(
    title: str, names: list[str], hints: Mapping[str, Setting], docs: Mapping[str, str], chosen: Mapping[str, Any]
) -> type:
    """One box of the help: a dataclass whose defaults are those of the preset."""
    fields: list[Any] = []
    for name in names:
        kind, default = hints[name]
        value = chosen.get(name, default)
        value = tuple(value) if isinstance(value, list) else value
        text = docs.get(name, "")
        if value is True:  # the flag is --no-NAME
            text = f"Turn this off: {text or name}"
        marked = tyro.conf.arg(help=text, help_behavior_hint="" if isinstance(value, bool) or value == () else None)
        fields.append((name, Annotated[kind, marked], value))
    return dataclasses.make_dataclass(title, fields, frozen=True)


@dataclasses.dataclass(frozen=True)
class _Part:
    """A class of settings, read from its source."""

    name: str
    bases: list[str]
    text: str
    docs: dict[str, str]
    """The texts of the settings that the class itself declares."""


def _family(name: str) -> list[_Part]:
    """A class of settings and its base classes, the most derived one first."""
    family, waiting = [], [name]
    while waiting:
        part = _parts().get(waiting.pop(0))
        if part is not None and part not in family:
            family.append(part)
            waiting += part.bases
    return family


@cache
def _parts() -> dict[str, _Part]:
    nodes = [node for node in ast.parse(inspect.getsource(settings)).body if isinstance(node, ast.ClassDef)]
    return {node.name: _part(node) for node in nodes}


def _part(node: ast.AST) -> _Part:
    assert isinstance(node, ast.ClassDef)
    docs = {
        ast.unparse(field.target): " ".join(ast.literal_eval(after.value).split())
        for field, after in pairwise(node.body)
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr)
    }
    return _Part(node.name, [ast.unparse(base) for base in node.bases], ast.get_docstring(node) or "", docs)
