"""Look at traffic recordings, write them as highD files, or check them against published statistics.

FILE is a recording: any of highD's three files (also .gz, .xz) or their common beginning (folder/03), a CommonRoad
scenario (.xml), a .traffic.npz, or the name of one that comes with the package (sim01 to sim10, simulated with SUMO).

Examples:
  tacit traffic show                                    the recordings that come with the package
  tacit traffic show sim03 --picture road.png --second 60
  tacit traffic show highD/03_tracks.csv --film road.mp4 --seconds 20
  tacit traffic export sim03 --out csv/                 csv/sim03_tracks.csv and so on; other names with --name
  tacit traffic validate                                the package's recordings against published numbers
  tacit traffic validate highD/03                       format, overlaps, and numbers beside published ones
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit.commands import call, facts, new_table, number, print_json, print_table
from tacit.envs.traffic import compact
from tacit.envs.traffic.files import find, load
from tacit.envs.traffic.highd_write import save
from tacit.envs.traffic.recording import Recording
from tacit.envs.traffic.render import save_film, save_picture
from tacit.envs.traffic.statistics import comparable, comparison, overlaps, summary
from tacit.errors import RunFailed, UserError

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
    """Show what a recording holds, and write a picture or film of it.

    Args:
        file: Recording, or a folder to list. If left out, the recordings of the package are listed.
        picture: Write a picture, something.png.
        second: Time of the picture and start of the film. If left out, 60, or the middle of a short recording.
        film: Write a film, something.mp4 or .gif.
        seconds: Length of the film.
        json: Print JSON.
    """
    if file is None:
        if picture or film:
            raise UserError("name a recording for a picture or film: tacit traffic show FILE --picture ...")
        return _list(compact.shipped(), json)
    if Path(file).is_dir():
        if picture or film:
            raise UserError(f"{file} is a folder: name one of its recordings for a picture or film")
        return _list(find(file), json)
    if not math.isfinite(seconds) or seconds <= 0:
        raise UserError(f"--seconds is the length of the film and must be more than 0, not {seconds:g}")
    if second is not None and (not math.isfinite(second) or second < 0):
        raise UserError(f"--second is a time in the recording, counted from 0, not {second:g}")
    recording = _load(file)
    about = summary(recording)
    if second is None:
        # A film of the last moment would have one picture.
        second = min(60.0, 0.5 * recording.seconds)
    if picture:
        save_picture(recording, picture, second)
    if film:
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
        name: Start of the file names: NAME_tracks.csv, NAME_tracksMeta.csv, NAME_recordingMeta.csv. If left out, the
            name of the recording.
        compression: gz, xz, or nothing.
        json: Print JSON.
    """
    recording = _load(file)
    dotted = compression if compression.startswith(".") or not compression else f".{compression}"
    files = save(recording, out, name, dotted)
    if json:
        return print_json({"files": [os.fspath(path) for path in files]})
    for path in files:
        print(path)


def validate(files: Files = (), /, *, json: bool = False) -> None:
    """Check recordings and compare their traffic with published statistics. Exit status 1 if vehicles overlap.

    The recordings of the package must also be within the accepted ranges. Another road may have other numbers.

    Args:
        files: Recordings. If left out, those of the package that resemble the road of the published numbers.
        json: Print JSON.
    """
    recordings = [_load(file) for file in files] or [compact.load(path) for path in compact.shipped()]
    crashed = [recording.name for recording in recordings if overlaps(recording)]
    judged = recordings if files else [recording for recording in recordings if comparable(recording)]
    rows = comparison(judged)
    names = ", ".join(recording.name for recording in judged)
    if json:
        print_json(
            {
                "recordings": [r.name for r in recordings],
                "compared": [r.name for r in judged],
                "rows": [asdict(row) for row in rows],
            }
        )
    else:
        table = new_table("", "value", "highD 03", "accepted", title=f"{names}: {judged[0].about.get('source')}")
        for row in rows:
            bounds = "" if row.accepted is None else "{:g}-{:g}".format(*row.accepted)
            verdict = "" if row.accepted is None else " ok" if row.ok else " out"
            table.add_row(row.meaning, number(row.value), number(row.reference), bounds + verdict)
        print_table(table)
        print(f"{len(recordings)} recordings read, {len(crashed)} with overlapping vehicles")
    wrong = [row.meaning for row in rows if not row.ok]
    if crashed:
        raise RunFailed(f"vehicles overlap in {', '.join(crashed)}")
    if wrong and not files:
        raise RunFailed(f"out of the accepted range in {names}: {'; '.join(wrong)}")


def _list(files: Sequence[Path], json: bool) -> None:

    summaries = [summary(load(path)) for path in files]
    if json:
        return print_json(summaries)
    table = new_table("recording", "seconds", "cars", "trucks", "lanes", "limit, m/s", "source")
    for about in summaries:
        cells = [number(about.get(key)) for key in ("seconds", "cars", "trucks", "lanes", "speed limit", "source")]
        table.add_row(about["name"], *cells)
    print_table(table)


def _load(file: str) -> Recording:

    own = {path.name.removesuffix(compact.SUFFIX): path for path in compact.shipped()}
    return load(own[file] if file in own and not Path(file).exists() else file)


def main(args: list[str]) -> Any:
    return call({"show": show, "export": export, "validate": validate}, "traffic", __doc__, args)
