"""CommonRoad scenarios: driven, turned, refused, mangled."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.envs.traffic import highd_write
from tacit.envs.traffic.commonroad import load as load_xml
from tacit.envs.traffic.files import load
from tacit.envs.traffic.layout import Rules, build
from tacit.envs.traffic.recording import KINDS
from tacit.envs.traffic.statistics import summary
from tacit.errors import UserError


def state(time: int, x: float, y: float, speed: float, yaw: float = 0.0) -> str:
    return (
        f"<position><point><x>{x}</x><y>{y}</y></point></position><orientation><exact>{yaw}</exact></orientation>"
        f"<time><exact>{time}</exact></time><velocity><exact>{speed}</exact></velocity>"
    )


def lanelet(number: int, right: float, left: float, bend: float = 0.0) -> str:
    def bound(y: float) -> str:
        points = [(-40.0, y), (200.0, y + bend), (460.0, y)]
        return "".join(f"<point><x>{px}</x><y>{py}</y></point>" for px, py in points)

    return (
        f'<lanelet id="{number}"><leftBound>{bound(left)}</leftBound><rightBound>{bound(right)}</rightBound></lanelet>'
    )


def obstacle(number: int, x: float, y: float, speed: float, steps: int, kind: str = "car", first: int = 0) -> str:
    moments = "".join(f"<state>{state(first + t, x + speed * 0.04 * t, y, speed)}</state>" for t in range(1, steps))
    return (
        f'<dynamicObstacle id="{number}"><type>{kind}</type>'
        "<shape><rectangle><length>4.5</length><width>2.0</width></rectangle></shape>"
        f"<initialState>{state(first, x, y, speed)}</initialState><trajectory>{moments}</trajectory></dynamicObstacle>"
    )


PROBLEM = (
    f'<planningProblem id="100"><initialState>{state(0, 50.0, -27.0, 30.0)}<yawRate><exact>0</exact></yawRate>'
    "</initialState>"
    "<goalState><position><rectangle><length>4.5</length><width>2</width><orientation>0</orientation>"
    "<center><x>170</x><y>-27</y></center></rectangle></position>"
    "<time><intervalStart>0</intervalStart><intervalEnd>125</intervalEnd></time></goalState></planningProblem>"
)
ROAD = lanelet(1, -30.0, -24.0) + lanelet(2, -24.0, -18.0)
TRAFFIC = obstacle(10, 95.0, -27.0, 30.0, 150) + obstacle(11, 20.0, -21.0, 35.0, 100, "truck", first=5)


def scenario(body: str = ROAD + TRAFFIC + PROBLEM, step: str = "0.04", version: str = "2020a") -> str:
    return (
        f'<?xml version="1.0"?><commonRoad timeStepSize="{step}" commonRoadVersion="{version}" benchmarkID="DEU_X-1">'
        f"{body}</commonRoad>"
    )


def write_xml(folder: Path, text: str) -> Path:
    path = folder / "scene.xml"
    path.write_text(text)
    return path


def test_a_commonroad_scenario_is_driven(tmp_path: Path) -> None:
    from tacit.envs.traffic.env import TrafficEnv

    path = write_xml(tmp_path, scenario())
    found = load(path)
    assert len(found) == 2
    assert found.kinds.tolist() == [KINDS["car"], KINDS["truck"]]
    env = TrafficEnv("distance", recordings=str(path))
    obs, info = env.reset(seed=0)
    assert env.traffic.roads[0].marks == pytest.approx([-18.0, -24.0, -30.0])
    assert env.traffic.roads[0].x_range == (-40.0, 460.0)
    named = dict(zip(env.feature_names, obs, strict=True))
    assert named["p_rel_same_lead"] == pytest.approx(45.0 - 2.25 - 2.254, abs=1e-3)
    assert named["distance_goal_long"] == pytest.approx(120.0 - 2.25, abs=1e-3)
    assert named["remaining_steps"] == 125
    for _ in range(125):
        obs, reward, terminated, _, info = env.step(np.zeros(2))
        if terminated:
            break
    assert (info["outcome"], reward) == ("goal", 50.0)


def test_a_turned_scenario_is_the_same(tmp_path: Path) -> None:
    """Half a turn, as the converter does with upper carriageways: points negated, angles + pi."""
    import re

    plain = build([load_xml(write_xml(tmp_path, scenario()))]).problems

    def negate(match: re.Match[str]) -> str:
        return f"<{match[1]}>{-float(match[2])}</{match[1]}>"

    text = re.sub(r"<(x|y)>([-\d.e]+)</\1>", negate, scenario())
    text = text.replace("<orientation><exact>0.0</exact>", "<orientation><exact>3.141592653589793</exact>")
    text = text.replace("<orientation>0</orientation>", "<orientation>3.141592653589793</orientation>")
    turned = build([load_xml(write_xml(tmp_path, text))]).problems
    for name in ("x", "y", "vx", "vy", "goal_x", "goal_y", "steps"):
        assert getattr(turned, name) == pytest.approx(getattr(plain, name), abs=1e-6), name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (scenario(lanelet(1, -30, -24, bend=3.0) + TRAFFIC + PROBLEM), "lanelet 1.*strays .* from a straight line"),
        (scenario(step="0.001"), "timeStepSize is 0.001, expected 0.01 to 1 seconds"),
        (scenario(version="2099z"), "'2099z', expected one of 2017a, 2018a, 2018b, 2020a"),
        (
            scenario(ROAD + lanelet(3, -18.0, -12.0).replace("<x>-40.0", "<x>470.0") + TRAFFIC + PROBLEM),
            "lanelet 3.*two-way roads",
        ),
        (scenario().replace("dynamicObstacle", "obstacle"), "obstacle 10: its role is '', expected dynamic or static"),
        (scenario(ROAD + TRAFFIC), "no <planningProblem>"),
        (scenario(ROAD + PROBLEM), "no vehicle"),
        (scenario(TRAFFIC + PROBLEM), "no <lanelet>"),
        (scenario().replace("<x>170</x>", "<x>nan</x>"), "goal: x is 'nan'"),
        (scenario().replace("<time><exact>7</exact>", "<time><exact>9</exact>", 1), "consecutive steps"),
        (
            scenario(ROAD + TRAFFIC + obstacle(12, 300.0, -21.0, -30.0, 50) + PROBLEM),
            "obstacle 12 drives against the direction of the lanes",
        ),
        (scenario().replace("trajectory>", "occupancySet>"), "obstacle 10: its motion is an <occupancySet>"),
        (scenario()[:-30], "not valid XML"),
        (scenario().replace("<length>4.5</length>", "<length>400</length>", 1), "are the units metres"),
        ("<osm></osm>", "expected a <commonRoad>"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><commonRoad/>', "declares entities"),
        ("", "not valid XML"),
        (scenario().replace("intervalEnd>125", "intervalEnd>0"), "goal ends at time step 0"),
        (
            scenario(ROAD + TRAFFIC + PROBLEM.replace("<rectangle>", "<circle>").replace("</rectangle>", "</circle>")),
            "goal is neither a rectangle nor lanelets",
        ),
    ],
)
def test_scenarios_that_cannot_be_driven(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        load(write_xml(tmp_path, text))
    assert "scene.xml" in str(caught.value)


@given(st.data())
def test_mangled_xml_never_crashes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    text = scenario(ROAD + obstacle(10, 95.0, -27.0, 30.0, 8) + PROBLEM)
    at = data.draw(st.integers(0, len(text)))
    new = data.draw(st.sampled_from(["", "9", "-", "<", "</x>", "1e9", "e", "nan", " ", "\x00", "<x>"]))
    text = text[:at] + new + text[at + data.draw(st.integers(0, 30)) :]
    with contextlib.suppress(UserError):
        build([load_xml(write_xml(folder, text))])
    shutil.rmtree(folder)


def test_a_scenario_far_from_the_origin_is_as_exact(tmp_path: Path) -> None:
    import re

    def far(match: re.Match[str]) -> str:
        offset = {"x": 4_500_000.25, "y": 5_400_000.5}[match[1]]
        return f"<{match[1]}>{float(match[2]) + offset!r}</{match[1]}>"

    plain = build([load_xml(write_xml(tmp_path, scenario()))])
    moved = build([load_xml(write_xml(tmp_path, re.sub(r"<(x|y)>([-\d.e]+)</\1>", far, scenario())))])
    begin = [traffic.roads[0].x_range[0] for traffic in (plain, moved)]
    for name in ("x", "goal_x"):
        a, b = (getattr(t.problems, name) - start for t, start in zip((plain, moved), begin, strict=True))
        assert b == pytest.approx(a, abs=1e-3)
    rows = slice(0, int(plain.starts[-1]))
    assert moved.table[0, rows] - begin[1] == pytest.approx(plain.table[0, rows] - begin[0], abs=1e-3)


@pytest.mark.parametrize("options", [{"corner": True}, {"goal": "lane"}, {"ego": "window"}])
def test_options_that_mean_nothing_for_a_scenario(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))}=.* means nothing for scene: CommonRoad"):
        build([load_xml(write_xml(tmp_path, scenario()))], Rules(**options))


@pytest.mark.filterwarnings("default:.*no goals and no road edges")
def test_a_scenario_is_exported_without_its_goals(cli: Callable[..., Any], tmp_path: Path) -> None:
    path = write_xml(tmp_path, scenario())
    done = cli("traffic", "export", path, "--out", tmp_path / "csv")
    assert done.status == 0, done.stderr
    assert "no goals and no road edges" in done.stderr
    plain, found = load(path), load(tmp_path / "csv" / "scene")
    assert found.lower_marks == pytest.approx(plain.lower_marks)
    assert found.x == pytest.approx(plain.x + 40.0, abs=0.006)
    assert not found.problems
    assert len(build([found]).problems) > 0


def test_static_obstacles_stand(tmp_path: Path) -> None:
    block = (
        '<staticObstacle id="20"><type>parkedVehicle</type>'
        "<shape><rectangle><length>4.5</length><width>2.0</width></rectangle></shape>"
        f"<initialState>{state(0, 120.0, -27.0, 0.0)}</initialState></staticObstacle>"
    )
    found = load(write_xml(tmp_path, scenario(ROAD + TRAFFIC + block + PROBLEM)))
    assert found.kinds.tolist()[-1] == KINDS["static"]
    assert {"cars", "trucks", "static obstacles"} <= set(summary(found))
    buses = load(write_xml(tmp_path, scenario().replace("<type>truck", "<type>bus")))
    assert summary(buses)["buses"] == 1
    assert (found.vx[-10:] == 0).all()
    with pytest.raises(UserError, match="cars and trucks only"):
        highd_write.save(found, tmp_path)


# Older formats, other time steps ------------------------------------------------------------------------------------


def drive(t: Any) -> tuple[Any, Any, Any, Any]:
    """x, y and velocity at time t (seconds) of a car that brakes gently and changes lanes."""
    x, vx = 95.0 + 30.0 * t - 0.5 * t**2, 30.0 - t
    y, vy = -27.0 + 3.0 * np.sin(0.3 * t) ** 2, 1.8 * np.sin(0.3 * t) * np.cos(0.3 * t)
    return x, y, vx, vy


def moving(step: float, seconds: float = 4.0, number: int = 10, first: int = 0) -> str:
    """The car of `drive` as an obstacle of version 2020a with this time step."""
    states = []
    for k in range(round(seconds / step) + 1):
        x, y, vx, vy = drive(k * step)
        states.append(state(first + k, x, y, float(np.hypot(vx, vy)), float(np.arctan2(vy, vx))))
    return (
        f'<dynamicObstacle id="{number}"><type>car</type><shape><rectangle><length>4.5</length><width>2.0</width>'
        f"</rectangle></shape><initialState>{states[0]}</initialState><trajectory>"
        + "".join(f"<state>{one}</state>" for one in states[1:])
        + "</trajectory></dynamicObstacle>"
    )


STANDING = (
    '<staticObstacle id="20"><type>parkedVehicle</type>'
    "<shape><rectangle><length>4.5</length><width>2.0</width></rectangle></shape>"
    f"<initialState>{state(0, 320.0, -21.0, 0.0, 0.5)}</initialState></staticObstacle>"
)


def older(text: str, version: str, seconds: float | None = None) -> str:
    """A scenario of 2020a in an older format. `seconds`: times in seconds instead of steps of so many."""
    import re

    text = text.replace('commonRoadVersion="2020a"', f'commonRoadVersion="{version}"')
    for tag, role in (("dynamicObstacle", "dynamic"), ("staticObstacle", "static")):
        text = re.sub(f'<{tag} id="(\\d+)">', f'<obstacle id="\\1"><role>{role}</role>', text)
        text = text.replace(f"</{tag}>", "</obstacle>")
    if version == "2017a":
        # The first state of the trajectory is the initial one; what stands is where its shape is.
        text = re.sub(r"<initialState>(.{20,400}?)</initialState><trajectory>", r"<trajectory><state>\1</state>", text)
        text = re.sub(
            r"</width></rectangle></shape><initialState><position><point>(.*?)</point></position><orientation><exact>"
            r"(.*?)</exact></orientation>.*?</initialState></obstacle>",
            r"</width><orientation>\2</orientation><center>\1</center></rectangle></shape></obstacle>",
            text,
        )
    if seconds is not None:
        keys = r"<time>(<exact>|<intervalStart>\d+</intervalStart><intervalEnd>)(\d+)<"
        text = re.sub(keys, lambda found: f"<time>{found[1]}{int(found[2]) * seconds:.6g}<", text)
    return text


@pytest.mark.parametrize(("version", "seconds"), [("2018b", None), ("2018a", None), ("2017a", None), ("2017a", 0.04)])
def test_older_formats_hold_the_same(tmp_path: Path, version: str, seconds: float | None) -> None:
    text = scenario(ROAD + TRAFFIC + STANDING + PROBLEM)
    new = load(write_xml(tmp_path, text))
    old = load(write_xml(tmp_path, older(text, version, seconds)))
    assert old.about["format"] == version
    assert "time step" not in old.about
    assert old == new


@pytest.mark.parametrize("step", [0.1, 0.2, 0.05, 0.04, 0.02, 0.03])
@pytest.mark.parametrize("first", [0, 3])
def test_other_time_steps_are_resampled(tmp_path: Path, step: float, first: int) -> None:
    """Against the motion that the states were taken from."""
    body = ROAD + moving(step, first=first) + PROBLEM.replace(">125<", f">{round(5 / step)}<")
    found = load(write_xml(tmp_path, scenario(body, step=f"{step:g}")))
    frames = found.first[0] - 1 + np.arange(found.counts[0])
    x, y, vx, vy = drive(frames * 0.04 - first * step)
    assert found.x + 2.25 == pytest.approx(x, abs=1e-3)
    assert -(found.y + 1.0) == pytest.approx(y, abs=1e-3)
    assert found.vx == pytest.approx(vx, abs=0.01)
    assert -found.vy == pytest.approx(vy, abs=0.01)
    assert found.counts[0] == pytest.approx(4.0 / 0.04 + 1, abs=1)
    assert (frames[0] * 0.04, frames[-1] * 0.04) == pytest.approx((first * step, 4.0 + first * step), abs=0.041)
    assert found.problems[0].steps == 125
    assert found.problems[0].state == pytest.approx((50.0, 27.0, 30.0, 0.0))
    said = summary(found).get("time step")
    assert said == (None if step == 0.04 else f"{step:g} s, resampled to 0.04 s")


def test_a_resampled_scenario_of_an_old_format_is_driven(tmp_path: Path) -> None:
    from tacit.envs.traffic.env import TrafficEnv

    body = ROAD + moving(0.1, seconds=8.0) + PROBLEM.replace(">125<", ">50<")
    env = TrafficEnv("distance", recordings=str(write_xml(tmp_path, older(scenario(body, step="0.1"), "2018b"))))
    obs, info = env.reset(seed=0)
    assert dict(zip(env.feature_names, obs, strict=True))["remaining_steps"] == 125
    for _ in range(125):
        obs, reward, terminated, _, info = env.step(np.zeros(2))
        if terminated:
            break
    assert (info["outcome"], reward) == ("goal", 50.0)


def test_goals_that_are_lanelets(tmp_path: Path) -> None:
    def goal(*refs: int) -> str:
        lanelets = "".join(f'<lanelet ref="{ref}"/>' for ref in refs)
        begin, end = PROBLEM.index("<rectangle>"), PROBLEM.index("</rectangle>") + len("</rectangle>")
        return PROBLEM[:begin] + lanelets + PROBLEM[end:]

    one, both = (load(write_xml(tmp_path, scenario(ROAD + TRAFFIC + goal(*refs)))) for refs in ((1,), (1, 2)))
    assert one.problems[0].goal == pytest.approx((210.0, 27.0, 0.0, 250.0, 3.0))
    assert both.problems[0].goal == pytest.approx((210.0, 24.0, 0.0, 250.0, 6.0))
    far = ROAD + lanelet(3, -18.0, -12.0) + TRAFFIC
    with pytest.raises(UserError, match="do not make up one rectangle"):
        load(write_xml(tmp_path, scenario(far + goal(1, 3))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good scenarios, a curved road, and a file that is cut off."""
    files = tmp_path / "scenarios"
    files.mkdir()
    (files / "a.xml").write_text(scenario())
    slow = ROAD + moving(0.1) + PROBLEM.replace(">125<", ">50<")
    (files / "b.xml").write_text(older(scenario(slow, step="0.1"), "2018b"))
    (files / "curve.xml").write_text(scenario(lanelet(1, -30, -24, bend=3.0) + TRAFFIC + PROBLEM))
    (files / "cut.xml").write_text(scenario()[:-200])
    return files


@pytest.mark.filterwarnings("default:left out")
def test_a_bad_file_does_not_block_a_folder(cli: Callable[..., Any], folder: Path) -> None:
    stopped = cli("traffic", "show", folder)
    assert stopped.status == 2
    assert "curve.xml: lanelet 1" in stopped.stderr
    assert "--skip-bad" in stopped.stderr
    shown = cli("traffic", "show", folder, "--skip-bad", "--json")
    assert shown.status == 0
    assert [one["name"] for one in shown.json()] == ["a", "b"]
    assert shown.json()[1]["time step"] == "0.1 s, resampled to 0.04 s"
    for name in ("curve.xml", "cut.xml"):
        assert f"{name}" in shown.stderr
    assert "resampled" in cli("traffic", "show", folder, "--skip-bad").stdout


def test_all_files_of_a_folder_are_validated(cli: Callable[..., Any], folder: Path) -> None:
    done = cli("traffic", "validate", folder, "--json")
    assert done.status == 1
    assert done.json()["recordings"] == ["a", "b"]
    assert {Path(path).name for path in done.json()["refused"]} == {"curve.xml", "cut.xml"}
    assert "2 of 4 recordings cannot be used" in done.stderr
    text = cli("traffic", "validate", folder).stdout
    assert "refused: lanelet 1: its leftBound strays 2.00 m from a straight line" in " ".join(text.split())
    assert "2 recordings read, 0 with overlapping vehicles, 2 refused" in text
    for bad in ("curve.xml", "cut.xml"):
        (folder / bad).unlink()
    assert cli("traffic", "validate", folder).status == 0
