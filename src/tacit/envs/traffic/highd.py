"""The highD format: three CSV files a recording (also compressed). `highd_write.py` writes them.

    03_recordingMeta.csv    one row: frame rate, speed limit, lane markings, ...
    03_tracksMeta.csv       one row a vehicle: size, class, driving direction, first and last frame, ...
    03_tracks.csv           one row a vehicle and frame, sorted by vehicle, then frame: position, velocity, ...

highD itself may not be redistributed; nothing of it is in this package. What the tracks' files say beyond position,
velocity and size (neighbours, headways, lane numbers) is derived from these, and computed anew when a recording is
written.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tacit.envs.traffic.recording import FRAME_RATE, KINDS, Recording
from tacit.errors import UserError
from tacit.storage import may_unpack

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


def load(prefix: str | os.PathLike[str]) -> Recording:
    """The recording folder/03 from folder/03_*.csv; UserError with file, row and remedy for anything that is wrong."""
    prefix = Path(prefix)
    files = {part: _find(prefix, part) for part in PARTS}
    meta = _table(files["recordingMeta"], RECORDING)
    if len(meta["id"]) != 1:
        raise UserError(f"{files['recordingMeta']}: expected one row below the header, not {len(meta['id'])}")
    rate = _numbers(files["recordingMeta"], meta, "frameRate")[0]
    if rate != FRAME_RATE:
        raise UserError(
            f"{files['recordingMeta']}: row 2: frameRate is {rate:g}, expected {FRAME_RATE:g}: resample the tracks"
        )
    vehicles = _table(files["tracksMeta"], VEHICLES)
    ids, first, counts, rows = _tracks(files["tracks"])
    order = _match(files, vehicles, ids, first, counts)
    numbers = {
        name: _numbers(files["tracksMeta"], vehicles, name)[order] for name in ("width", "height", "drivingDirection")
    }
    classes = [vehicles["class"][i].strip().lower() for i in order]
    for i, name in zip(order, classes, strict=True):
        if name not in _CLASSES:
            raise UserError(f"{files['tracksMeta']}: row {i + 2}: class is {name!r}, expected Car or Truck")
    about = {name: meta[name][0] for name in ("locationId", "month", "weekDay", "startTime")}
    try:
        return Recording(
            name=prefix.name,
            upper_marks=_marks(files["recordingMeta"], meta, "upperLaneMarkings"),
            lower_marks=_marks(files["recordingMeta"], meta, "lowerLaneMarkings"),
            ids=ids,
            kinds=np.array([KINDS[name] for name in classes]),
            directions=numbers["drivingDirection"],
            lengths=numbers["width"],
            widths=numbers["height"],
            first=first,
            counts=counts,
            speed_limit=float(_numbers(files["recordingMeta"], meta, "speedLimit")[0]),
            about={"source": _source(meta), **about},
            **rows,
        )
    except UserError as error:
        raise UserError(f"{files['tracks']}: {error}") from None


def _source(meta: dict[str, list[str]]) -> str:
    """Files that we have written say in place of a weekday that their traffic is simulated."""
    return "simulated" if meta["weekDay"][0] == "simulated" else "highD files"


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
        with openers.get(path.suffix, open)(path, "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise UserError(f"{path} unpacks to more than {limit >> 20} MB, too much for its size, and was not read")
        return str(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8") from None
    except (OSError, EOFError, lzma.LZMAError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise UserError(f"cannot read {path} (truncated or damaged?): {error}") from None


def _header(path: Path, text: str, wanted: tuple[str, ...]) -> list[str]:
    line = text.partition("\n")[0].strip()
    if not line:
        raise UserError(f"{path} is empty: expected a header row with {', '.join(wanted[:4])}, ...")
    names = [name.strip() for name in line.split(",")]
    there = set(names)
    missing, extra = [n for n in wanted if n not in there], [n[:40] for n in names if n not in wanted][:10]
    if missing or extra or len(there) < len(names):
        said = [
            f"{what} {', '.join(map(repr, which))}"
            for what, which in (("lacks", missing), ("has unknown", extra))
            if which
        ]
        raise UserError(
            f"{path}: row 1: the header {' and '.join(said) or 'names a column twice'}; "
            f"expected the {len(wanted)} columns {', '.join(wanted)}"
        )
    return names


def _table(path: Path, wanted: tuple[str, ...]) -> dict[str, list[str]]:
    """Columns of a small table, as text."""
    text = _read(path)
    names = _header(path, text, wanted)
    cells = []
    for number, line in enumerate(text.splitlines()[1:], 2):
        if not line.strip():
            continue
        row = line.split(",")
        if len(row) != len(names):
            raise UserError(f"{path}: row {number} has {len(row)} values, expected {len(names)}")
        cells.append(row)
    if not cells:
        raise UserError(f"{path} has no rows below its header")
    return {name: [row[i].strip() for row in cells] for i, name in enumerate(names)}


def _numbers(path: Path, table: dict[str, list[str]], name: str) -> np.ndarray:
    values = np.empty(len(table[name]))
    for i, text in enumerate(table[name]):
        try:
            values[i] = float(text)
        except ValueError:
            values[i] = np.nan
        if not np.isfinite(values[i]) or abs(values[i]) > 1e12:
            raise UserError(f"{path}: row {i + 2}: {name} is {text!r}, expected a number")
    return values


def _marks(path: Path, meta: dict[str, list[str]], name: str) -> np.ndarray:
    text = meta[name][0].strip('" ')
    try:
        return np.array([float(part) for part in text.split(";") if part.strip()])
    except ValueError:
        raise UserError(f"{path}: row 2: {name} is {text!r}, expected numbers separated by ;") from None


def _tracks(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """ids, first frames, counts (n,) and the columns x, y, vx, vy (rows,)."""
    text = _read(path)
    names = _header(path, text, TRACKS)
    wanted = ("id", "frame", "x", "y", "xVelocity", "yVelocity")
    _check_width(path, text, len(names))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            columns = np.loadtxt(
                io.StringIO(text),
                delimiter=",",
                skiprows=1,
                usecols=[names.index(name) for name in wanted],
                ndmin=2,
                comments=None,
                unpack=True,
            )
    except UserWarning:
        raise UserError(f"{path} has no rows below its header") from None
    except (ValueError, OverflowError) as error:
        raise UserError(f"{path}: not a number where one is expected: {_with_file_row(str(error))}") from None
    bad = ~np.isfinite(columns).all(axis=0) | (np.abs(columns) > 1e12).any(axis=0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        column = int(np.flatnonzero(~(np.abs(columns[:, row]) <= 1e12))[0])
        raise UserError(f"{path}: row {row + 2}: {wanted[column]} is {columns[column, row]}, expected a number")
    ids, frames = columns[0].astype(np.int64), columns[1].astype(np.int64)
    begins = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    if len(np.unique(ids[begins])) < len(begins):
        seen: set[int] = set()
        row = next(int(r) for r in begins if int(ids[r]) in seen or seen.add(int(ids[r])))  # type: ignore[func-returns-value]
        raise UserError(
            f"{path}: row {row + 2}: vehicle {ids[row]} appears again; the rows must be sorted by id, then frame"
        )
    step = np.diff(frames, prepend=frames[0])
    step[begins] = 1
    if (step != 1).any():
        row = int(np.flatnonzero(step != 1)[0])
        reasons = {0: "frame appears twice", -1: "frames are not sorted", 1: "track has a gap"}
        raise UserError(
            f"{path}: row {row + 2}: the {reasons[int(np.sign(step[row]))]}: vehicle {ids[row]} goes from frame "
            f"{frames[row - 1]} to {frames[row]}; expected consecutive frames, sorted"
        )
    counts = np.diff(np.append(begins, len(ids)))
    return ids[begins], frames[begins], counts, dict(zip(("x", "y", "vx", "vy"), columns[2:], strict=True))


def _check_width(path: Path, text: str, width: int) -> None:
    """Every row has as many values as the header: NumPy would not miss those of columns that it does not read."""
    rows = text.splitlines()
    if text.count(",") == len(rows) * (width - 1):
        return
    for number, row in enumerate(rows, 1):
        if row.strip() and row.count(",") != width - 1:
            raise UserError(f"{path}: row {number} has {row.count(',') + 1} values, expected {width}; is it cut off?")


def _with_file_row(message: str) -> str:
    """NumPy counts rows from 0 (or 1) below the header, people from 1 with it."""
    match = re.search(r"at row (\d+), column (\d+)", message)
    if match:
        return re.sub(r"at row \d+, column \d+\.?", f"in row {int(match[1]) + 2}, column {match[2]}", message)
    return message[:200]


def _match(
    files: dict[str, Path], vehicles: dict[str, list[str]], ids: np.ndarray, first: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """(n,) row of tracksMeta for each track, after checking that both files tell of the same frames."""
    path = files["tracksMeta"]
    listed = _numbers(path, vehicles, "id").astype(np.int64)
    where: dict[int, int] = {}
    for i, vehicle in enumerate(listed.tolist()):
        if vehicle in where:
            raise UserError(f"{path}: row {i + 2}: vehicle {vehicle} is listed twice")
        where[vehicle] = i
    missing = [int(i) for i in ids if int(i) not in where]
    absent = sorted(set(where) - set(ids.tolist()))
    if missing or absent:
        who, here, there = (missing[0], "tracks", "tracksMeta") if missing else (absent[0], "tracksMeta", "tracks")
        raise UserError(f"vehicle {who} is in {files[here]} and not in {files[there]}: are they of the same recording?")
    order = np.array([where[int(i)] for i in ids])
    for name, values in (("initialFrame", first), ("numFrames", counts)):
        told = _numbers(path, vehicles, name)[order]
        if (told != values).any():
            k = int(np.flatnonzero(told != values)[0])
            raise UserError(
                f"{path}: row {order[k] + 2}: {name} of vehicle {ids[k]} is {told[k]:g}, "
                f"but {values[k]} by {files['tracks']}"
            )
    return order
