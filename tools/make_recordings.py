"""Make the recordings that are shipped: highway traffic simulated with SUMO, in the form of highD recordings.

    python tools/make_recordings.py --out DIR [--only 03]        (pip install '.[recordings]'; `make recordings`)

Each carriageway is a straight road of 3.5 km on which drivers with their own wishes (speed, headway, acceleration)
follow each other by the extended intelligent driver model and change lanes by SUMO's default rules, taking 4.5 s for
it (its sub-lane model let vehicles squeeze past each other within a lane). A stretch of 420 m is recorded after the
traffic has settled. Parameters are calibrated to published aggregates of a German motorway (`statistics.py`,
docs/environments.md#highway-traffic).

SUMO's vehicles keep to the centre of their lane as if on rails. A real one wanders: to each is added

    y'' = -2 w y' - w^2 y + noise,        w = 0.416 / s

(a critically damped oscillator driven by white noise; sd of y' 0.104 m/s for cars and 0.08 m/s for trucks), faded out
around lane changes, so that no vehicle wanders to and fro across a marking and fakes lane changes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.envs.traffic import compact
from tacit.envs.traffic.recording import DT, KINDS, LOWER, SECTION, UPPER, Recording
from tacit.run.storage import sha256_of_file

LANE_WIDTH = 3.75
ROAD, BEGIN = 3500.0, 2700.0
"""Length of the simulated road, and where the recorded stretch begins on it."""
WARM_UP = 150.0
TYPES = 150
"""Different drivers of each class; vehicles draw one of them."""
WANDER = 0.416
KMH = 1 / 3.6


SHIPPED = Path(__file__).resolve().parents[1] / "src/tacit/envs/traffic/data"
LICENCE = "MIT"
ORIGIN = "Made for Tacit with the traffic simulator SUMO. No data of other people went in."


@dataclass(frozen=True)
class Setting:
    """One recording. Flow is that of each direction."""

    name: str
    lanes: int
    flow: float
    """Vehicles per hour that want to enter."""
    trucks: float
    """Their share."""
    seed: int
    seconds: float = 550.0
    limit: float | None = None
    """Speed limit, km/h."""
    eagerness: float = 6.0
    """To change lanes, for speed and back to the right: SUMO's lcSpeedGain and lcKeepRight."""
    speed_factor: tuple[float, float] = (1.11, 0.19)
    """Mean and standard deviation of what cars would like to drive, in units of 130 km/h (or of the limit)."""


CALM = (1.03, 0.15)
"""Where there is room nearly everybody drives as fast as he wishes: wishes that give plausible speeds then."""
LIMITED = (1.04, 0.11)
CALMER = 2.5
"""On three lanes there is more to change to."""
SETTINGS = (
    Setting("01", lanes=2, flow=1200, trucks=0.20, seed=101, seconds=600, speed_factor=CALM),
    Setting("02", lanes=2, flow=1600, trucks=0.25, seed=102, seconds=600),
    Setting("03", lanes=2, flow=1600, trucks=0.25, seed=103, seconds=600),
    Setting("04", lanes=2, flow=2200, trucks=0.20, seed=104),
    Setting("05", lanes=2, flow=1600, trucks=0.25, seed=105, limit=120, speed_factor=LIMITED),
    Setting("06", lanes=3, eagerness=CALMER, flow=2400, trucks=0.15, seed=106, speed_factor=CALM),
    Setting("07", lanes=3, eagerness=CALMER, flow=3000, trucks=0.15, seed=107, speed_factor=(1.08, 0.17)),
    Setting("08", lanes=3, eagerness=CALMER, flow=3000, trucks=0.20, seed=108, limit=130, speed_factor=LIMITED),
    Setting("09", lanes=3, eagerness=CALMER, flow=4200, trucks=0.15, seed=109, seconds=500),
    Setting("10", lanes=3, eagerness=CALMER, flow=4800, trucks=0.15, seed=110, seconds=500),
)


THE_ROAD = ("upper_marks", "lower_marks", "speed_limit")
THE_VEHICLES = ("ids", "kinds", "directions", "lengths", "widths", "first", "counts", "x", "y", "vx", "vy")


@dataclass
class Track:
    """What SUMO reports of one vehicle on the recorded stretch; lists have one entry per frame."""

    kind: str
    length: float
    width: float
    first: int
    x: list[float]
    """Front bumper along the road, metres from the begin of the stretch."""
    y: list[float]
    """Centre, metres left of the right road edge."""
    speed: list[float]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED, help="folder to write to")
    parser.add_argument("--only", nargs="*", help="names of recordings, such as 03")
    parser.add_argument("--seconds", type=float, help="a shorter recording, for tests")
    parser.add_argument("--against", type=Path, help="folder of recordings that these must be the same as")
    args = parser.parse_args(arguments)
    different = []
    for setting in SETTINGS:
        if args.only and setting.name not in args.only:
            continue
        setting = setting if args.seconds is None else replace(setting, seconds=args.seconds)
        path = args.out / f"sim{setting.name}{compact.SUFFIX}"
        recording = simulate(setting)
        compact.save(recording, path)
        print(f"{path.name}  {len(recording)} vehicles  {path.stat().st_size / 1e6:.2f} MB  {sha256_of_file(path)}")
        if args.against is not None:
            same, verdict = compared(compact.load(path), compact.load(args.against / path.name))
            print(f"  beside {args.against / path.name}: {verdict}")
            different += [] if same else [path.name]
    if different:
        sys.exit(f"{', '.join(different)}: not what is in {args.against}; nothing was replaced")


def compared(new: Recording, old: Recording) -> tuple[bool, str]:
    """Whether one is the other made again, and in words.

    Half a centimetre is a frequent place of an edge (a lane's centre less half a width); in which direction it is
    rounded depends on the last bit, which processors do not agree on. One in a thousand places may so differ by 1 cm.
    """
    same = {name: np.array_equal(getattr(new, name), getattr(old, name)) for name in (*THE_ROAD, *THE_VEHICLES)}
    if all(same.values()):
        return True, "the same"
    if not all(is_same for name, is_same in same.items() if name != "y") or new.y.shape != old.y.shape:
        return False, "different " + ", ".join(name for name, is_same in same.items() if not is_same)
    off = np.abs(new.y - old.y)
    moved = int(np.count_nonzero(off > 1e-6))
    verdict = f"the same except for {moved} of {len(off)} places, off by {100 * off.max():.0f} cm at most"
    return moved <= 1e-3 * len(off) and float(off.max()) < 0.0101, verdict


def simulate(setting: Setting) -> Recording:
    """One recording of both carriageways."""
    import libsumo

    rng = np.random.default_rng(setting.seed)
    halves = [_carriageway(setting, int(rng.integers(1 << 30)), rng) for _ in (UPPER, LOWER)]
    about = {
        "source": "simulated with SUMO; not human driving",
        "sumo": libsumo.getVersion()[1],
        "setting": asdict(setting),
        "licence": LICENCE,
        "origin": ORIGIN,
    }
    return assemble(f"sim{setting.name}", setting.lanes, setting.limit, halves, rng, about)


# ---------------------------------------------------------------- SUMO


def _carriageway(setting: Setting, seed: int, rng: np.random.Generator) -> list[Track]:
    import libsumo

    with tempfile.TemporaryDirectory() as folder:
        net, routes = Path(folder) / "road.net.xml", Path(folder) / "cars.rou.xml"
        net.write_text(_network(setting))
        routes.write_text(_demand(setting, rng))
        options = [
            *("sumo", "--net-file", str(net), "--route-files", str(routes), "--seed", str(seed)),
            *("--step-length", f"{DT:g}", "--step-method.ballistic", "true", "--lanechange.duration", "4.5"),
            *("--default.action-step-length", "0.2", "--no-step-log", "true", "--no-warnings", "true"),
            *("--time-to-teleport", "-1", "--collision.action", "none", "--end", f"{WARM_UP + setting.seconds + 1:g}"),
        ]
        libsumo.start(options)
        try:
            return _record(libsumo, round(setting.seconds / DT))
        finally:
            libsumo.close()


def _record(libsumo: Any, frames: int) -> list[Track]:
    """Every vehicle while its centre is on the stretch."""
    vehicle = libsumo.vehicle
    while libsumo.simulation.getTime() < WARM_UP - 1e-9:
        libsumo.simulationStep()
    tracks: dict[str, Track] = {}
    for frame in range(1, frames + 1):
        libsumo.simulationStep()
        for name in vehicle.getIDList():
            x, y = vehicle.getPosition(name)
            if not BEGIN < x < BEGIN + SECTION + 30:
                continue
            track = tracks.get(name)
            length = vehicle.getLength(name) if track is None else track.length
            if not 0 <= x - 0.5 * length - BEGIN <= SECTION:
                continue
            if track is None:
                kind = "truck" if name.startswith("truck") else "car"
                track = tracks[name] = Track(kind, length, vehicle.getWidth(name), frame, [], [], [])
            track.x.append(x - BEGIN)
            track.y.append(y)
            track.speed.append(vehicle.getSpeed(name))
    return [track for track in tracks.values() if len(track.x) > 1]


def _network(setting: Setting) -> str:
    """A one-way road. Written by hand: the library has no network converter. Lane 0 is the rightmost."""
    speed = (setting.limit or 130.0) * KMH
    width, lanes = LANE_WIDTH, setting.lanes
    shapes = [(i, f"0.00,{(i + 0.5) * width:.3f} {ROAD:.2f},{(i + 0.5) * width:.3f}") for i in range(lanes)]
    inside = "\n".join(
        f'    <lane id="road_{i}" index="{i}" speed="{speed:.3f}" length="{ROAD:.2f}" width="{width}" shape="{shape}"/>'
        for i, shape in shapes
    )
    incoming = " ".join(f"road_{i}" for i in range(lanes))
    top = f"{lanes * width:.2f}"
    return f"""<net version="1.20">
  <location netOffset="0.00,0.00" convBoundary="0.00,0.00,{ROAD:.2f},{top}"
            origBoundary="0.00,0.00,{ROAD:.2f},{top}" projParameter="!"/>
  <edge id="road" from="west" to="east" priority="1">
{inside}
  </edge>
  <junction id="west" type="dead_end" x="0.00" y="0.00" incLanes="" intLanes="" shape="0.00,0.00 0.00,{top}"/>
  <junction id="east" type="dead_end" x="{ROAD:.2f}" y="0.00" incLanes="{incoming}" intLanes=""
            shape="{ROAD:.2f},0.00 {ROAD:.2f},{top}"/>
</net>
"""


def _demand(setting: Setting, rng: np.random.Generator) -> str:
    """Driver types, then Poisson arrivals."""
    lines = ["<routes>", *_types("car", setting, rng), *_types("truck", setting, rng)]
    lines.append('  <route id="all" edges="road"/>')
    time, number = 0.0, 0
    while time < WARM_UP + setting.seconds:
        time += rng.exponential(3600.0 / setting.flow)
        kind = "truck" if rng.random() < setting.trucks else "car"
        lane = "0" if kind == "truck" else "free"
        lines.append(
            f'  <vehicle id="{kind}{number}" type="{kind}{rng.integers(TYPES)}" route="all" depart="{time:.2f}" '
            f'departLane="{lane}" departSpeed="avg"/>'
        )
        number += 1
    return "\n".join([*lines, "</routes>"])


def _types(kind: str, setting: Setting, rng: np.random.Generator) -> list[str]:
    return [f'  <vType id="{kind}{i}" {_attributes(_driver(kind, setting, rng))}/>' for i in range(TYPES)]


def _driver(kind: str, setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
    """One driver and vehicle."""

    def normal(mean: float, sd: float, low: float, high: float) -> float:
        return float(np.clip(rng.normal(mean, sd), low, high))

    def headway(median: float) -> float:
        return float(np.clip(median * np.exp(0.45 * rng.standard_normal()), 0.3, 2.8))

    common = {"carFollowModel": "EIDM", "laneChangeModel": "LC2013", "minGap": 1.5}
    if kind == "car":
        mean, sd = setting.speed_factor
        van = rng.random() < 0.12
        return common | {
            "vClass": "passenger",
            "length": normal(6.3, 0.7, 5.2, 8.5) if van else normal(4.5, 0.42, 3.4, 5.6),
            "width": normal(2.2, 0.1, 2.0, 2.45) if van else normal(1.95, 0.13, 1.6, 2.3),
            "maxSpeed": 70.0,
            "speedFactor": normal(mean, sd, 0.65, 1.6),
            "tau": headway(0.75),
            "accel": normal(1.4, 0.3, 0.7, 2.5),
            "decel": normal(2.0, 0.3, 1.2, 3.0),
            "lcSpeedGain": setting.eagerness,
            "lcKeepRight": setting.eagerness,
            "lcAssertive": 1.5,
        }
    return common | {
        "vClass": "truck",
        "length": normal(17.0, 1.5, 13.0, 18.75) if rng.random() < 0.6 else normal(10.0, 2.0, 7.0, 13.5),
        "width": normal(2.5, 0.04, 2.4, 2.6),
        "maxSpeed": 24.7 * normal(1.0, 0.05, 0.9, 1.1),
        "speedFactor": 1.0,
        "tau": headway(1.3),
        "accel": normal(0.6, 0.15, 0.3, 1.0),
        "decel": normal(2.0, 0.3, 1.2, 3.0),
        "lcSpeedGain": 0.05,
        "lcKeepRight": 2.0,
    }


def _attributes(values: dict[str, Any]) -> str:
    return " ".join(
        f'{key}="{value:.3f}"' if isinstance(value, float) else f'{key}="{value}"' for key, value in values.items()
    )


# ---------------------------------------------------------------- from tracks to a recording


def assemble(
    name: str,
    lanes: int,
    limit: float | None,
    halves: Sequence[Sequence[Track]],
    rng: np.random.Generator,
    about: dict[str, Any],
) -> Recording:
    """Both carriageways in image coordinates, with lateral wander, in whole centimetres."""
    breadth = lanes * LANE_WIDTH
    top, median = 8.5, 4.7
    upper = np.round(top + LANE_WIDTH * np.arange(lanes + 1), 2)
    lower = np.round(top + breadth + median + LANE_WIDTH * np.arange(lanes + 1), 2)
    order = sorted(
        ((direction, track) for direction, half in zip((UPPER, LOWER), halves, strict=True) for track in half),
        key=lambda item: item[1].first,
    )
    columns: dict[str, list[Any]] = {key: [] for key in ("x", "y", "vx", "vy")}
    for direction, track in order:
        lateral, lateral_speed = wandering(track, rng)
        along = np.array(track.x) - 0.5 * track.length
        length, width = round(track.length, 2), round(track.width, 2)
        # The right road edge is the upper image border of the upper carriageway, the lower one of the lower.
        sign = -1.0 if direction == UPPER else 1.0
        centre_x = along if direction == LOWER else SECTION - along
        centre_y = upper[0] + lateral if direction == UPPER else lower[-1] - lateral
        columns["x"].append(np.round(centre_x - 0.5 * length, 2))
        columns["y"].append(np.round(centre_y - 0.5 * width, 2))
        columns["vx"].append(np.round(sign * np.array(track.speed), 2))
        columns["vy"].append(np.round(-sign * lateral_speed, 2))
    rows: dict[str, Any] = {key: np.concatenate(parts) for key, parts in columns.items()}
    return Recording(
        name=name,
        upper_marks=upper,
        lower_marks=lower,
        ids=np.arange(1, len(order) + 1),
        kinds=np.array([KINDS[track.kind] for _, track in order]),
        directions=np.array([direction for direction, _ in order]),
        lengths=np.array([round(track.length, 2) for _, track in order]),
        widths=np.array([round(track.width, 2) for _, track in order]),
        first=np.array([track.first for _, track in order]),
        counts=np.array([len(track.x) for _, track in order]),
        speed_limit=-1.0 if limit is None else round(limit * KMH, 2),
        about=about,
        **rows,
    )


def wandering(track: Track, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(frames,) lateral position and velocity: SUMO's, smoothed over 0.4 s, plus the wander away from lane changes."""
    raw = np.array(track.y)
    lane = np.floor(raw / LANE_WIDTH)
    smooth = _smooth(raw, 0.4 / DT)
    crossings = np.flatnonzero(np.diff(lane) != 0)
    frames = np.arange(len(raw))
    if len(crossings):
        away = np.abs(frames[:, None] - crossings[None, :]).min(axis=1) * DT
        ramp = np.clip((away - 2.0) / 3.0, 0.0, 1.0)
        gate = ramp * ramp * (3.0 - 2.0 * ramp)
    else:
        gate = np.ones(len(raw))
    lateral = smooth + gate * _wander(len(raw), 0.104 if track.kind == "car" else 0.08, rng)
    return lateral, np.gradient(lateral, DT)


def _wander(frames: int, sd: float, rng: np.random.Generator) -> np.ndarray:
    """A path of the oscillator above, from its stationary distribution: sd(y) = sd / w."""
    y, v = rng.normal(0.0, sd / WANDER), rng.normal(0.0, sd)
    # Stationarity of v' = -2 w v - w^2 y + s noise needs s^2 = 4 w sd^2.
    kick = sd * np.sqrt(4.0 * WANDER * DT) * rng.standard_normal(frames)
    path = np.empty(frames)
    for i in range(frames):
        v += DT * (-2.0 * WANDER * v - WANDER**2 * y) + kick[i]
        y += DT * v
        path[i] = y
    return path


def _smooth(values: np.ndarray, sd: float) -> np.ndarray:
    """Gaussian smoothing with the ends repeated."""
    reach = int(4 * sd)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sd) ** 2)
    return np.convolve(np.pad(values, reach, mode="edge"), kernel / kernel.sum(), mode="valid")


if __name__ == "__main__":
    main()
