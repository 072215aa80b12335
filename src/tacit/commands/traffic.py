"""Traffic recordings: look at one, write it as highD files, or check it against published statistics.

FILE is a recording: any of highD's three files (also .gz, .xz) or their common beginning (folder/03), a CommonRoad
scenario (.xml), a .traffic.npz, or the name of one that comes with the package (sim01 to sim10, simulated with SUMO).

Examples:
  tacit traffic show                                    the recordings that come with the package
  tacit traffic show sim03 --picture road.png --second 60
  tacit traffic show highD/03_tracks.csv --film road.mp4 --seconds 20
  tacit traffic export sim03 --out csv/                 csv/sim03_tracks.csv and so on; other names with --name
  tacit traffic validate                                the package's recordings against published numbers
  tacit traffic validate highD/03                       format, overlaps; numbers beside those published
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from tacit.commands import call, facts, new_table, number, print_json, print_table
from tacit.errors import RunFailed, UserError

if TYPE_CHECKING:
    from tacit.envs.traffic.recording import Recording

File = Annotated[str, tyro.conf.arg(metavar="FILE")]
MaybeFile = Annotated[str | None, tyro.conf.arg(metavar="FILE")]
Files = Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE")]


def show(
    file: MaybeFile = None,
    /,
    *,
    picture: str | None = None,
    second: float | None = None,
    film: str | None = None,
    seconds: float = 20.0,
    json: bool = False,
) -> None:
    """What is in a recording, and a picture or film of it.

    Args:
        file: Recording, or a folder, whose recordings are listed; without it, those that come with the package.
        picture: Write a picture, something.png.
        second: When the picture is taken, and the film begins; by default after a minute, earlier in shorter ones.
        film: Write a film, something.mp4 or .gif.
        seconds: How long the film is.
        json: Print JSON.
    """
    from tacit.envs.traffic import compact
    from tacit.envs.traffic.files import find
    from tacit.envs.traffic.statistics import summary

    if file is None:
        if picture or film:
            raise UserError("say which recording: tacit traffic show FILE --picture ...")
        return _list(compact.shipped(), json)
    if Path(file).is_dir():
        if picture or film:
            raise UserError(f"{file} is a folder: name one of its recordings for a picture or film")
        return _list(find(file), json)
    if not math.isfinite(seconds) or seconds <= 0:
        raise UserError(f"--seconds is how long the film is, more than 0, not {seconds:g}")
    if second is not None and (not math.isfinite(second) or second < 0):
        raise UserError(f"--second is a moment of the recording, counted from 0, not {second:g}")
    recording = _load(file)
    about = summary(recording)
    if second is None:
        # A film of the last moment would have one picture.
        second = min(60.0, 0.5 * recording.seconds)
    if picture:
        from tacit.envs.traffic.render import save_picture

        save_picture(recording, picture, second)
    if film:
        from tacit.envs.traffic.render import save_film

        save_film(recording, film, second, seconds)
    if json:
        return print_json({"file": file, **about})
    facts(about)
    for path in (picture, film):
        if path:
            print(path)


def export(
    file: File,
    /,
    *,
    out: Annotated[str, tyro.conf.arg(metavar="DIR")],
    name: str | None = None,
    compression: str = "",
    json: bool = False,
) -> None:
    """Write a recording as highD's three CSV files, with all derived columns.

    Args:
        file: Recording.
        out: Folder to write to.
        name: What the files' names begin with: NAME_tracks.csv, NAME_tracksMeta.csv, NAME_recordingMeta.csv; the
            recording's own name by default.
        compression: gz, xz, or nothing.
        json: Print JSON.
    """
    from tacit.envs.traffic.highd_write import save

    recording = _load(file)
    dotted = compression if compression.startswith(".") or not compression else f".{compression}"
    files = save(recording, out, name, dotted)
    if json:
        return print_json({"files": [os.fspath(path) for path in files]})
    for path in files:
        print(path)


def validate(files: Files = (), /, *, json: bool = False) -> None:
    """Check recordings and compare their traffic with published statistics; exit status 1 if vehicles overlap.

    The package's own must also be within the accepted ranges; another road may well have other numbers.

    Args:
        files: Recordings; without any, those of the package that are like the road that the numbers are from.
        json: Print JSON.
    """
    from tacit.envs.traffic import compact
    from tacit.envs.traffic.statistics import comparable, comparison, overlaps

    recordings = [_load(file) for file in files] or [compact.load(path) for path in compact.shipped()]
    crashed = [recording.name for recording in recordings if overlaps(recording)]
    judged = recordings if files else [recording for recording in recordings if comparable(recording)]
    rows = comparison(judged)
    names = ", ".join(recording.name for recording in judged)
    if json:
        print_json({"recordings": [r.name for r in recordings], "compared": [r.name for r in judged], "rows": rows})
    else:
        table = new_table("", "value", "highD 03", "accepted", title=f"{names}: {judged[0].about.get('source')}")
        for row in rows:
            bounds = "" if row["accepted"] is None else "{:g}-{:g}".format(*row["accepted"])
            verdict = "" if row["accepted"] is None else " ok" if row["ok"] else " out"
            table.add_row(row["meaning"], number(row["value"]), number(row["reference"]), bounds + verdict)
        print_table(table)
        print(f"{len(recordings)} recordings read, {len(crashed)} with overlapping vehicles")
    wrong = [row["meaning"] for row in rows if not row["ok"]]
    if crashed:
        raise RunFailed(f"vehicles overlap in {', '.join(crashed)}")
    if wrong and not files:
        raise RunFailed(f"out of the accepted range in {names}: {'; '.join(wrong)}")


def _list(files: Sequence[Path], json: bool) -> None:
    from tacit.envs.traffic.files import load
    from tacit.envs.traffic.statistics import summary

    found = [summary(load(path)) for path in files]
    if json:
        return print_json(found)
    table = new_table("recording", "seconds", "cars", "trucks", "lanes", "limit, m/s", "source")
    for about in found:
        cells = [number(about.get(key)) for key in ("seconds", "cars", "trucks", "lanes", "speed limit", "source")]
        table.add_row(about["name"], *cells)
    print_table(table)


def _load(file: str) -> Recording:
    from tacit.envs.traffic import compact
    from tacit.envs.traffic.files import load

    own = {path.name.removesuffix(compact.SUFFIX): path for path in compact.shipped()}
    return load(own[file] if file in own and not Path(file).exists() else file)


def main(args: list[str]) -> Any:
    return call({"show": show, "export": export, "validate": validate}, "traffic", __doc__, args)
