"""The highD format: three CSV files per recording (also compressed). `highd_write.py` writes them.

    03_recordingMeta.csv    one row: frame rate, speed limit, lane markings, ...
    03_tracksMeta.csv       one row per vehicle: size, class, driving direction, first and last frame, ...
    03_tracks.csv           one row per vehicle and frame, sorted by vehicle, then frame: position, velocity, ...

highD itself may not be redistributed; nothing of it is in this package. What the tracks' files say beyond position,
velocity and size (neighbours, headways, lane numbers) is derived from these: it is not read, nor checked, and computed
anew when a recording is written.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tacit.envs.traffic.recording import FRAME_RATE, KINDS, Recording, Wrong
from tacit.errors import UserError
from tacit.run import disk
from tacit.run.storage import may_unpack

RECORDING = (
    *("id", "frameRate", "locationId", "speedLimit", "month", "weekDay", "startTime", "duration"),
    *("totalDrivenDistance", "totalDrivenTime", "numVehicles", "numCars", "numTrucks"),
    *("upperLaneMarkings", "lowerLaneMarkings"),
)
VEHICLES = (
    *("id", "width", "height", "initialFrame", "finalFrame", "numFrames", "class", "drivingDirection"),
    *("traveledDistance", "minXVelocity", "maxXVelocity", "meanXVelocity", "minDHW", "minTHW", "minTTC"),
    "numLaneChanges",
)
TRACKS = (
    *("frame", "id", "x", "y", "width", "height", "xVelocity", "yVelocity", "xAcceleration", "yAcceleration"),
    *("frontSightDistance", "backSightDistance", "dhw", "thw", "ttc", "precedingXVelocity"),
    *("precedingId", "followingId", "leftPrecedingId", "leftAlongsideId", "leftFollowingId"),
    *("rightPrecedingId", "rightAlongsideId", "rightFollowingId", "laneId"),
)
PARTS = {"recordingMeta": RECORDING, "tracksMeta": VEHICLES, "tracks": TRACKS}
ENDINGS = ("", ".gz", ".xz")
MAX_BYTES = 1 << 31
_NAME = re.compile(r"(?P<prefix>.+)_(recordingMeta|tracksMeta|tracks)\.csv(\.gz|\.xz)?$")
SAME_SIZE = 0.1
"""Metres by which the sizes of a vehicle in tracks and tracksMeta may differ."""
_CLASSES = {"car": "Car", "truck": "Truck"}


def prefix_of(path: str | os.PathLike[str]) -> Path | None:
    """Folder/03 from any of the three files or from folder/03 itself; None if there are no such files."""
    path = Path(path)
    match = _NAME.match(path.name)
    if match:
        return path.with_name(match["prefix"])
    there = any(path.with_name(f"{path.name}_{part}.csv{end}").is_file() for part in PARTS for end in ENDINGS)
    return path if there else None


# ---------------------------------------------------------------- reading


class _Table(NamedTuple):
    """Rows of a file as text, without blank ones, and the numbers that they have in the file, counted from 1."""

    path: Path
    names: list[str]
    rows: list[str]
    numbers: list[int]

    def column(self, name: str) -> list[str]:
        at = self.names.index(name)
        return [row.split(",")[at].strip() for row in self.rows]

    def refuse(self, row: int, text: str) -> NoReturn:
        raise UserError(f"{self.path}: row {self.numbers[row]}: {text}")


def load(prefix: str | os.PathLike[str]) -> Recording:
    """The recording folder/03 from folder/03_*.csv; UserError with file, row and remedy for anything that is wrong."""
    prefix = Path(prefix)
    files = {part: _find(prefix, part) for part in PARTS}
    meta = _table(files["recordingMeta"], RECORDING)
    if len(meta.rows) != 1:
        raise UserError(f"{meta.path}: expected one row below the header, not {len(meta.rows)}")
    rate = _numbers(meta, "frameRate")[0]
    if rate != FRAME_RATE:
        meta.refuse(0, f"frameRate is {rate:g}, expected {FRAME_RATE:g}: resample the tracks")
    vehicles = _table(files["tracksMeta"], VEHICLES)
    tracks = _table(files["tracks"], TRACKS)
    columns = _columns(tracks)
    ids, first, counts = _sorted(tracks, columns)
    order = _match(vehicles, tracks, ids, first, counts)
    sizes = {name: _numbers(vehicles, name)[order] for name in ("width", "height")}
    _same_sizes(tracks, vehicles, columns, ids, counts, sizes)
    classes = [name.lower() for name in vehicles.column("class")]
    for i, name in enumerate(classes):
        if name not in _CLASSES:
            vehicles.refuse(i, f"class is {name!r}, expected Car or Truck")
    about = {name: meta.column(name)[0] for name in ("locationId", "month", "weekDay", "startTime")}
    try:
        return Recording(
            name=prefix.name,
            upper_marks=_marks(meta, "upperLaneMarkings"),
            lower_marks=_marks(meta, "lowerLaneMarkings"),
            ids=ids,
            kinds=np.array([KINDS[classes[i]] for i in order]),
            directions=_numbers(vehicles, "drivingDirection", whole=True)[order],
            lengths=sizes["width"],
            widths=sizes["height"],
            first=first,
            counts=counts,
            x=columns["x"],
            y=columns["y"],
            vx=columns["xVelocity"],
            vy=columns["yVelocity"],
            speed_limit=float(_numbers(meta, "speedLimit")[0]),
            about={"source": source(meta.column("weekDay")[0]), **about},
        )
    except Wrong as error:
        if error.what == "road":
            meta.refuse(0, str(error))
        if error.what == "vehicles" and error.at is not None:
            vehicles.refuse(int(order[error.at]), str(error))
        if error.at is not None:
            tracks.refuse(error.at, str(error))
        raise UserError(f"{tracks.path}: {error}") from None


def source(day: str) -> str:
    """Files that we have written say in place of a weekday that their traffic is simulated."""
    return "simulated" if day == "simulated" else "highD files"


def source_of(prefix: str | os.PathLike[str]) -> str:
    """The source of a recording, from its smallest file alone."""
    return source(_table(_find(Path(prefix), "recordingMeta"), RECORDING).column("weekDay")[0])


def _find(prefix: Path, part: str) -> Path:
    for end in ENDINGS:
        path = prefix.with_name(f"{prefix.name}_{part}.csv{end}")
        if path.is_file():
            return path
    raise UserError(
        f"{prefix}_{part}.csv (or .gz, .xz) is missing: a recording needs {', '.join(f'_{p}.csv' for p in PARTS)}"
    )


def _read(path: Path) -> str:
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    try:
        limit = may_unpack(path.stat().st_size, MAX_BYTES)
        with disk.reading(path, max_bytes=MAX_BYTES) as raw, openers.get(path.suffix, nullcontext)(raw) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise UserError(f"{path} unpacks to more than {limit >> 20} MB, too much for its size, and was not read")
        return str(data.decode("utf-8-sig")).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8") from None
    except (OSError, EOFError, lzma.LZMAError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise UserError(f"cannot read {path} (truncated or damaged?): {error}") from None


def _header(path: Path, number: int, line: str, wanted: tuple[str, ...]) -> list[str]:
    if line.count(";") > line.count(","):
        raise UserError(
            f"{path}: row {number}: the columns are separated by ';'; write ',' between columns, and numbers with a "
            "decimal point"
        )
    names = [name.strip() for name in line.split(",")]
    there = set(names)
    missing, extra = [n for n in wanted if n not in there], [n[:40] for n in names if n not in wanted][:10]
    if missing or extra or len(there) < len(names):
        complaints = [
            f"{what} {', '.join(map(repr, which))}"
            for what, which in (("lacks", missing), ("has unknown", extra))
            if which
        ]
        raise UserError(
            f"{path}: row {number}: the header {' and '.join(complaints) or 'names a column twice'}; "
            f"expected the {len(wanted)} columns {', '.join(wanted)}"
        )
    return names


def _table(path: Path, wanted: tuple[str, ...]) -> _Table:
    lines = _read(path).split("\n")
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    if not numbers:
        raise UserError(f"{path} is empty: expected a header row with {', '.join(wanted[:4])}, ...")
    rows = [lines[number - 1] for number in numbers]
    names = _header(path, numbers[0], rows[0].strip(), wanted)
    table = _Table(path, names, rows[1:], numbers[1:])
    if not table.rows:
        raise UserError(f"{path} has no rows below its header")
    # Every row has as many values as the header: NumPy would not miss those of columns that it does not read.
    commas = len(names) - 1
    for i, row in enumerate(table.rows):
        if row.count(",") != commas:
            more = row.count(",") > commas
            hint = "are there decimal commas? write 1.5, not 1,5" if more else "is it cut off?"
            raise UserError(
                f"{path}: row {table.numbers[i]} has {row.count(',') + 1} values, expected {len(names)}; {hint}"
            )
    return table


def _numbers(table: _Table, name: str, whole: bool = False) -> np.ndarray:
    """A column of a small table."""
    texts = table.column(name)
    values = np.array([_number(text) for text in texts])
    _check_column(table, name, values, texts, whole)
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _check_column(table: _Table, name: str, values: np.ndarray, texts: list[str] | None, whole: bool) -> None:
    bad = ~(np.abs(values) <= 1e12)
    if whole:
        bad |= np.where(bad, 0.0, values) % 1.0 != 0.0
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        text = texts[row] if texts is not None else table.rows[row].split(",")[table.names.index(name)].strip()
        table.refuse(row, f"{name} is {text[:40]!r}, expected a {'whole ' if whole else ''}number")


def _marks(meta: _Table, name: str) -> np.ndarray:
    text = meta.column(name)[0].strip('" ')
    values = np.array([_number(part) for part in text.split(";") if part.strip()])
    if not np.isfinite(values).all():
        meta.refuse(0, f"{name} is {text[:80]!r}, expected numbers separated by ;")
    return values


WHOLE = ("id", "frame")
USED = (*WHOLE, "x", "y", "width", "height", "xVelocity", "yVelocity")
"""The columns of the tracks that are read."""


def _columns(tracks: _Table) -> dict[str, np.ndarray]:
    at = [tracks.names.index(name) for name in USED]
    try:
        values = np.loadtxt(tracks.rows, delimiter=",", usecols=at, ndmin=2, comments=None, unpack=True)
    except (ValueError, OverflowError):
        # Slow, and names the cell.
        values = np.array([_numbers(tracks, name) for name in USED])
    columns = dict(zip(USED, values, strict=True))
    for name, column in columns.items():
        _check_column(tracks, name, column, None, name in WHOLE)
    return columns


def _sorted(tracks: _Table, columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ids, first frames and counts (n,), after checking that every track is in one piece."""
    ids, frames = columns["id"].astype(np.int64), columns["frame"].astype(np.int64)
    begins = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    if len(np.unique(ids[begins])) < len(begins):
        seen: set[int] = set()
        row = next(int(r) for r in begins if int(ids[r]) in seen or seen.add(int(ids[r])))  # type: ignore[func-returns-value]
        tracks.refuse(
            row,
            f"vehicle {ids[row]} appears again after other vehicles; sort the rows by id, then frame, or give the "
            "second vehicle an id of its own, also in the tracksMeta file",
        )
    step = np.diff(frames, prepend=frames[0])
    step[begins] = 1
    if (step != 1).any():
        row = int(np.flatnonzero(step != 1)[0])
        reason, remedy = {
            0: ("frame appears twice", "delete one of the two rows"),
            -1: ("frames are not sorted", "sort the rows by id, then frame"),
            1: (
                "track has a gap",
                "fill in the missing frames, or give what comes after the gap an id of its own, also in the "
                "tracksMeta file",
            ),
        }[int(np.sign(step[row]))]
        tracks.refuse(
            row,
            f"the {reason}: vehicle {ids[row]} goes from frame {frames[row - 1]} to {frames[row]}; expected "
            f"consecutive frames, sorted: {remedy}",
        )
    return ids[begins], frames[begins], np.diff(np.append(begins, len(ids)))


def _match(vehicles: _Table, tracks: _Table, ids: np.ndarray, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(n,) row of tracksMeta for each track, after checking that both files tell of the same frames."""
    listed = _numbers(vehicles, "id", whole=True).astype(np.int64)
    where: dict[int, int] = {}
    for i, vehicle in enumerate(listed.tolist()):
        if vehicle in where:
            vehicles.refuse(i, f"vehicle {vehicle} is listed twice: delete one of the rows")
        where[vehicle] = i
    begins = np.cumsum(counts) - counts
    missing = [i for i, vehicle in enumerate(ids.tolist()) if vehicle not in where]
    absent = sorted(set(where) - set(ids.tolist()))
    same = "are they of the same recording?"
    if missing:
        number = tracks.numbers[int(begins[missing[0]])]
        raise UserError(
            f"vehicle {ids[missing[0]]} is in {tracks.path} (row {number}) and not in {vehicles.path}: {same}"
        )
    if absent:
        number = vehicles.numbers[where[absent[0]]]
        raise UserError(f"vehicle {absent[0]} is in {vehicles.path} (row {number}) and not in {tracks.path}: {same}")
    order = np.array([where[int(i)] for i in ids])
    for name, values in (("initialFrame", first), ("finalFrame", first + counts - 1), ("numFrames", counts)):
        stated = _numbers(vehicles, name)[order]
        if (stated != values).any():
            k = int(np.flatnonzero(stated != values)[0])
            vehicles.refuse(
                int(order[k]), f"{name} of vehicle {ids[k]} is {stated[k]:g}, but {values[k]} by {tracks.path}: {same}"
            )
    return order


def _same_sizes(
    tracks: _Table,
    vehicles: _Table,
    columns: dict[str, np.ndarray],
    ids: np.ndarray,
    counts: np.ndarray,
    sizes: dict[str, np.ndarray],
) -> None:
    for name, stated in sizes.items():
        apart = np.abs(columns[name] - np.repeat(stated, counts)) > SAME_SIZE
        if apart.any():
            row = int(np.flatnonzero(apart)[0])
            k = int(np.searchsorted(np.cumsum(counts), row, side="right"))
            tracks.refuse(
                row,
                f"{name} of vehicle {ids[k]} is {columns[name][row]:g}, but {stated[k]:g} by {vehicles.path}: are they "
                "of the same recording?",
            )
