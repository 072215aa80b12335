"""Measure an experiment again, and write its numbers, table and figure.

  tacit reproduce NAME [--sets N] [--out results]

Writes NAME.json (every repetition, with command, versions and commit), NAME.md (the table) and NAME.png (the figure).
`tacit reproduce --list` says what there is; --redraw makes table and figure anew from the JSON.

Examples:
  tacit reproduce exact-stochasticity
  tacit reproduce exact-stochasticity --sets 3 --out /tmp/quick
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit import storage
from tacit.commands import call
from tacit.errors import UserError

Name = Annotated[str | None, tyro.conf.arg(metavar="NAME")]


def main(args: list[str]) -> Any:
    def reproduce(
        name: Name = None, /, *, sets: int = 20, out: str = "results", redraw: bool = False, list: bool = False
    ) -> None:
        """Reproduce.

        Args:
            name: Experiment.
            sets: Independent repetitions.
            out: Folder for the results.
            redraw: Only draw table and figure again.
            list: List the experiments.
        """
        from tacit import reproduce as experiments

        if list:
            for key, text in experiments.EXPERIMENTS.items():
                print(f"{key:24} {text}")
            return
        if name is None:
            raise UserError("name an experiment; `tacit reproduce --list` says what there is")
        if sets < 2:
            raise UserError(f"--sets must be at least 2, not {sets}: an interval needs repetitions")
        module = experiments.find(name)
        base = Path(out) / name
        if redraw:
            results = storage.read_json(base.with_suffix(".json"))
        else:
            from tacit.progress import live
            from tacit.run import provenance

            record = provenance(shlex.join(["tacit", "reproduce", *args]))
            with live(name) as update:
                results = {"provenance": record, **module.measure(sets, update)}
            storage.write_json(base.with_suffix(".json"), results)
        storage.atomic_write_text(base.with_suffix(".md"), module.table(results))
        storage.atomic_write_bytes(base.with_suffix(".png"), module.figure(results))
        print(f"{base}.json  {base}.md  {base}.png")

    return call(reproduce, "reproduce", __doc__, args)
