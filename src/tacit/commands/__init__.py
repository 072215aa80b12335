"""The commands: one module per verb, with a function of the same name whose parameters are the options.

A module's docstring is the text of `tacit VERB --help`. A module that needs more than a function has `main(args)`. What
the modules share is here: calling a typed function with command-line arguments, finding a run folder, printing results.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import tyro

from tacit import startup
from tacit.envs.families import Options as Kwargs
from tacit.errors import UserError
from tacit.run import Run, storage
from tacit.run.find import find_run
from tacit.run.log import say
from tacit.run.terminal import clean, raw

if TYPE_CHECKING:
    from rich.table import Table

# Positional arguments with their names in capitals, as the help texts write them.
RUN_HELP = "Run folder, the beginning of its name within ./runs, or `latest`."
RunPath = Annotated[str, tyro.conf.arg(metavar="RUN", help=RUN_HELP)]
FilePath = Annotated[str, tyro.conf.arg(metavar="FILE")]
EnvId = Annotated[str, tyro.conf.arg(metavar="ENV")]
open_run = find_run
REPEATED = ("--env", "--columns")
"""Options with KEY=VALUE pairs."""
OLD_NAMES = {"--option": "--env", "--in-env": "--env"}
NO_DEFAULT = tyro.conf.arg(help_behavior_hint="")
"""Marks an option whose default is not shown."""
_numbers = tyro.constructors.ConstructorRegistry()


@_numbers.primitive_rule
def _whole_number(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[int] | None:
    """Integers, also written as 1e4."""
    if info.type is not int:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: _whole(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def _whole(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        value = float(word)
        if not value.is_integer():
            raise ValueError(f"{word} is not a whole number") from None
        return int(value)


_words: ContextVar[tuple[str, ...]] = ContextVar("words after `tacit`", default=())


def run(verb: str, args: list[str]) -> int:
    """Run a command; returns its exit status."""
    module = import_module(f"tacit.commands.{verb}")
    startup.loaded()
    _words.set((verb, *args))
    if hasattr(module, "main"):
        return int(module.main(args) or 0)
    return int(call(getattr(module, verb), verb, module.__doc__, args) or 0)


def command_line() -> str:
    """The command that is running, as a user would type it."""
    return shlex.join(["tacit", *_words.get()])


def asks_for_help(args: Sequence[str]) -> bool:
    """Whether the arguments ask for help, or for all of it."""
    return bool({"-h", "--help", "--help-all"} & set(args))


def call(
    target: Callable[..., Any] | dict[str, Callable[..., Any]],
    verb: str,
    doc: str | None,
    args: list[str],
    style: Sequence[Any] = (tyro.conf.FlagCreatePairsOff,),
) -> Any:
    """Parse `args` by the signature of a function, or of the one its first word names, and call it."""
    prog, text = f"tacit {verb}", (doc or "").strip()
    if asks_for_help(args):  # our own texts, in colour
        sys.stdout = raw(sys.stdout)
    args = gathered(["--help" if arg == "--help-all" else arg for arg in args])
    text += "\n\nEvery command takes -q (only the result, warnings and errors) and -v (also name the files it uses)."
    for function in target.values() if isinstance(target, dict) else (target,):
        _hide_empty_defaults(function)
    verbs = [arg for arg in args[:1] if isinstance(target, dict) and arg in target]
    called = target[verbs[0]] if isinstance(target, dict) and verbs else target
    if callable(called) and next(iter(inspect.signature(called).parameters), "") == "env":
        args = verbs + environment_in_front(args[len(verbs) :])
    with _numbers:
        if isinstance(target, dict):
            return tyro.extras.subcommand_cli_from_dict(target, prog=prog, description=text, args=args, config=style)
        return tyro.cli(target, prog=prog, description=text, args=args, config=style)


def _hide_empty_defaults(function: Callable[..., Any]) -> None:
    """Leave "(default: None)" and "(default: False)" out of the help, because they say nothing."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is None or parameter.default is False or parameter.default in ((), ""):
            function.__annotations__[name] = Annotated[hints[name], NO_DEFAULT]


def gathered(args: Sequence[str]) -> list[str]:
    """The arguments with the values of a repeated option gathered behind the first one; else the last would win."""
    result: list[str] = []
    values: dict[str, list[str]] = {}
    current: list[str] | None = None
    for arg in args:
        name, equals, value = arg.partition("=")
        if name in OLD_NAMES:
            say(f"warning: {name} is now {OLD_NAMES[name]}")
            name = OLD_NAMES[name]
        if name in REPEATED:
            if name not in values:
                values[name] = []
                result.append(name)
            current = values[name]
            current += [value] if equals else []
        elif current is not None and not arg.startswith("-"):
            current.append(arg)
        else:
            current = None
            result.append(arg)
    return [word for arg in result for word in ((arg, *values[arg]) if arg in values else (arg,))]


def environment_in_front(args: Sequence[str]) -> list[str]:
    """The arguments of a command that begins with ENV, where ENV may stand behind --env instead."""
    args = gathered(args)
    if "--env" not in args:
        return args
    start = args.index("--env") + 1
    end = next((i for i in range(start, len(args)) if args[i].startswith("-")), len(args))
    name, pairs = _named(args[start:end])
    if name is None:
        return args
    in_front = None if args[0].startswith("-") else args[0]
    if name.isidentifier() or in_front not in (None, name):
        raise UserError(f"--env takes KEY=VALUE pairs such as slip=0.1, or the environment; {name!r} is neither")
    rest = [*args[: start - 1], *(["--env", *pairs] if pairs else []), *args[end:]]
    return rest if in_front else [name, *rest]


def _named(words: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The environment and the KEY=VALUE pairs among the words behind --env."""
    names = list(dict.fromkeys(word for word in words if "=" not in word))
    if len(names) > 1:
        raise UserError(f"--env names {names[0]} and {names[1]}: give files before the options, and one environment")
    return (names[0] if names else None), tuple(word for word in words if "=" in word)


def require_finished(run: Run) -> None:
    """UserError for a run that is not finished."""
    if not run.done:
        raise UserError(f"{run.path} is not finished: continue it with `tacit resume {run.path}`")


def check_folder(option: str, folder: Path) -> None:
    """UserError if nothing can be written there. Call it before the work, so that no work is lost."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"{option} {folder}: {there} is a file, not a folder")
    if not os.access(there, os.W_OK):
        raise UserError(f"{option} {folder}: nothing can be written into {there}")


def key_values(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """{"slip": 0.1, "layout": "paper"} from ["slip=0.1", "layout=paper"]; values are JSON where they parse as such."""
    result: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(f"{option} takes KEY=VALUE pairs such as slip=0.1, not {pair!r}")
        if key in result:
            raise UserError(f"{option} gives {key} twice")
        try:
            result[key] = json.loads(value)
        except ValueError:
            result[key] = value
    return result


@dataclass(frozen=True)
class EnvOptions:
    """Options of the environment. The most common ones have names of their own."""

    layout: Annotated[str | None, tyro.conf.arg(metavar="MAP"), NO_DEFAULT] = None
    """Gridworld: built-in map (`tacit envs --layouts`) or map file."""
    slip: Annotated[float | None, tyro.conf.arg(metavar="FLOAT"), NO_DEFAULT] = None
    """Gridworld: probability that an action is ignored."""
    recordings: Annotated[str | None, tyro.conf.arg(metavar="DIR"), NO_DEFAULT] = None
    """Highway: folder with recordings (highD's CSV files, CommonRoad XML) instead of the simulated ones of Tacit."""
    env: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE"), NO_DEFAULT] = ()
    """Any option of the environment, such as moves=8 horizon=100. Where a command takes ENV, it may stand here."""

    def named(self) -> tuple[str | None, EnvOptions]:
        """The environment that --env names, and the options without it."""
        name, pairs = _named(self.env)
        return name, replace(self, env=pairs)

    def given(self) -> Kwargs:
        """The options that were given, as keyword arguments of the environment."""
        given = key_values(self.env, "--env")
        for key, value in (("layout", self.layout), ("slip", self.slip), ("recordings", self.recordings)):
            if value is not None and given.setdefault(key, value) != value:
                raise UserError(f"--{key} and --env {key}=... contradict each other; give one of them")
        return given


# In a box of their own, without a prefix: --slip, not --environment.slip.
Options = Annotated[EnvOptions, tyro.conf.arg(name="environment"), tyro.conf.OmitArgPrefixes]


def print_json(obj: object) -> None:
    """Print JSON for machines. Non-finite numbers are the strings "NaN", "Infinity", "-Infinity"."""
    print(storage.to_json(obj, indent=2))


def print_table(table: Table) -> None:
    from rich.console import Console

    table.title = clean(table.title) if isinstance(table.title, str) else table.title
    for column in table.columns:
        column.header = clean(str(column.header))
        column._cells[:] = [clean(str(cell)) for cell in column._cells]
    # Brackets, as in '.[deep]', are text here and not markup.
    Console(file=raw(sys.stdout), highlight=False, markup=False).print(table)


def fits(table: Table) -> bool:
    """Whether the terminal is wide enough to show the table without breaking words and numbers."""
    from rich.console import Console

    first, *others = table.columns
    for column in others:
        column.min_width = max(map(len, [*str(column.header).split(), *map(str, column.cells)]))
    needed = max(len(str(cell)) for cell in first.cells) + sum(column.min_width or 0 for column in others)
    return needed + 3 * len(table.columns) <= Console().width  # with padding


def new_table(*columns: str, title: str | None = None) -> Table:
    """A plain table whose first column is text and whose other columns are numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", overflow="fold", no_wrap=not i)
    return table


def number(value: object, digits: int = 4) -> str:
    """A cell of a table: a short number, or a dash if there is none."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:.{digits}g}"


def facts(mapping: Mapping[str, object], title: str | None = None) -> None:
    """Print a table of two columns: names and values."""
    table = new_table("", "", title=title)
    table.show_header = False
    table.columns[1].justify = "left"
    for key, value in mapping.items():
        table.add_row(key, number(value))
    print_table(table)
