"""Writing a recording as highD's three CSV files, with every derived column computed anew."""

from __future__ import annotations

import gzip
import lzma
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tacit.envs.traffic.highd import RECORDING, TRACKS, VEHICLES
from tacit.envs.traffic.neighbours import Neighbours
from tacit.envs.traffic.recording import DT, FRAME_RATE, KINDS, UPPER, Ints, Recording, is_simulated
from tacit.errors import UserError
from tacit.run.storage import atomic_write_bytes

COMPRESSIONS = {"": bytes, ".gz": lambda data: gzip.compress(data, mtime=0), ".xz": lzma.compress}


def save(
    recording: Recording, folder: str | os.PathLike[str], name: str | None = None, compression: str = ""
) -> list[Path]:
    """Write folder/NAME_recordingMeta.csv and so on; returns the files. Reading them gives the same recording again."""
    if compression not in COMPRESSIONS:
        raise UserError(f"compression is one of '', '.gz' and '.xz', not {compression!r}")
    others = set(recording.kinds.tolist()) - {KINDS["car"], KINDS["truck"]}
    if others:
        which = ", ".join(name for name, kind in KINDS.items() if kind in others)
        raise UserError(f"recording {recording.name}: highD's format knows cars and trucks only, not: {which}")
    name = recording.name if name is None else name
    if not name or Path(name).name != name or name in (".", ".."):
        raise UserError(f"the files' names begin with {name!r}, which is no plain name: give one without folders")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UserError(f"{folder} is a file; recordings are written into a folder")
    if recording.problems or recording.ends is not None or recording.extend != 2.0:
        recording = _plain(recording)
        warnings.warn(
            f"recording {recording.name}: highD's format has no goals and no road edges of its own; only the tracks "
            "and the lane markings are written, along x from the beginning of the road",
            stacklevel=2,
        )
    around = Neighbours(recording)
    tracks = _tracks(recording, around)
    texts = {
        "tracks": _lines(TRACKS, [tracks[column] for column in TRACKS]),
        "tracksMeta": _lines(VEHICLES, _vehicles(recording, around, tracks)),
        "recordingMeta": ",".join(RECORDING) + "\n" + ",".join(_about(recording, name)) + "\n",
    }
    files = []
    for part, text in texts.items():
        path = Path(folder) / f"{name}_{part}.csv{compression}"
        atomic_write_bytes(path, COMPRESSIONS[compression](text.encode()))
        files.append(path)
    return files


def _plain(recording: Recording) -> Recording:
    """Tracks and markings only, the road beginning at x = 0, in the whole centimetres that are written."""
    begin = 0.0 if recording.ends is None else recording.ends[0]
    rounded = {key: np.round(getattr(recording, key), 2) for key in ("y", "vx", "vy", "upper_marks", "lower_marks")}
    return replace(recording, x=np.round(recording.x - begin, 2), **rounded, problems=(), ends=None, extend=2.0)


def _tracks(recording: Recording, around: Neighbours) -> dict[str, list[str]]:
    vehicle = recording.vehicle
    upper = recording.directions[vehicle] == UPPER
    has = around.leader >= 0
    leader = np.where(has, around.leader, 0)
    gap = np.where(has, around.gap, 0.0)
    closing = around.speed - around.speed[leader]
    with np.errstate(divide="ignore", invalid="ignore"):
        headway = np.where(has & (around.speed > 0), gap / around.speed, 0.0)
        collision = np.where(has & (closing != 0), gap / closing, 0.0)
    forward = np.where(upper, recording.x + around.half, recording.section - recording.x - around.half)
    markings = len(recording.upper_marks)
    lane = np.where(upper, markings - around.lane, markings + 2 + around.lane)
    ids = {
        "precedingId": around.leader,
        "followingId": around.follower,
        **{f"{side}{who}Id": rows for side in ("left", "right") for who, rows in zip(
            ("Preceding", "Alongside", "Following"), around.beside(side), strict=True)},
    }  # fmt: skip
    columns = {
        "frame": _integers(recording.frames),
        "id": _integers(recording.ids[vehicle]),
        "x": _decimals(recording.x),
        "y": _decimals(recording.y),
        "width": _decimals(recording.lengths[vehicle]),
        "height": _decimals(recording.widths[vehicle]),
        "xVelocity": _decimals(recording.vx),
        "yVelocity": _decimals(recording.vy),
        "xAcceleration": _decimals(_slope(recording, recording.vx)),
        "yAcceleration": _decimals(_slope(recording, recording.vy)),
        "frontSightDistance": _decimals(forward),
        "backSightDistance": _decimals(recording.section - forward),
        "dhw": _decimals(gap),
        "thw": _decimals(headway),
        "ttc": _decimals(np.clip(collision, -9999, 9999)),
        "precedingXVelocity": _decimals(np.where(has, recording.vx[leader], 0.0)),
        "laneId": _integers(lane),
    }
    vehicle_ids = recording.ids[vehicle]
    columns |= {name: _integers(np.where(rows >= 0, vehicle_ids[rows], 0)) for name, rows in ids.items()}
    return columns


def _vehicles(recording: Recording, around: Neighbours, tracks: dict[str, list[str]]) -> list[list[str]]:
    starts, counts = recording.offsets, recording.counts
    has = around.leader >= 0

    def smallest(column: str, where: np.ndarray) -> list[str]:
        """Minimum over the frames in which it means something, -1 if there are none; of the numbers as written."""
        values = np.where(where, np.array(tracks[column], np.float64), np.inf)
        least = np.minimum.reduceat(values, starts)
        return _decimals(np.where(np.isfinite(least), least, -1.0))

    travelled = np.abs(recording.x[starts + counts - 1] - recording.x[starts])
    changed = np.diff(around.lane, prepend=around.lane[:1]) != 0
    changed[starts] = False
    ttc = np.array(tracks["ttc"], np.float64)
    return [
        _integers(recording.ids),
        _decimals(recording.lengths),
        _decimals(recording.widths),
        _integers(recording.first),
        _integers(recording.first + counts - 1),
        _integers(counts),
        ["Truck" if kind == KINDS["truck"] else "Car" for kind in recording.kinds],
        _integers(recording.directions),
        _decimals(travelled),
        _decimals(np.minimum.reduceat(around.speed, starts)),
        _decimals(np.maximum.reduceat(around.speed, starts)),
        _decimals(np.add.reduceat(around.speed, starts) / counts),
        smallest("dhw", has),
        smallest("thw", has),
        smallest("ttc", has & (ttc > 0)),
        _integers(np.add.reduceat(changed.astype(np.int64), starts)),
    ]


def _about(recording: Recording, name: str) -> list[str]:
    number = "".join(filter(str.isdigit, name)).lstrip("0") or "0"
    seconds = recording.counts.sum() * DT
    return [
        number,
        f"{FRAME_RATE:g}",
        str(recording.about.get("locationId", 0)),
        f"{recording.speed_limit:g}" if recording.speed_limit < 0 else f"{recording.speed_limit:.2f}",
        str(recording.about.get("month", "01.2000")),
        "simulated" if is_simulated(recording.about) else str(recording.about.get("weekDay", "unknown")),
        str(recording.about.get("startTime", "00:00")),
        f"{recording.seconds:.2f}",
        f"{np.abs(recording.vx).sum() * DT:.2f}",
        f"{seconds:.2f}",
        str(len(recording)),
        str(int((recording.kinds == KINDS["car"]).sum())),
        str(int((recording.kinds == KINDS["truck"]).sum())),
        ";".join(f"{mark:.2f}" for mark in recording.upper_marks),
        ";".join(f"{mark:.2f}" for mark in recording.lower_marks),
    ]


def _slope(recording: Recording, values: np.ndarray) -> np.ndarray:
    """Change a second, backward differences; the first frame of a track takes that of the second."""
    result = np.diff(values, prepend=values[:1]) / DT
    starts = recording.offsets
    longer = recording.counts > 1
    result[starts[longer]] = result[starts[longer] + 1]
    result[starts[~longer]] = 0.0
    return result


def _decimals(values: np.ndarray) -> list[str]:
    # + 0.0 after rounding: no "-0.00".
    return np.char.mod("%.2f", np.round(values, 2) + 0.0).tolist()


def _integers(values: Ints) -> list[str]:
    return np.char.mod("%d", values).tolist()


def _lines(header: Sequence[str], columns: list[list[str]]) -> str:
    return "\n".join([",".join(header), *map(",".join, zip(*columns, strict=True))]) + "\n"
