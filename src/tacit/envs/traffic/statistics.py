"""Statistics of the traffic of a recording, beside published numbers of a real motorway.

The references are of recording 03 of highD (a German motorway, two lanes per direction, no speed limit, 1011 s), as far
as its public description of tracks tells. Simulated traffic of that kind (two lanes, no limit, 1300 to 2000 vehicles
per hour and direction) must be within the accepted ranges. Other roads have other numbers: they are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacit.envs.traffic.neighbours import Neighbours
from tacit.envs.traffic.recording import DT, KINDS, Recording


class Statistic(NamedTuple):
    """What a statistic is, and the numbers to judge it by."""

    meaning: str
    reference: float | None = None
    """The published number; None if there is none."""
    accepted: tuple[float, float] | None = None
    """The range that the value should be in; None if any value will do."""


STATISTICS: Mapping[str, Statistic] = {
    "car_speed_mean": Statistic("mean speed of cars, m/s", 34.4, (33.4, 35.4)),
    "car_speed_sd": Statistic("its standard deviation", 5.3),
    "car_speed_p5": Statistic("5th percentile", 25.6),
    "car_speed_p50": Statistic("median", 33.9),
    "car_speed_p95": Statistic("95th percentile", 44.1),
    "car_share_above_40": Statistic("cars that exceed 40 m/s", 0.152, (0.1, 0.2)),
    "car_lane_changes": Statistic("lane changes per car", 0.174, (0.1, 0.25)),
    "car_min_headway_p5": Statistic("smallest headway of a car, 5th percentile, s", 0.45, (0.4, 0.6)),
    "car_min_headway_p25": Statistic("25th percentile", 0.84),
    "car_min_headway_p50": Statistic("median", 1.59),
    "car_share_gap_below_20": Statistic("cars that come closer than 20 m", 0.121),
    "car_lateral_speed_p50": Statistic("lateral speed of cars, median, m/s", 0.07),
    "car_lateral_speed_p90": Statistic("90th percentile", 0.248, (0.15, 0.3)),
    "car_lateral_speed_p99": Statistic("99th percentile", 0.94),
    "car_length_mean": Statistic("length of cars, m", 4.71),
    "car_width_mean": Statistic("width of cars, m", 2.02),
    "truck_speed_mean": Statistic("mean speed of trucks, m/s", 23.7, (22.7, 24.7)),
    "truck_speed_sd": Statistic("its standard deviation", 1.3),
    "truck_lane_changes": Statistic("lane changes per truck", 0.0),
    "truck_min_headway_p50": Statistic("smallest headway of a truck, median, s", 2.23),
    "truck_length_mean": Statistic("length of trucks, m", 14.2),
    "truck_width_mean": Statistic("width of trucks, m", 2.5),
    "truck_share": Statistic("share of trucks", 0.25),
    "flow": Statistic("vehicles per hour and direction", 1626.0),
    "overlaps": Statistic("pairs of overlapping vehicles", None, (0, 0)),
}


def statistics(recordings: Recording | Sequence[Recording]) -> dict[str, float]:
    """Plain numbers over one recording, or over several together; names as in `STATISTICS`, absent without vehicles."""
    several = [recordings] if isinstance(recordings, Recording) else list(recordings)
    tables = [_vehicles(recording) for recording in several]
    vehicles = {key: np.concatenate([table[key] for table in tables]) for key in tables[0]}
    lateral = {
        kind: np.concatenate([np.abs(r.vy[r.kinds[r.vehicle] == code]) for r in several])
        for kind, code in KINDS.items()
        if kind in ("car", "truck")
    }
    result: dict[str, float] = {}
    for kind in ("car", "truck"):
        own = {key: values[vehicles["kind"] == KINDS[kind]] for key, values in vehicles.items()}
        if len(own["speed"]) == 0:
            continue
        result |= {f"{kind}_speed_mean": own["speed"].mean(), f"{kind}_speed_sd": own["speed"].std()}
        result |= {f"{kind}_speed_p{p}": np.percentile(own["speed"], p) for p in (5, 50, 95)}
        result |= {f"{kind}_share_above_40": (own["top_speed"] > 40).mean()}
        result |= {f"{kind}_lane_changes": own["lane_changes"].mean()}
        headway = own["headway"][np.isfinite(own["headway"])]
        if len(headway):
            result |= {f"{kind}_min_headway_p{p}": np.percentile(headway, p) for p in (5, 25, 50, 75)}
        result |= {f"{kind}_share_gap_below_20": (own["gap"] < 20).mean()}
        result |= {f"{kind}_lateral_speed_p{p}": np.percentile(lateral[kind], p) for p in (50, 90, 99)}
        result |= {f"{kind}_length_mean": own["length"].mean(), f"{kind}_width_mean": own["width"].mean()}
    hours = sum(r.seconds * len(np.unique(r.directions)) for r in several) / 3600
    result["truck_share"] = float((vehicles["kind"] == KINDS["truck"]).mean())
    result["flow"] = len(vehicles["kind"]) / hours
    result["overlaps"] = sum(overlaps(r) for r in several)
    return {key: float(value) for key, value in result.items()}


def _vehicles(recording: Recording) -> dict[str, np.ndarray]:
    """One entry per vehicle."""
    around, starts = Neighbours(recording), recording.offsets
    with np.errstate(divide="ignore"):
        headway = np.where(around.speed > 1, around.gap / np.maximum(around.speed, 1), np.inf)
    changed = np.diff(around.lane, prepend=around.lane[:1]) != 0
    changed[starts] = False
    return {
        "kind": recording.kinds,
        "speed": np.add.reduceat(around.speed, starts) / recording.counts,
        "top_speed": np.maximum.reduceat(around.speed, starts),
        "lane_changes": np.add.reduceat(changed.astype(np.int64), starts),
        "headway": np.minimum.reduceat(headway, starts),
        "gap": np.minimum.reduceat(around.gap, starts),
        "length": recording.lengths,
        "width": recording.widths,
    }


def overlaps(recording: Recording) -> int:
    """Number of (pair, frame) in which two boxes intersect."""
    around = Neighbours(recording)
    half = 0.5 * recording.widths[recording.vehicle]
    centre = recording.y + half
    count = 0
    for other in (np.where(around.gap < 0, around.leader, -1), around.beside("right")[1]):
        paired = np.flatnonzero(other >= 0)
        count += int((np.abs(centre[paired] - centre[other[paired]]) < half[paired] + half[other[paired]]).sum())
    return count


def comparable(recording: Recording) -> bool:
    """Is it a road of the kind that the reference numbers are from?"""
    lanes = {len(marks) - 1 for marks in (recording.upper_marks, recording.lower_marks) if len(marks)}
    flow = len(recording) / recording.seconds * 3600 / len(np.unique(recording.directions))
    return lanes == {2} and recording.speed_limit < 0 and 1300 <= flow <= 2000


@dataclass(frozen=True)
class Row:
    """One statistic of recordings beside its reference."""

    name: str
    meaning: str
    value: float
    reference: float | None
    accepted: tuple[float, float] | None
    """None if the value is not judged."""
    ok: bool
    """Is it in the accepted range?"""


def comparison(recordings: Sequence[Recording]) -> list[Row]:
    """The statistics of recordings, one row each, in the order of `STATISTICS`."""
    values = statistics(recordings)
    judged = all(comparable(recording) for recording in recordings)
    rows = []
    for name, about in STATISTICS.items():
        if name in values:
            accepted = about.accepted if judged or name == "overlaps" else None
            ok = accepted is None or accepted[0] <= values[name] <= accepted[1]
            rows.append(Row(name, about.meaning, values[name], about.reference, accepted, ok))
    return rows


PLURALS = {"bus": "buses", "static": "static obstacles"}


def summary(recording: Recording) -> dict[str, Any]:
    """What `tacit traffic show` prints about a recording."""
    kinds = {kind: int((recording.kinds == code).sum()) for kind, code in KINDS.items()}
    lanes = [len(marks) - 1 for marks in (recording.upper_marks, recording.lower_marks) if len(marks)]
    return {
        "name": recording.name,
        "source": recording.about.get("source", "unknown"),
        **{key: recording.about[key] for key in ("origin", "licence", "format", "time step") if key in recording.about},
        "seconds": recording.seconds,
        "vehicles": len(recording),
        **{PLURALS.get(kind, f"{kind}s"): count for kind, count in kinds.items() if count},
        "lanes": " + ".join(map(str, lanes)),
        "speed limit": None if recording.speed_limit < 0 else recording.speed_limit,
        "vehicle kilometres": float(np.abs(recording.vx).sum() * DT / 1000),
        "occupancy": len(recording.x) / recording.last_frame,
    }
