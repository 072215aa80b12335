"""List the environments: the constraint hidden in each, its horizon and its spaces.

All of them are Gymnasium environments: gymnasium.make(ID, ...) after `import tacit`.
The true cost of a step is info["cost"]; learners never read it.

Examples:
  tacit envs                       everything
  tacit envs gridworld             those whose name contains a word
  tacit envs --layouts             the gridworld's built-in maps, drawn
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import tyro

from tacit.commands import call, new_table, print_json, print_table
from tacit.errors import UserError


def envs(
    name: Annotated[str, tyro.conf.arg(metavar="WORD")] = "", /, *, layouts: bool = False, json: bool = False
) -> None:
    """List environments.

    Args:
        name: Show only environments whose id contains this.
        layouts: Show the built-in maps of the gridworld instead.
        json: Print JSON.
    """
    if layouts:
        return _layouts(json)
    from tacit.envs import describe_envs

    known = describe_envs()
    found = [info for info in known if name.lower() in info.id.lower()]
    if not found:
        raise UserError(f"no environment has {name!r} in its name; there are {', '.join(info.id for info in known)}")
    if json:
        return print_json([asdict(info) for info in found])
    table = new_table("id", "hidden constraint", "horizon", "observation", "action")
    for column in table.columns:
        column.justify = "left"
    for info in found:
        table.add_row(info.id, info.constraint, str(info.horizon), info.observation, info.action)
    print_table(table)
    for extra in sorted({info.extra for info in found if info.extra is not None}):
        names = ", ".join(info.id.rsplit("/", 1)[-1] for info in found if info.extra == extra)
        print(f"pip install 'tacit[{extra}]' for {names}")


def _layouts(json: bool) -> None:
    from tacit.envs.gridworld import make_spec
    from tacit.envs.gridworld_map import layout_names

    specs = [make_spec(name) for name in layout_names()]
    if json:
        return print_json([{"layout": s.name, "description": s.description, "map": list(s.rows)} for s in specs])
    for spec in specs:
        print(f"{spec.name}: {spec.description}", *spec.rows, "", sep="\n")


def main(args: list[str]) -> None:
    call(envs, "envs", __doc__, args)
