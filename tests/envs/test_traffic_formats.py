"""Recordings on disk: what is written is read again, and what is wrong is refused with file, row and remedy."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.envs.options import notice
from tacit.envs.traffic import SIMULATED, UNKNOWN, compact, files, highd, highd_write
from tacit.envs.traffic.files import load, load_all, traffic_of
from tacit.envs.traffic.layout import Rules, build
from tacit.envs.traffic.neighbours import Neighbours
from tacit.envs.traffic.recording import KINDS, Recording
from tacit.errors import UserError
from traffic_scenes import Car, random_recording, recording

# The files of highD as they come, typed by hand: two vehicles, three frames.
META = (
    "id,frameRate,locationId,speedLimit,month,weekDay,startTime,duration,totalDrivenDistance,totalDrivenTime,"
    "numVehicles,numCars,numTrucks,upperLaneMarkings,lowerLaneMarkings\n"
    "7,25,2,-1.0,09.2017,Tue,09:54,0.12,4.56,0.24,2,1,1,8.51;12.59;16.43,21.00;24.96;28.80\n"
)
VEHICLES = (
    "id,width,height,initialFrame,finalFrame,numFrames,class,drivingDirection,traveledDistance,minXVelocity,"
    "maxXVelocity,meanXVelocity,minDHW,minTHW,minTTC,numLaneChanges\n"
    "1,4.85,2.12,1,3,3,Car,1,3.20,40.00,40.00,40.00,-1.00,-1.00,-1.00,0\n"
    "2,14.16,2.50,2,3,2,Truck,2,0.88,22.00,22.00,22.00,-1.00,-1.00,-1.00,0\n"
)
TRACKS = (
    "frame,id,x,y,width,height,xVelocity,yVelocity,xAcceleration,yAcceleration,frontSightDistance,backSightDistance,"
    "dhw,thw,ttc,precedingXVelocity,precedingId,followingId,leftPrecedingId,leftAlongsideId,leftFollowingId,"
    "rightPrecedingId,rightAlongsideId,rightFollowingId,laneId\n"
    "1,1,362.26,9.40,4.85,2.12,-40.00,0.02,0.30,0.00,364.68,53.51,0.00,0.00,0.00,0.00,0,0,0,0,0,0,0,0,2\n"
    "2,1,360.66,9.40,4.85,2.12,-40.00,0.02,0.30,0.00,363.08,55.11,0.00,0.00,0.00,0.00,0,0,0,0,0,0,0,0,2\n"
    "3,1,359.06,9.40,4.85,2.12,-40.00,0.02,0.30,0.00,361.48,56.71,0.00,0.00,0.00,0.00,0,0,0,0,0,0,0,0,2\n"
    "2,2,10.00,25.50,14.16,2.50,22.00,0.00,0.00,0.00,403.00,17.08,0.00,0.00,0.00,0.00,0,0,0,0,0,0,0,0,6\n"
    "3,2,10.88,25.50,14.16,2.50,22.00,0.00,0.00,0.00,402.12,17.96,0.00,0.00,0.00,0.00,0,0,0,0,0,0,0,0,6\n"
)


def write(folder: Path, tracks: str = TRACKS, vehicles: str = VEHICLES, meta: str = META) -> Path:
    for part, text in (("tracks", tracks), ("tracksMeta", vehicles), ("recordingMeta", meta)):
        (folder / f"07_{part}.csv").write_text(text)
    return folder / "07_tracks.csv"


def test_a_file_typed_by_hand(tmp_path: Path) -> None:
    found = load(write(tmp_path))
    assert found.name == "07"
    assert found.ids.tolist() == [1, 2]
    assert found.kinds.tolist() == [KINDS["car"], KINDS["truck"]]
    assert found.directions.tolist() == [1, 2]
    assert found.lengths.tolist() == [4.85, 14.16]
    assert found.first.tolist() == [1, 2]
    assert found.counts.tolist() == [3, 2]
    assert found.x.tolist() == [362.26, 360.66, 359.06, 10.0, 10.88]
    assert found.lower_marks.tolist() == [21.0, 24.96, 28.8]
    assert found.speed_limit == -1.0
    assert found.lanes().tolist() == [1, 1, 1, 1, 1]  # both keep right
    assert found.about["source"] == "highD files"
    # In driving direction: towards +X, left is +Y.
    with pytest.warns(UserWarning, match="recording 07"):  # too short to drive in
        traffic = build([random_recording(1), found])
    (part,) = [road for road in traffic.roads if road.recording == "07" and road.marks[0] > 0]
    assert part.marks == pytest.approx([18.43, 12.59, 6.51])
    assert part.x_range == (-460.0, 40.0)


def test_columns_may_come_in_another_order(tmp_path: Path) -> None:
    plain = load(write(tmp_path))
    rows = [line.split(",") for line in TRACKS.splitlines()]
    turned = "\n".join(",".join(reversed(row)) for row in rows) + "\n"
    assert load(write(tmp_path, tracks="\ufeff" + turned)) == plain


@pytest.mark.parametrize("compression", ["", ".gz", ".xz"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_recording_written_as_csv_is_the_same_when_read(tmp_path: Path, compression: str, seed: int) -> None:
    one = random_recording(seed)
    paths = highd_write.save(one, tmp_path, compression=compression)
    assert len(paths) == 3
    again = load(paths[0])
    assert again == one
    assert "simulated" in again.about["source"]
    # And once more, to the byte.
    twice = highd_write.save(again, tmp_path / "again", compression=compression)
    assert [p.read_bytes() for p in twice] == [p.read_bytes() for p in paths]


def test_derived_columns(tmp_path: Path) -> None:
    cars = [Car(50.0, 26.0, 30.0, 50), Car(80.0, 26.0, 20.0, 50), Car(52.0, 22.0, 31.0, 50), Car(20.0, 22.0, 25.0, 50)]
    paths = highd_write.save(recording(cars), tmp_path)
    header, first, *_ = paths[0].read_text().splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert row["dhw"] == "25.50"
    assert row["thw"] == "0.85"
    assert row["ttc"] == "2.55"
    assert (row["precedingId"], row["followingId"], row["precedingXVelocity"]) == ("2", "0", "20.00")
    assert (row["leftPrecedingId"], row["leftAlongsideId"], row["leftFollowingId"]) == ("0", "3", "4")
    assert row["laneId"] == "6"
    assert (row["frontSightDistance"], row["backSightDistance"]) == ("370.00", "50.00")
    meta = paths[1].read_text().splitlines()
    told = dict(zip(meta[0].split(","), meta[1].split(","), strict=True))
    assert (told["numFrames"], told["minDHW"], told["class"]) == ("50", "5.90", "Car")


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_against_a_search(seed: int) -> None:
    rec = random_recording(seed, n=10)
    around = Neighbours(rec)
    left = around.beside("left")
    rng = np.random.default_rng(seed)
    for row in rng.integers(len(rec.x), size=150):
        same_frame = np.flatnonzero((rec.frames == rec.frames[row]) & (np.arange(len(rec.x)) != row))
        mates = [r for r in same_frame if around.lane[r] == around.lane[row]]
        ahead = [r for r in mates if around.s[r] > around.s[row]]
        assert around.leader[row] == (min(ahead, key=lambda r: around.s[r]) if ahead else -1)
        beside = [r for r in same_frame if around.lane[r] == around.lane[row] - 1]

        def overlaps(r: int, row: int = row) -> bool:
            return abs(around.s[r] - around.s[row]) < around.half[r] + around.half[row]

        clear = [r for r in beside if around.s[r] >= around.s[row] and not overlaps(r)]
        touching = [r for r in beside if overlaps(r)]
        if len(touching) < 2:
            assert left[0][row] == (min(clear, key=lambda r: around.s[r]) if clear else -1)
            assert left[1][row] == (touching[0] if touching else -1)


def test_the_compact_form_keeps_every_centimetre(tmp_path: Path) -> None:
    for seed in range(3):
        one = random_recording(seed)
        path = tmp_path / f"r{seed}{compact.SUFFIX}"
        compact.save(one, path)
        assert compact.load(path) == one
        data = path.read_bytes()
        compact.save(one, path)
        assert path.read_bytes() == data
    odd = Recording(**{**vars_of(one), "x": one.x + 0.001})
    with pytest.raises(UserError, match="centimetres"):
        compact.save(odd, path)


def vars_of(rec: Recording) -> dict[str, object]:
    names = ("name", "upper_marks", "lower_marks", "ids", "kinds", "directions", "lengths", "widths", "first", "counts")
    return {name: getattr(rec, name) for name in (*names, "x", "y", "vx", "vy")}


# ---------------------------------------------------------------- wrong input


def edit(text: str, row: int, column: str, value: str) -> str:
    lines = [line.split(",") for line in text.splitlines()]
    lines[row - 1][lines[0].index(column)] = value
    return "\n".join(map(",".join, lines)) + "\n"


def drop_column(text: str, name: str) -> str:
    lines = [line.split(",") for line in text.splitlines()]
    k = lines[0].index(name)
    return "\n".join(",".join(line[:k] + line[k + 1 :]) for line in lines) + "\n"


def lines(text: str, *numbers: int) -> str:
    every = text.splitlines()
    return "\n".join(every[n - 1] for n in numbers) + "\n"


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "missing column": ({"tracks": drop_column(TRACKS, "yVelocity")}, "tracks.csv: row 1.*lacks 'yVelocity'"),
    "extra column": ({"meta": META.replace("id,", "id,colour,", 1)}, "recordingMeta.csv: row 1.*unknown 'colour'"),
    "wrong frame rate": ({"meta": edit(META, 2, "frameRate", "10")}, "row 2: frameRate is 10, expected 25"),
    "km/h": (
        {"tracks": TRACKS.replace("-40.00", "-144.00").replace("22.00,0.00", "79.20,0.00")},
        "tracks.csv: row 2: .*are the velocities in km/h",
    ),
    "feet": (
        {"vehicles": edit(VEHICLES, 3, "width", "46.5"), "tracks": TRACKS.replace(",14.16,", ",46.5,")},
        "vehicle 2 has length 46.5.*are the units metres",
    ),
    "positions and velocities disagree": (
        {"tracks": TRACKS.replace("-40.00", "-20.00").replace("22.00", "11.00")},
        "by their positions and .* by their velocities",
    ),
    "unsorted frames": (
        {"tracks": lines(TRACKS, 1, 3, 2, 4, 5, 6)},
        "row 3: the frames are not sorted: vehicle 1.*sort the rows",
    ),
    "duplicate frame": (
        {"tracks": lines(TRACKS, 1, 2, 3, 3, 4, 5, 6)},
        "row 4: the frame appears twice: vehicle 1.*delete one",
    ),
    "gap": ({"tracks": lines(TRACKS, 1, 2, 4, 5, 6)}, "row 3: the track has a gap: vehicle 1 goes from frame 1 to 3"),
    "unsorted vehicles": ({"tracks": lines(TRACKS, 1, 2, 5, 3, 4, 6)}, "row 4: vehicle 1 appears again"),
    "not a number": ({"tracks": edit(TRACKS, 4, "x", "nan")}, "row 4: x is 'nan', expected a number"),
    "text": ({"tracks": edit(TRACKS, 4, "x", "here")}, "tracks.csv: row 4: x is 'here'"),
    "infinite": ({"tracks": edit(TRACKS, 3, "yVelocity", "inf")}, "row 3: yVelocity is 'inf'"),
    "empty tracks": ({"tracks": ""}, "tracks.csv is empty"),
    "only a header": ({"tracks": lines(TRACKS, 1)}, "no rows below its header"),
    "empty meta": ({"meta": ""}, "recordingMeta.csv is empty"),
    "short row": ({"vehicles": VEHICLES.replace(",1,3.20", "")}, "tracksMeta.csv: row 2 has 14 values, expected 16"),
    "truncated": ({"tracks": TRACKS[:-40]}, "tracks.csv: row 6 has 12 values, expected 25"),
    "unknown class": ({"vehicles": edit(VEHICLES, 2, "class", "Bicycle")}, "row 2: class is 'bicycle'"),
    "other vehicles": ({"vehicles": edit(VEHICLES, 3, "id", "9")}, "vehicle 2 is in .*tracks.csv .row 5. and not in"),
    "other frames": ({"vehicles": edit(VEHICLES, 3, "numFrames", "3")}, "row 3: numFrames of vehicle 2 is 3, but 2"),
    "listed twice": ({"vehicles": VEHICLES + VEHICLES.splitlines()[1] + "\n"}, "row 4: vehicle 1 is listed twice"),
    "markings": ({"meta": META.replace("21.00;24.96", "21.00;x")}, "lowerLaneMarkings is '21.00;x;28.80'"),
    "markings that descend": (
        {"meta": META.replace("21.00;24.96", "24.96;21.00")},
        "recordingMeta.csv: row 2: .*must ascend by a lane's width",
    ),
    "direction": (
        {"vehicles": edit(VEHICLES, 2, "drivingDirection", "3")},
        "tracksMeta.csv: row 2: .*driving direction of vehicle 1 is 3, expected 1 .* or 2",
    ),
    "blank lines": (
        {"tracks": "\n" + edit(TRACKS, 4, "x", "nan").replace("\n", "\n\n", 2)},
        "row 7: x is 'nan'",
    ),
    "blank lines in meta": (
        {"vehicles": edit(VEHICLES, 3, "class", "Tram").replace("\n", "\n  \n", 1)},
        "row 4: class is 'tram'",
    ),
    "frame of 1.4": ({"tracks": edit(TRACKS, 2, "frame", "1.4")}, "row 2: frame is '1.4', expected a whole number"),
    "id of 1.4": ({"vehicles": edit(VEHICLES, 2, "id", "1.4")}, "row 2: id is '1.4', expected a whole number"),
    "direction of 1.4": (
        {"vehicles": edit(VEHICLES, 2, "drivingDirection", "1.4")},
        "row 2: drivingDirection is '1.4', expected a whole number",
    ),
    "other direction": (
        {"vehicles": edit(VEHICLES, 3, "drivingDirection", "1")},
        "tracks.csv: row 5: .*vehicle 2 in frame 2 has velocity 22 m/s in x, against its driving direction 1",
    ),
    "velocity of the other sign": (
        {"tracks": TRACKS.replace(",22.00,", ",-22.00,"), "vehicles": edit(VEHICLES, 3, "drivingDirection", "1")},
        "x and xVelocity contradict each other: vehicle 2",
    ),
    "y and yVelocity": (
        {"tracks": TRACKS.replace(",0.02,", ",6.00,")},
        "tracks.csv: row 2: .*y and yVelocity contradict each other: vehicle 1 moves 0.00 m .* and 0.48 m",
    ),
    "a jump aside": ({"tracks": edit(TRACKS, 3, "y", "11.00")}, "row 3: .*jumps by 1.6 m in y within one frame"),
    "beside the road": (
        {"tracks": TRACKS.replace(",25.50,", ",31.00,")},
        "tracks.csv: row 5: .*centre of vehicle 2 in frame 2 is at y = 32.25, over 2 m beside the lower",
    ),
    "size of another": ({"tracks": edit(TRACKS, 4, "width", "5.85")}, "row 4: width of vehicle 1 is 5.85, but 4.85 by"),
    "size that is nan": ({"tracks": edit(TRACKS, 4, "height", "nan")}, "row 4: height is 'nan'"),
    "last frame": ({"vehicles": edit(VEHICLES, 2, "finalFrame", "4")}, "row 2: finalFrame of vehicle 1 is 4, but 3 by"),
    "marking that is nan": ({"meta": META.replace("24.96", "nan")}, "recordingMeta.csv: row 2: lowerLaneMarkings is"),
    "decimal commas": ({"tracks": TRACKS.replace("10.88", "10,88")}, "row 6 has 26 values.*write 1.5, not 1,5"),
    "semicolons": ({"tracks": TRACKS.replace(",", ";").replace(".", ",")}, "row 1: the columns are separated by ';'"),
    "speed limit in km/h": (
        {"meta": edit(META, 2, "speedLimit", "130")},
        "recordingMeta.csv: row 2: .*speed limit is in m/s",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, case: str) -> None:
    changed, text = WRONG[case]
    path = write(tmp_path, **changed)
    with pytest.raises(UserError, match=text) as caught:
        load(path)
    assert "07" in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "07_tracksMeta.csv").unlink()
    with pytest.raises(UserError, match=r"07_tracksMeta.csv .*is missing"):
        load(path)
    with pytest.raises(UserError, match="does not exist"):
        load(tmp_path / "nothing")
    with pytest.raises(UserError, match="is not a recording"):
        load(__file__)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="there is no recording in"):
        files.find(tmp_path / "empty")
    with pytest.raises(UserError, match="there is no recording in"):
        traffic_of(tmp_path / "empty")


def test_good_recordings_only_if_asked_for(tmp_path: Path) -> None:
    highd_write.save(random_recording(0), tmp_path, "01")
    highd_write.save(random_recording(1), tmp_path, "02")
    bad = tmp_path / "02_tracks.csv"
    bad.write_text(bad.read_text()[:-40])
    with pytest.raises(UserError, match=r"02_tracks.*--env skip_bad=true\)$"):
        load_all([tmp_path])
    with pytest.raises(UserError, match=r"02_tracks.*cut off.$"):
        load_all([tmp_path / "02"])  # without it there would be none
    with pytest.warns(UserWarning, match="left out: .*02_tracks"):
        good = load_all([tmp_path], skip_bad=True)
    assert [r.name for r in good] == ["01"]
    (tmp_path / "01_tracks.csv").write_text("")
    with pytest.warns(UserWarning, match="left out"), pytest.raises(UserError, match="none of the recordings"):
        load_all([tmp_path], skip_bad=True)


def test_a_recording_too_short_for_a_problem() -> None:
    long = recording([Car(50.0, frames=100), Car(80.0, frames=100)])
    with pytest.warns(UserWarning, match="no problem comes from recording short: none of its cars is in sight for 50"):
        both = build([recording([Car(50.0, frames=20), Car(80.0, frames=30)], "short"), long])
    assert len(both.problems) == 2
    with pytest.raises(UserError, match="scene: there is no other vehicle on the carriageway"):
        build([recording([Car(50.0, frames=200)])])
    with pytest.raises(UserError, match="empty list"):
        traffic_of([])
    with pytest.raises(UserError, match="pose no problem"):
        build([recording([Car(50.0, frames=20), Car(80.0, frames=30)])])
    with pytest.raises(UserError, match="there is no car in it"):
        build([recording([Car(50.0, kind="truck", length=12.0, frames=100), Car(90.0, kind="truck", frames=200)])])
    with pytest.raises(UserError, match="there is no recording"):
        build([])


def test_simulated_traffic_is_known_by_its_recordings(tmp_path: Path) -> None:
    env = "tacit/HighwayDistance-v0"
    for name in (env, f"tacit:{env}"):
        assert notice(name, {}) == SIMULATED
    assert notice("tacit/Ant-v0", {}) is None
    genuine = Recording(**{**vars_of(random_recording(0)), "about": {"source": "highD files"}})  # type: ignore[arg-type]
    for one, expected in ((random_recording(0), SIMULATED), (genuine, None)):
        folder = tmp_path / str(expected is None)
        highd_write.save(one, folder / "csv", "01", ".gz")
        compact.save(one, folder / "npz" / f"01{compact.SUFFIX}")
        for form in ("csv", "npz"):
            assert notice(env, {"recordings": str(folder / form)}) == expected
            assert traffic_of(folder / form).simulated == (expected is not None)
    assert notice(env, {"recordings": [str(tmp_path / "True" / "npz"), str(tmp_path / "False" / "csv" / "01")]})
    assert notice(env, {"recordings": str(tmp_path / "gone")}) == UNKNOWN


def test_damaged_compressed_files(tmp_path: Path) -> None:
    for end, pack in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = write(tmp_path)
        packed = tmp_path / f"07_tracks.csv{end}"
        packed.write_bytes(pack(TRACKS.encode()))
        path.unlink()
        assert len(load(packed)) == 2
        packed.write_bytes(pack(TRACKS.encode())[:-20])
        with pytest.raises(UserError, match="truncated or damaged"):
            load(packed)
        packed.unlink()
    path = write(tmp_path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        load(path)


@given(st.data())
def test_mangled_csv_never_crashes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Cells replaced, bytes cut or inserted: a recording, or one sentence."""
    folder = tmp_path_factory.mktemp("fuzz")
    texts = {"tracks": TRACKS, "vehicles": VEHICLES, "meta": META}
    which = data.draw(st.sampled_from(sorted(texts)))
    text = texts[which]
    if data.draw(st.booleans()):
        rows = [line.split(",") for line in text.splitlines()]
        row = data.draw(st.sampled_from(rows))
        odd = st.sampled_from(["", "-1", "0", "1e309", "1e30", "nan", "x", "9" * 30, "-0.0", "2.5", '"', "\x00"])
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(odd)
        text = "\n".join(map(",".join, rows))
    else:
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.text(max_size=20)) + text[data.draw(st.integers(at, len(text))) :]
    path = write(folder, **{**texts, which: text})
    with contextlib.suppress(UserError):
        read = load(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            build([read, random_recording(0)])
    shutil.rmtree(folder)


@given(st.binary(max_size=40), st.integers(0, 3000), st.integers(0, 40))
def test_mangled_compact_files_never_crash(
    tmp_path_factory: pytest.TempPathFactory, new: bytes, at: int, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / f"r{compact.SUFFIX}"
    compact.save(recording([Car(50.0, frames=60), Car(80.0, frames=60)]), path)
    whole = path.read_bytes()
    at %= len(whole)
    path.write_bytes(whole[:at] + new + whole[at + cut :])
    with contextlib.suppress(UserError):
        # If it is read, then because the bytes do not matter: padding, dates, the comment at the end.
        assert len(compact.load(path)) == 2
    shutil.rmtree(folder)


def test_rules_are_checked() -> None:
    for options in ({"ego": "x"}, {"goal": "x"}, {"split": "x"}, {"corner": 1}, {"split_seed": -1}):
        with pytest.raises(UserError):
            Rules(**options)  # type: ignore[arg-type]


def test_prefixes() -> None:
    cases: list[tuple[str, Callable[[Path | None], bool]]] = [
        ("a/03_tracks.csv", lambda p: p == Path("a/03")),
        ("a/03_tracksMeta.csv.gz", lambda p: p == Path("a/03")),
        ("a/03_recordingMeta.csv.xz", lambda p: p == Path("a/03")),
        ("a/03.csv", lambda p: p is None),
    ]
    for name, right in cases:
        assert right(highd.prefix_of(name)), name
