"""Reports and terminal summaries of deep runs: what they say follows from the files, and the pictures show it."""

from __future__ import annotations

import base64
import io
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest

from report_helpers import Page, assert_whole_and_alone, browser, look
from tacit.commands import learn
from tacit.commands import summary as terminal
from tacit.cost import Inputs, LearnedCost
from tacit.demos import Demonstrations, collect, make_card, save
from tacit.demos.data import Trajectory, from_trajectories
from tacit.explain import findings
from tacit.launch import execute, start_run
from tacit.report import load_run, render_report, write_report
from tacit.report.constraint import constraint, important, views
from tacit.report.data import RunData
from tacit.report.film import film_columns as columns
from tacit.run import Run, storage

SETTINGS = {
    "total_steps": 8192,
    "n_envs": 8,
    "rollout_steps": 1024,
    "bootstrap_steps": 2048,
    "forward_steps": 2048,
    "minibatches": 100,
    "hidden": [16],
    "thresholds": 8,
    "joint": 0,
    "eval_episodes": 8,
    "features": "network",
    "start": "nominal",
}
TRUTH = ("truth/violation_rate_step", "truth/violation_rate_episode")


class Line(gym.Env[Any, Any]):
    """A point on a line that is paid for going left. Nobody knows what is forbidden, and there is nothing to see."""

    metadata: ClassVar[dict[str, list[str]]] = {"render_modes": []}
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    feature_names = ("x",)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x += 0.2 * float(action[0])
        self.t += 1
        return np.array([self.x], np.float32), -self.x, False, self.t >= 20, {}


gym.register("tacit-report/Line-v0", entry_point=Line)


def balancing() -> Demonstrations:
    """A linear controller that keeps the cart right of the wall."""
    gain = np.array([1.0, 10.0, 1.5, 2.0])
    env = gym.make_vec("tacit/Pendulum-v0", num_envs=6)

    def act(obs: Any, rng: np.random.Generator) -> Any:
        force = (obs - np.array([0.05, 0, 0, 0])) @ gain + 0.05 * rng.standard_normal(len(obs))
        return np.clip(force[:, None], -3, 3).astype(np.float32)

    return collect(env, act, 6, seed=0)


def to_the_right() -> Demonstrations:
    act = np.linspace(0.2, 1.0, 20)[:, None].astype(np.float32)
    obs = np.concatenate([[[0.0]], np.cumsum(0.2 * act, axis=0)]).astype(np.float32)
    one = Trajectory(obs, act, -obs[1:, 0], None, False)
    return from_trajectories([one, one], make_card(env="tacit-report/Line-v0"))


def make_run(folder: Path, env: str, demos: Demonstrations, **settings: Any) -> Run:
    save(demos, folder / "demos.npz")
    run, data = start_run(
        "mce", env, settings={**SETTINGS, **settings}, demos=str(folder / "demos.npz"), out=str(folder)
    )
    execute(run, data)
    return run


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pendulum")
    return make_run(folder, "tacit/Pendulum-v0", balancing(), inputs=["pole_angle", "x_position"])


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of an environment that knows no constraint, from two demonstrations."""
    with pytest.warns(UserWarning, match="only 2 demonstrations"):
        return make_run(tmp_path_factory.mktemp("line"), "tacit-report/Line-v0", to_the_right())


@pytest.fixture(scope="module")
def report(pendulum: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([pendulum], tmp_path_factory.mktemp("out") / "report.html")


@pytest.fixture
def copy(pendulum: Run, tmp_path: Path) -> Run:
    """The run folder, free to be damaged; without the policy, because pictures take time."""
    shutil.copytree(pendulum.path, tmp_path / pendulum.path.name)
    (tmp_path / pendulum.path.name / "model" / "policy.safetensors").unlink()
    return Run.open(tmp_path / pendulum.path.name)


def words_of(text: str) -> str:
    return Page(text).text.replace("\N{NO-BREAK SPACE}", " ").replace("−", "-")


# ---------------------------------------------------------------------------------------------------------------------
# The page


def test_page_says_what_was_found(pendulum: Run, report: Path) -> None:
    text = report.read_text("utf-8")
    words = words_of(text)
    assert_whole_and_alone(text)
    summary = pendulum.read("summary.json")
    assert "The true constraint, which the learner never saw, is x_position < -0.015" in words.replace("  ", " ")
    for name in ("demonstrations", "learned", "learned, deterministic"):
        assert f"{summary['table'][name]['return']['value']:.2f}" in words
    # One statement about each boundary: the rule's.
    assert words.count(f"{pendulum.read('explanation.json')['rule']}") >= 2
    for boundary in summary["boundaries"]:
        assert f"{boundary['feature']} {boundary['relation']} {boundary['value']:.4g}" not in words
    for part in (
        "What was found",
        "The learned constraint",
        "The policy at work",
        "Learned cost",
        "Feature gap",
        "Violations (truth, not used by the learner)",
        "inverse",
        f"{summary['steps']:,} environment steps",
    ):
        assert part in words, part
    assert "left out" not in words.lower()
    assert "open band" not in words
    glossary = text[text.index('class="glossary"') :]
    assert all(f"<dt>{word}</dt>" in glossary for word in re.findall(r"<abbr [^>]*>([^<]+)</abbr>", text))


def test_side_by_side(pendulum: Run, line: Run) -> None:
    runs = [replace(load_run(run), policy=None, metrics=[]) for run in (pendulum, line)]
    words = assert_whole_and_alone(render_report(runs)).text
    assert "Side by side" in words
    assert "2. env tacit-report/Line-v0" in words


def test_same_folder_same_bytes(pendulum: Run, report: Path, tmp_path: Path) -> None:
    assert write_report([pendulum], tmp_path / "again.html").read_bytes() == report.read_bytes()


def test_pictures_are_drawn(pendulum: Run, report: Path) -> None:
    text = report.read_text("utf-8")
    svgs = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    for svg in svgs:
        ElementTree.fromstring(svg)
    along = [svg for svg in svgs if "share of time" in svg]
    assert 1 <= len(along) <= 8
    assert any("true: &lt; −0.015" in svg for svg in along)
    assert all(name in svg for svg in along for name in ("demonstrations", "learner", "reward alone"))
    assert any("not known" in svg for svg in along)
    both = [svg for svg in along if "cost of the policy" in svg and "constraint map" in svg]
    planes = [svg for svg in svgs if "tried by agents" in svg]
    # Those of the rule show its cost alone.
    assert len(along) - len(both) + len(planes) == len(pendulum.read("explanation.json")["pictures"]) >= 1
    assert len(svgs) - len(along) - len(planes) == 4


def test_film(report: Path) -> None:
    """Six to eight different pictures, the first with the robot in the middle of an episode that has begun."""
    from PIL import Image

    frames = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', report.read_text("utf-8"))
    pictures = [np.asarray(Image.open(io.BytesIO(base64.b64decode(frame)))) for frame in frames]
    assert 2 <= len(pictures) <= 8
    assert f'class="film" style="--columns: {columns(len(pictures))}"' in report.read_text("utf-8")
    assert {picture.shape for picture in pictures} == {(320, 320, 3)}
    assert np.std(pictures[0]) > 10
    assert np.abs(pictures[0].astype(int) - pictures[-1].astype(int)).max() > 30


def test_a_cost_of_terms_needs_no_map(copy: Run) -> None:
    """It is read as it is: nothing is missing, and the verdict is about the cost."""
    config, summary = copy.read("config.json"), copy.read("summary.json")
    (copy.path / "model" / "map.safetensors").unlink()
    assert "no model/map.safetensors" in words_of(render_report([load_run(copy)]))
    copy.write("config.json", config | {"config": config["config"] | {"features": "terms"}})
    summary["detection"].pop("map", None)
    copy.write("summary.json", summary)
    words = words_of(render_report([load_run(Run.open(copy.path))]))
    assert "no model/map.safetensors" not in words
    assert "The cost ranks a constrained state" in words


def test_an_agent_without_constraint_is_found_beside_the_run(pendulum: Run, tmp_path: Path) -> None:
    """A finished run of ppo in the same environment; no other run."""
    for name in ("mce-one", "ppo-one"):
        shutil.copytree(pendulum.path, tmp_path / name)
    run, other = Run.open(tmp_path / "mce-one"), Run.open(tmp_path / "ppo-one")
    config = dict(other.config)
    other.write("config.json", config | {"algo": "ppo"})
    assert load_run(run).reward_alone is not None
    assert load_run(Run.open(other.path)).reward_alone is None
    other.write("config.json", config | {"algo": "ppo", "env": "tacit/Swimmer-v0"})
    assert load_run(run).reward_alone is None
    other.write("config.json", config | {"algo": "ppo"})
    (other.path / "model" / "policy.safetensors").write_bytes(b"damaged")
    assert load_run(run).reward_alone is None
    (other.path / "config.json").write_text("{")
    assert load_run(run).reward_alone is None


def test_the_name_of_the_algorithm_does_not_matter(copy: Run) -> None:
    (copy.path / "metrics.jsonl").unlink()
    config = copy.read("config.json")
    before = words_of(render_report([load_run(copy)]))
    copy.write("config.json", config | {"algo": "another"})
    after = words_of(render_report([load_run(Run.open(copy.path))]))
    assert after.replace("another", "mce") == before


def test_without_truth(line: Run) -> None:
    words = words_of(render_report([load_run(line)]))
    assert "The environment does not report whether it keeps to the true constraint." in words
    assert "only 2 demonstrations" in words
    assert 'No pictures: tacit-report/Line-v0 cannot be made with render_mode="rgb_array".' in words
    for absent in ("truth, not used", "AUROC", "true constraint, which", "violating", "true:"):
        assert absent not in words, absent
    assert "Demonstrated: 0.04 to 2.4." in words
    summary = line.read("summary.json")
    assert "threshold" not in summary
    assert not any(key in record for record in line.metrics() for key in TRUTH)


def test_a_renderer_that_fails_is_only_a_sentence(pendulum: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no <OpenGL> here.\nand a long story")

    monkeypatch.setattr("tacit.report.film.filmstrip", fail)
    text = render_report([replace(load_run(pendulum), costs={}, samples={}, metrics=[])])
    assert "No pictures: no &lt;OpenGL&gt; here.</p>" in text


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("samples.safetensors", "missing"),
        ("samples.safetensors", "truncated"),
        ("samples.safetensors", "other shape"),
        ("samples.safetensors", "not finite"),
        ("model/map.safetensors", "truncated"),
        ("model/cost.safetensors", "missing"),
    ],
)
def test_damaged_files_are_noted(copy: Run, name: str, damage: str) -> None:
    file = copy.path / name
    (copy.path / "metrics.jsonl").unlink()
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-20])
    else:
        arrays, metadata = storage.load_arrays(file)
        expert = arrays["expert"][:, :-1] if damage == "other shape" else arrays["expert"] * math.nan
        storage.save_arrays(file, {**arrays, "expert": expert}, metadata)
    text = render_report([load_run(copy)])
    assert re.search(rf"(The folder has no|Left out because)[^.]*{name}", Page(text).text)
    assert ("share of time" in text) == name.startswith("model/")


def test_nothing_from_the_folder_is_trusted(copy: Run) -> None:
    evil = "<script>alert(1)</script>$\\frac{x}** > 1"
    summary = copy.read("summary.json")
    summary["boundaries"] = [{"feature": evil, "relation": ">", "value": 1.0, "demonstrated": "x", "share": evil}]
    summary["threshold"] = {"truth": f"{evil} > 2", "found": evil, "error": 0.0}
    summary["time"] = {evil: 1.0, "x": evil}
    summary["demonstrations"] = {"trajectories": evil}
    copy.write("summary.json", summary)
    for name in ("cost", "map"):
        arrays, card = copy.load_model(name)
        copy.save_model(name, arrays, {**card, "inputs": [evil, *card["inputs"][1:]]})
    text = render_report([load_run(copy)])
    assert "script" not in Page(text).tags
    assert evil[:25] in "".join(Page(text).words)


# ---------------------------------------------------------------------------------------------------------------------
# Which features, and which windows


def thresholds(slopes: Any, offsets: Any, lam: Any) -> LearnedCost:
    d = len(slopes)
    inputs = Inputs(tuple("abcdefgh"[:d]), tuple(range(d)), d, 0, np.zeros(d), np.ones(d), squash=False)
    return LearnedCost(inputs, np.array(lam), np.array(slopes)[:, None], np.array(offsets)[:, None])


def sampled(cost: LearnedCost, shift: Any, **summary: Any) -> RunData:
    """Demonstrations uniform in [-1, 1], the learner moved by `shift`."""
    rng = np.random.default_rng(0)
    d = len(cost.inputs.names)
    expert, learner, nominal = (rng.uniform(-1, 1, (500, d)).astype(np.float32) for _ in range(3))
    samples = {"expert": expert, "learner": learner + np.asarray(shift, np.float32), "nominal": nominal}
    config = {"algo": "x", "env": "y", "env_kwargs": {}, "config": {}, "seed": 0}
    return RunData("run", config, True, summary=summary, samples=samples, costs={"map": cost})


def test_features_are_ranked_by_the_difference_that_they_make() -> None:
    # Steps up at 1: a makes no difference (the learner stays), b makes most, c has no weight, d makes a fifth of b's.
    cost = thresholds([9.0] * 4, [-9.0] * 4, [5.0, 5.0, 0.0, 1.0])
    data = sampled(cost, [0.0, 2.0, 2.0, 2.0])
    assert important(data) == ["b", "d"]
    # What is marked or true comes first, whether or not it makes a difference.
    bound = {"feature": "d", "relation": ">", "value": 1.2, "demonstrated": 1.0, "share": 0.4}
    data = sampled(cost, [0.0, 2.0, 2.0, 2.0], boundaries=[bound], threshold={"truth": "a > 1.1", "found": None})
    assert important(data) == ["d", "a", "b"]
    many = thresholds([9.0] * 8, [-9.0] * 8, np.arange(1.0, 9.0))
    assert important(sampled(many, [2.0] * 8)) == list("hgfedc")
    assert important(sampled(many, [2.0] * 8, threshold={"truth": "a > 1.1"})) == ["a", *"hgfed"]


def test_every_named_feature_is_there_the_lesser_ones_folded_away() -> None:
    """Eight features, six panels in the open, two behind a click; what the open ones show does not change."""
    data = sampled(thresholds([9.0] * 8, [-9.0] * 8, np.arange(1.0, 9.0)), [2.0] * 8)
    section = constraint(data, "run0")
    assert section is not None
    opened, _, folded = section.body.partition("<details>")
    assert [f"run0-feature-{i}" in opened for i in range(8)] == [True] * 6 + [False] * 2
    assert all(f"run0-feature-{i}" in folded for i in (6, 7))
    assert "other features (2)" in folded


def test_a_narrow_band_is_shown_once_more() -> None:
    cost = thresholds([9.0, 9.0], [-9.0, -9.0], [5.0, 0.0])
    narrow = {"feature": "a", "relation": ">", "value": 1.02, "demonstrated": 0.999, "share": 0.4}
    shown = list(views(sampled(cost, [2.0, 0.0], boundaries=[narrow], threshold={"truth": "a > 1.05"})))
    assert [view.title for view in shown] == ["a", "a, near the boundary"]
    whole, near = (view.window for view in shown)
    assert whole[0] < -0.98
    assert whole[1] > 2.9
    assert near[0] < 0.999 < 1.05 < near[1]
    assert near[1] - near[0] < 0.25 * (whole[1] - whole[0])
    # A truth beyond everything that was tried would leave nothing else to see.
    far = views(sampled(cost, [2.0, 0.0], boundaries=[{**narrow, "value": 2.9}], threshold={"truth": "a > 500"}))
    assert [view.title for view in far] == ["a"]
    assert next(views(sampled(cost, [2.0, 0.0], threshold={"truth": "a > 500"}))).window[1] < 10


# ---------------------------------------------------------------------------------------------------------------------
# The terminal


def test_terminal(pendulum: Run, capsys: pytest.CaptureFixture[str]) -> None:
    summary = pendulum.read("summary.json")
    terminal.print_summary(pendulum, summary)
    out = re.sub(r"\s+", " ", capsys.readouterr().out)
    for part in ("demonstrations", "learned, without noise", "return before", "rollouts", "inverse", "per second"):
        assert part in out, part
    assert f"{summary['table']['learned']['terminated_return']['value']:.3f}" in out
    explanation = pendulum.read("explanation.json")
    assert findings.learned(summary, explanation)[0].replace("**", "") in out
    assert f"{explanation['rule']} is forbidden" in out, "learn and explain name the same reason"
    assert "**" not in out
    if "cost_quality" in summary:
        assert f"{summary['cost_quality']['auroc']:.3f}" in out


def test_learning_leaves_a_report(copy: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (copy.path / "metrics.jsonl").unlink()
    learn.show(copy, copy.read("summary.json"), json=False)
    path = copy.path / "report.html"
    assert capsys.readouterr().out.rstrip().replace("\n", "").endswith(f"The report, with pictures: {path}")
    written = path.read_bytes()
    path.write_bytes(b"mine")
    learn.show(copy, {}, json=True)
    assert storage.from_json(capsys.readouterr().out)["report"] == str(path)
    assert path.read_bytes() == b"mine"
    assert b"The learned constraint" in written


# ---------------------------------------------------------------------------------------------------------------------
# In a real browser


@pytest.fixture(scope="module")
def seen(report: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return look(report, tmp_path_factory.mktemp("browser"))


class TestBrowser:
    pytestmark = browser

    def test_desk_and_phone(self, seen: dict[str, Any], report: Path) -> None:
        drawn = report.read_text("utf-8").count("<svg")
        for view in seen.values():
            assert view["overflow"] <= 0, "the page scrolls sideways"
            assert view["headings"][:3] == ["What was found", "The rule", "The learned constraint"]
            assert len(view["figures"]) == drawn
            assert all(width > 250 and height > 150 for width, height in view["figures"])
            assert len(view["pictures"]) >= 2
            assert all(loaded == 320 and width > 90 for width, _, loaded in view["pictures"])
            assert view["smallest"] >= 11
        assert all(width <= 390 for width, _ in seen["phone"]["figures"])

    def test_dark(self, seen: dict[str, Any], report: Path, tmp_path: Path) -> None:
        dark = look(report, tmp_path, "--blink-settings=preferredColorScheme=0")["desk"]
        assert dark["background"] == "rgb(16, 19, 22)"
        assert dark["ink"] != seen["desk"]["ink"]
