"""Show traffic recordings, write them as highD files, or compare them with published statistics.

FILE is a recording: one of highD's three files (also .gz, .xz) or the beginning of their names (folder/03), a
CommonRoad scenario (.xml), a .traffic.npz, or one that comes with Tacit (sim01 to sim10, simulated with SUMO).

Examples:
  tacit traffic show                                    the recordings that come with Tacit
  tacit traffic show sim03 --picture road.png --second 60
  tacit traffic show highD/03_tracks.csv --film road.mp4 --seconds 20
  tacit traffic export sim03 --out csv/                 writes csv/sim03_tracks.csv and two more files
  tacit traffic validate                                compare Tacit's recordings with published numbers
  tacit traffic validate highD/03                       check format and overlaps, compare the numbers
  tacit traffic show scenarios/ --skip-bad              the recordings of a folder that can be read
  tacit traffic validate scenarios/                     say of every file whether it can be used
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
from tacit.envs.traffic.files import find, load, load_all, tried
from tacit.envs.traffic.highd_write import save
from tacit.envs.traffic.recording import FRAME_RATE, Recording
from tacit.envs.traffic.render import EVERY, frames, save_picture
from tacit.envs.traffic.statistics import Row, comparable, comparison, overlaps, summary
from tacit.errors import RunFailed, UserError
from tacit.plots.video import write_film

File = Annotated[str, tyro.conf.arg(metavar="FILE")]
MaybeFile = Annotated[str | None, tyro.conf.arg(metavar="[FILE]")]
Files = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[FILE...]")]


def show(
    file: MaybeFile = None,
    /,
    *,
    picture: MaybeFile = None,
    second: Annotated[float | None, tyro.conf.arg(metavar="SECOND")] = None,
    film: MaybeFile = None,
    seconds: float = 20.0,
    skip_bad: bool = False,
    json: bool = False,
) -> None:
    """Show what a recording holds, and write a picture or film of it.

    Args:
        file: Recording, or a folder to list. Default: list the recordings that come with Tacit.
        picture: Write a picture, something.png.
        second: Time of the picture and start of the film. Default: 60, or the middle of a short recording.
        film: Write a film, something.mp4 or .gif.
        seconds: Length of the film.
        skip_bad: Skip files of a folder that cannot be read, with a warning.
        json: Print JSON.
    """
    if file is None or Path(file).is_dir():
        if picture or film:
            raise UserError("name one recording for a picture or film: tacit traffic show FILE --picture ...")
        paths = compact.shipped() if file is None else [file]
        return _list(load_all(paths, skip_bad=skip_bad, option="--skip-bad"), json)
    if not math.isfinite(seconds) or seconds <= 0:
        raise UserError(f"--seconds is the length of the film and must be more than 0, not {seconds:g}")
    if second is not None and (not math.isfinite(second) or second < 0):
        raise UserError(f"--second is a time in the recording, counted from 0, not {second:g}")
    recording = load(_path(file))
    about = summary(recording)
    if second is None:
        # A film of the last moment would have one picture.
        second = min(60.0, 0.5 * recording.seconds)
    if picture:
        save_picture(recording, picture, second)
    if film:
        write_film(film, frames(recording, second, seconds), FRAME_RATE / EVERY)
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
    name: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    compression: str = "",
    json: bool = False,
) -> None:
    """Write a recording as highD's three CSV files, with all derived columns.

    Args:
        file: Recording.
        out: Folder to write to.
        name: Beginning of the file names, as in NAME_tracks.csv. Default: the name of the recording.
        compression: gz or xz. Default: none.
        json: Print JSON.
    """
    recording = load(_path(file))
    dotted = compression if compression.startswith(".") or not compression else f".{compression}"
    files = save(recording, out, name, dotted)
    if json:
        return print_json({"files": [os.fspath(path) for path in files]})
    for path in files:
        print(path)


def validate(files: Files = (), /, *, json: bool = False) -> None:
    """Check recordings and compare their traffic with published statistics.

    The exit status is 1 if a file cannot be read, or if vehicles overlap. Every file of a folder is checked. Only the
    numbers of Tacit's own recordings are judged, because other roads have other traffic.

    Args:
        files: Recordings, or folders of them. Default: those of Tacit that resemble the published road.
        json: Print JSON.
    """
    results = list(tried([path for file in files for path in find(_path(file))] or compact.shipped()))
    recordings = [result for _, result in results if isinstance(result, Recording)]
    bad = {path: str(result) for path, result in results if isinstance(result, UserError)}
    crashed = [recording.name for recording in recordings if overlaps(recording)]
    judged = recordings if files else [recording for recording in recordings if comparable(recording)]
    rows = comparison(judged) if judged else []
    if json:
        print_json(
            {
                "recordings": [r.name for r in recordings],
                "refused": {os.fspath(path): reason for path, reason in bad.items()},
                "overlapping": crashed,
                "compared": [r.name for r in judged],
                "rows": [asdict(row) for row in rows],
            }
        )
    else:
        if len(results) > 1 and files:
            _print_verdicts(results, crashed)
        if judged:
            _print_comparison(rows, judged)
        print(f"{len(recordings)} recordings read, {len(crashed)} with overlapping vehicles, {len(bad)} refused")
    if len(results) == 1 and bad:
        raise UserError(next(iter(bad.values())))
    wrong = [row.meaning for row in rows if not row.ok]
    if bad:
        raise RunFailed(f"{len(bad)} of {len(results)} recordings cannot be used; skip_bad=true uses the rest")
    if crashed:
        raise RunFailed(f"vehicles overlap in {', '.join(crashed)}")
    if wrong and not files:
        names = ", ".join(recording.name for recording in judged)
        raise RunFailed(f"out of the accepted range in {names}: {'; '.join(wrong)}")


def _print_verdicts(results: Sequence[tuple[Path, Recording | UserError]], crashed: Sequence[str]) -> None:
    table = new_table("file", "vehicles", "seconds", "verdict")
    table.columns[-1].justify = "left"
    for path, result in results:
        if isinstance(result, UserError):
            table.add_row(path.name, "", "", "refused: " + str(result).removeprefix(f"{path}: "))
            continue
        verdict = "vehicles overlap" if result.name in crashed else "fits"
        if "time step" in result.about:
            verdict += f"; time step {result.about['time step']}"
        table.add_row(path.name, str(len(result)), number(result.seconds), verdict)
    print_table(table)


def _print_comparison(rows: Sequence[Row], judged: Sequence[Recording]) -> None:
    names = ", ".join(recording.name for recording in judged) if len(judged) <= 10 else f"{len(judged)} recordings"
    table = new_table("", "value", "highD 03", "accepted", title=f"{names}: {judged[0].about.get('source')}")
    for row in rows:
        bounds = "" if row.accepted is None else "{:g}-{:g}".format(*row.accepted)
        verdict = "" if row.accepted is None else " ok" if row.ok else " out"
        table.add_row(row.meaning, number(row.value), number(row.reference), bounds + verdict)
    print_table(table)


def _list(recordings: Sequence[Recording], json: bool) -> None:
    summaries = [summary(recording) for recording in recordings]
    if json:
        return print_json(summaries)
    columns = ["seconds", "cars", "trucks", "lanes", "speed limit", "source"]
    columns += [key for key in ("time step", "licence") if any(key in about for about in summaries)]
    table = new_table("recording", *("limit, m/s" if key == "speed limit" else key for key in columns))
    for about in summaries:
        table.add_row(about["name"], *(number(about.get(key)) for key in columns))
    print_table(table)


def _path(file: str) -> Path:
    """The file of this name, or the package's own."""
    own = {path.name.removesuffix(compact.SUFFIX): path for path in compact.shipped()}
    return own[file] if file in own and not Path(file).exists() else Path(file)


def main(args: list[str]) -> Any:
    return call({"show": show, "export": export, "validate": validate}, "traffic", __doc__, args)
