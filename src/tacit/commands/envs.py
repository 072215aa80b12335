"""List the environments with their hidden constraint, horizon and spaces.

All of them are Gymnasium environments: gymnasium.make(ID, ...) after `import tacit`.
The true cost of a step is info["cost"]; learners never read it.
Packages add environments by entry points of the group "tacit.environments".

Examples:
  tacit envs                       everything
  tacit envs gridworld             environments whose name contains a word
  tacit envs --layouts             the built-in maps of the gridworld, drawn
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import tyro

from tacit.commands import new_table, number, print_json, print_table
from tacit.envs.families import describe_envs, load_plugins
from tacit.envs.gridworld import make_spec
from tacit.envs.gridworld_map import layout_names
from tacit.errors import UserError, install_command


def envs(
    name: Annotated[str, tyro.conf.arg(metavar="[WORD]")] = "", /, *, layouts: bool = False, json: bool = False
) -> None:
    """List environments.

    Args:
        name: List only environments whose id contains this word.
        layouts: List the built-in maps of the gridworld instead.
        json: Print JSON.
    """
    if layouts:
        return _layouts(json)
    load_plugins()
    everything = describe_envs()
    infos = [info for info in everything if name.lower() in info.id.lower()]
    if not infos:
        ids = ", ".join(info.id for info in everything)
        raise UserError(f"no environment has {name!r} in its name; there are {ids}")
    if json:
        return print_json([asdict(info) for info in infos])
    table = new_table("id", "hidden constraint", "horizon", "observation", "action")
    for column in table.columns:
        column.justify = "left"
    for info in infos:
        table.add_row(info.id, info.constraint, number(info.horizon), info.observation, info.action)
    print_table(table)
    for extra in sorted({info.extra for info in infos if info.extra is not None}):
        names = ", ".join(info.id.rsplit("/", 1)[-1] for info in infos if info.extra == extra)
        print(f"for {names}: {install_command(extra)}")


def _layouts(json: bool) -> None:
    specs = [make_spec(name) for name in layout_names()]
    if json:
        return print_json([{"layout": s.name, "description": s.description, "map": list(s.rows)} for s in specs])
    for spec in specs:
        print(f"{spec.name}: {spec.description}", *spec.rows, "", sep="\n")
