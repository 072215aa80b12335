"""The report: made from a run folder alone, complete, safe, and really shown by a browser."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Browser
from report_helpers import Page, assert_whole_and_alone, browser, chromium, look
from tacit.envs.gridworld import make_spec
from tacit.errors import UserError
from tacit.evaluate import cost_quality, evaluate_exact
from tacit.forward.soft_policy_iteration import plan
from tacit.report import load_run, render_report, write_report
from tacit.report.constraint import rule
from tacit.report.film import film_columns
from tacit.report.html import emphasised, measured, number
from tacit.report.sections import provenance
from tacit.run import Run, storage

STAGES = (1.0, 0.3, 0.1)


def make_run(root: Path, *, seed: int = 0, algo: str = "mce-exact", layout: str = "paper", **changes: Any) -> Run:
    """A run folder as the exact method leaves it, with a made-up cost but true numbers for it."""
    spec = make_spec(layout, slip=0.1)
    mdp = spec.model()
    rng = np.random.default_rng(seed)
    row, col = spec.cells.T
    cost = np.where(spec.constrained, rng.uniform(6, 14, len(row)), np.maximum(0, rng.normal(-0.5, 0.6, len(row))))
    penalty = spec.expected(cost)
    policies = {
        "expert": plan(mdp, mdp.rewards - 10 * spec.expected(spec.entry_costs), 0.1).policy,
        "unconstrained": plan(mdp, mdp.rewards, 0.1).policy,
        "learned": plan(mdp, mdp.rewards - penalty, 0.1).policy,
    }
    found = {name: evaluate_exact(mdp, policy, spec.constrained, step_limit=200) for name, policy in policies.items()}
    run = Run.start(
        root,
        algo=algo,
        env="tacit/Gridworld-v0",
        env_kwargs=spec.env_kwargs(),
        seed=seed,
        config={"beta": 0.1, "budget": 0.001, "objective": "moments"},
        demos={"path": "demos.npz", "sha256": "ab" * 32},
        command="tacit learn mce-exact tacit/Gridworld-v0 --demos demos.npz",
    )
    with run:
        iteration = 0
        for beta in STAGES:
            for k in range(9):
                size = 0.3 ** min(k, 5) * 0.02 ** max(k - 5, 0)
                record = {"iteration": iteration, "beta": beta, "dual_value": 10 * beta - 14 + size, "kkt": size}
                run.log(record | {"gap": size**2 - 1e-18, "infeasibility": size / 3 if k < 8 else 0.0})
                iteration += 1
        run.save_model("cost", {"weights": cost, "cost": np.repeat(cost[:, None], mdp.n_actions, axis=1)}, {})
        run.save_model("policy", {"policy": policies["learned"]}, {})
        run.write(
            "certificate.json",
            {
                "status": "optimal",
                "statement": "Optimal to nine digits.",
                "gap": 3.1e-12,
                "kkt": 2.4e-10,
                "infeasibility": 0.0,
                "planner_residual": 8e-15,
                "backward_error": 2.4e-10,
                "beta": 0.1,
            },
        )
        storage.save_arrays(
            run.path / "figures.safetensors",
            {
                "row": row,
                "col": col,
                **{f"{name}_visits": np.asarray(result.visits) for name, result in found.items()},
                "cost_state": cost,
                "cost_state_beta001": cost * rng.uniform(0.5, 1.5, len(row)),
                "true_constraint": spec.constrained,
                "unknown": np.clip((row < 1) * 0.9 + (row == 8) * 0.6, 0, 1).astype(float),
            },
            {"layout": "\n".join(spec.rows)},
        )
        run.finish(
            {
                "status": "optimal",
                "table": {name: result.as_dict() for name, result in found.items()},
                "cost_quality": cost_quality(cost, spec.constrained).as_dict(),
                **changes,
            }
        )
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def report(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([run], tmp_path_factory.mktemp("out") / "report.html")


@pytest.fixture
def copy(run: Run, tmp_path: Path) -> Run:
    """The run folder, free to be damaged."""
    shutil.copytree(run.path, tmp_path / run.path.name)
    return Run.open(tmp_path / run.path.name)


def test_page_is_whole_and_alone(report: Path) -> None:
    assert_whole_and_alone(report.read_text("utf-8"))


def test_page_says_what_was_found(run: Run, report: Path) -> None:
    text = Page(report.read_text("utf-8")).text.replace("\N{NO-BREAK SPACE}", " ")
    table = run.read("summary.json")["table"]
    for agent in ("expert", "unconstrained", "learned"):
        assert number(table[agent]["return"]) in text
        assert number(table[agent]["violation_rate_step"], "share").replace("\N{NO-BREAK SPACE}", " ") in text
    for part in (
        "What was found",
        "marks 6 of the 6 truly constrained cells",
        "cannot be told for 18 of the 81 cells",
        "solved exactly",
        "Optimal to nine digits.",
        "The map",
        "What the expert does",
        "The recovered cost at β = 0.01",
        "What the learned agent does",
        "Which amounts cannot be known",
        "Distance from the optimum",
        "Value of the dual",
        "backward error",
        "tacit learn mce-exact tacit/Gridworld-v0 --demos demos.npz",
        "ab" * 32,
        "numpy",
    ):
        assert part in text, part


def test_every_number_is_defined(report: Path) -> None:
    text = report.read_text("utf-8")
    defined = re.findall(r'<abbr tabindex="0" data-tip="([^"]+)"[^>]*>([^<]+)</abbr>', text)
    assert {"return", "violating steps", "AUROC", "best IoU", "duality gap", "KKT residual"} <= {
        word for _, word in defined
    }
    assert all(len(tip) > 20 for tip, _ in defined)
    glossary = text[text.index('class="glossary"') :]
    assert all(f"<dt>{word}</dt>" in glossary for _, word in defined)


def test_pictures_show_the_data(run: Run, report: Path) -> None:
    text = report.read_text("utf-8")
    svgs = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(svgs) == 7 + 2
    for svg in svgs:
        ElementTree.fromstring(svg)  # well formed by itself
        assert 'role="img" aria-label="' in svg
    arrays, _ = storage.load_arrays(run.path / "figures.safetensors")
    state = int(np.argmax(arrays["cost_state"]))
    where = f"row {arrays['row'][state]}, column {arrays['col'][state]}"
    assert f"<title>{where}: {arrays['cost_state'][state]:.4g}</title>" in text
    assert re.search(rf"<td>{arrays['cost_state'][state]:.3g}</td>", text)
    assert all("stroke-width: 1.8" in svg for svg in svgs[1:7]), "the true constraint is not outlined"
    # Colours are the page's, so that they follow its theme.
    assert all("currentColor" in svg and "#1f2429" not in svg for svg in svgs)


@pytest.fixture
def ruled(copy: Run) -> Run:
    """With the explanation of its cells, and little else to draw."""
    (copy.path / "metrics.jsonl").unlink()
    spec = make_spec("paper", slip=0.1)
    copy.write(
        "explanation.json",
        {
            "kind": "cells",
            "of": "cost",
            "threshold": 1.0,
            "guarantee": None,
            "sentence": "forbidden: rows 3 to 8, column 4",
            "cells": spec.cells[spec.constrained].tolist(),
            "unknown": [[0, 0]],
            "extrapolated": [],
            "costs": spec.constrained.astype(float).tolist(),
            "layout": list(spec.rows),
            "fidelity": {"agreement": 1.0, "n": 81},
            "rejected": {"demonstrations": 0.0},
            "truth": None,
            "confidence": None,
        },
    )
    return copy


def test_the_rule_of_a_map_is_two_pictures(ruled: Run) -> None:
    section = rule(load_run(ruled), "run0")
    assert section is not None
    page = Page(section.html("run0"))
    assert page.tags.count("svg") == 2
    assert "This threshold has no guarantee" in page.text
    assert section.body.count("<title>row 0, column 0") == 1


def test_same_folder_same_bytes(run: Run, report: Path, tmp_path: Path) -> None:
    again = write_report([run], tmp_path / "again.html")
    assert again.read_bytes() == report.read_bytes()


@pytest.mark.parametrize(
    "name", ["summary.json", "certificate.json", "figures.safetensors", "metrics.jsonl", "provenance.json"]
)
@pytest.mark.parametrize("damage", ["missing", "truncated", "wrong kind"])
def test_missing_and_damaged_files_are_noted(copy: Run, tmp_path: Path, name: str, damage: str) -> None:
    file = copy.path / name
    for drawn in {"figures.safetensors", "metrics.jsonl"} - {name}:  # drawing takes time
        (copy.path / drawn).unlink()
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-20] + (b"\n" if name.endswith("jsonl") else b""))
    else:
        file.write_text("[1, 2]\n")
    text = Page(write_report([copy], tmp_path / "report.html").read_text("utf-8")).text
    assert re.search(rf"(The folder has no|Left out because)[^.]*{name}", text)
    assert "Provenance" in text


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        ({"table": 3}, "table."),
        ({"table": None, "boundaries": {}}, "table, boundaries."),
        ({"table": {"learned": [1.0]}}, "learned of the table."),
        ({"cost_quality": "good", "time": [1.0]}, "cost_quality, time."),
    ],
)
def test_parts_of_the_summary_of_another_form_are_noted(copy: Run, damaged: dict[str, Any], words: str) -> None:
    for drawn in ("figures.safetensors", "metrics.jsonl"):
        (copy.path / drawn).unlink()
    copy.write("summary.json", copy.read("summary.json") | damaged)
    text = Page(render_report([load_run(copy)])).text
    assert f"Left out because summary.json does not have the expected form: {words}" in text
    assert "marks no boundary" not in text


def test_arrays_that_do_not_fit_are_left_out(copy: Run, tmp_path: Path) -> None:
    arrays, metadata = storage.load_arrays(copy.path / "figures.safetensors")
    storage.save_arrays(copy.path / "figures.safetensors", {**arrays, "cost_state": np.ones(3)}, metadata)
    text = render_report([load_run(copy)])
    assert "do not fit the map: cost_state" in text
    assert "What the expert does" in text
    storage.save_arrays(copy.path / "figures.safetensors", {**arrays, "row": arrays["row"] + 5}, metadata)
    assert "do not fit the map" in render_report([load_run(copy)])


def test_an_unfinished_run_says_so(copy: Run) -> None:
    for name in ("DONE", "summary.json", "certificate.json", "figures.safetensors"):
        (copy.path / name).unlink()
    text = Page(render_report([load_run(copy)])).text
    assert "has not finished" in text
    assert "Convergence" in text


def test_nothing_from_the_folder_is_trusted(copy: Run, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>$\\frac{{body}}"
    copy.write("provenance.json", {"command": evil, "versions": {evil: evil}, "commit": evil})
    copy.write("certificate.json", {"statement": evil, "status": evil, "gap": evil, evil: 1.0, "kkt": 1e-9})
    summary = copy.read("summary.json")
    summary["table"][evil] = {evil: 1.0, "return": {"value": evil}}
    summary["diagnosis"] = {"text": evil, "features": [{"name": evil, "blame": 1.0}, evil], "budgets": [evil]}
    copy.write("summary.json", summary | {"status": evil, "cost_quality": {"auroc": evil}})
    config = copy.read("config.json")
    config["env_kwargs"]["slip"] = evil[:20]  # a layout like this would be refused
    config["demos"] = {"path": evil, "sha256": evil}
    copy.write("config.json", config)
    arrays, _ = storage.load_arrays(copy.path / "figures.safetensors")
    rows = [evil[:9]] * 9
    storage.save_arrays(copy.path / "figures.safetensors", arrays, {"layout": "\n".join(rows)})
    text = render_report([load_run(Run.open(copy.path))], title=evil)
    page = Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert text.count("<h1>") == 1
    assert evil in "".join(page.words)


@pytest.mark.parametrize(
    ("demos", "words"),
    [
        ({"path": "my.npz"}, "my.npz"),
        ({"path": None}, "demos.npz in the run folder"),
        (
            {"path": None, "from": {"path": "my.npz", "sha256": "cd" * 32}, "calibration": "ef" * 32},
            "demos.npz in the run folder: my.npz , without what was held out as calibration.npz",
        ),
        (
            {"path": None, "from": {"path": None, "sha256": "cd" * 32}, "calibration": "ef" * 32},
            "demos.npz in the run folder, without what was held out as calibration.npz",
        ),
    ],
)
def test_provenance_says_whose_hash_it_is(run: Run, demos: dict[str, Any], words: str) -> None:
    data = load_run(run)
    section = provenance(replace(data, config={**data.config, "demos": {"sha256": "ab" * 32, **demos}}), "run0")
    assert section is not None
    assert f"demonstrations {words} their SHA-256 {'ab' * 32}" in Page(section.html("run0")).text


def test_infeasible_is_explained(copy: Run) -> None:
    hopeless = {"status": "infeasible", "objective": "moments", "gap": float("inf"), "kkt": float("inf")}
    copy.write("certificate.json", {**hopeless, "statement": "Every policy exceeds some limit by at least 0.012."})
    (copy.path / "figures.safetensors").unlink()
    copy.write(
        "summary.json",
        {
            "status": "infeasible",
            "diagnosis": {
                "features": [{"name": "row 3, column 4", "blame": 0.4, "expert": 0.0, "least": 0.012}],
                "budgets": [{"budget": 0.01231, "why": "the least that has a solution"}],
            },
        },
    )
    text = Page(render_report([load_run(copy)])).text
    for part in (
        "No constraint fits",
        "no policy at all",
        "at least 0.012",
        "row 3, column 4",
        "budget=0.0124",
        "the least that has a solution",
    ):
        assert part in text, part
    assert "solved exactly" not in text
    assert "✗" not in text
    assert "left out" not in text.lower()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "stationary", "objective": "likelihood", "gap": float("nan")}, "solved exactly"),
        ({"status": "iteration limit", "kkt": 0.3}, "not converged"),
        ({"status": "optimal", "kkt": 1e-3}, "approximate"),
    ],
)
def test_verdict_follows_the_certificate(copy: Run, changes: dict[str, Any], words: str) -> None:
    (copy.path / "figures.safetensors").unlink()
    copy.write("certificate.json", copy.read("certificate.json") | changes)
    copy.write("summary.json", copy.read("summary.json") | {"status": changes["status"]})
    text = Page(render_report([load_run(copy)])).text
    assert words in text
    assert ("solved exactly" in text) == (words == "solved exactly")
    assert ("backward error" in text) == ("likelihood" not in changes.values())


def test_several_runs_side_by_side(run: Run, tmp_path: Path) -> None:
    other = make_run(tmp_path, seed=1, layout="wall-1")
    text = write_report([run, other, run], tmp_path / "report.html", title="Three").read_text("utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert "Side by side" in page.text
    assert "1. seed 0, layout paper" in page.text  # what tells them apart
    assert "2. seed 1, layout wall-1" in page.text
    assert "#run2" in page.references
    assert "#run2"[1:] in page.ids


def test_a_real_run(tmp_path: Path) -> None:
    """From demonstrations through the solver to the page."""
    from tacit.demos import expert_demonstrations
    from tacit.inverse import exact_run

    spec = make_spec("paper", slip=0.1)
    demos = expert_demonstrations(spec, 20, seed=0)
    for number_of_pictures, config in ((9, exact_run.Config()), (0, exact_run.Config(objective="moments", budget=0.0))):
        settings = {key: getattr(config, key) for key in ("objective", "budget", "beta")}
        run = Run.start(
            tmp_path, algo="mce-exact", env="tacit/Gridworld-v0", env_kwargs=spec.env_kwargs(), seed=0, config=settings
        )
        with run:
            run.finish(exact_run.train(run, "tacit/Gridworld-v0", spec.env_kwargs(), demos, config, 0))
        text = write_report([run], tmp_path / "report.html").read_text("utf-8")
        assert text.count("<svg") >= number_of_pictures
        assert "left out" not in Page(text).text.lower()
        assert ("No constraint fits" in text) == (config.objective == "moments")
        assert ("data:image/gif" in text) == (number_of_pictures > 0), "a film of both agents, if there are any"


def test_a_run_of_another_family(tmp_path: Path) -> None:
    """A deep run: evaluations during training, sampled intervals, zero counts, no certificate and no map."""
    run = Run.start(tmp_path, algo="mce", env="tacit/Ant-v0", env_kwargs={}, seed=3, config={})
    with run:
        for i in range(5):
            run.log_eval({"step": 1000 * i, "eval/return": 10.0 * i, "eval/violation_rate_step": 0.5 - 0.1 * i})
        rates = {"value": 0.0, "low": 0.0, "high": 0.036, "n": 100, "count": 0, "upper": 0.0295}
        run.finish(
            {
                "table": {
                    "learned": {"return": {"value": 40.0, "low": 35.0, "high": 45.0}, "violation_rate_episode": rates}
                }
            }
        )
    text = Page(write_report([run], tmp_path / "r.html").read_text("utf-8")).text.replace("\N{NO-BREAK SPACE}", " ")
    one_sided = "Ranges are two-sided 95 % intervals; “at most” is the one-sided 95 % bound for a count of 0"
    for part in ("During training", "35 to 45", "none in 100 episodes: at most 2.95 %", one_sided):
        assert part in text, part
    assert "left out" not in text.lower()


def test_large_maps_stay_small(tmp_path: Path) -> None:
    from tacit.plots.grids import grid_heatmap

    n = 60
    row, col = np.divmod(np.arange(n * n), n)
    svg = grid_heatmap(["." * n] * n, row, col, np.linspace(0, 1, n * n), label="x", outline=row == col)
    assert len(svg) < 300_000


def test_bad_requests(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at least one run"):
        write_report([], tmp_path / "x.html")
    with pytest.raises(UserError, match="is a folder"):
        write_report([run], tmp_path)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "", "0"),
        (-13.7474, "", "−13.75"),
        (-4.9, "", "−4.9"),
        (200.0, "", "200"),
        (12345.6, "", "12346"),
        (0.0, "share", "0\N{NO-BREAK SPACE}%"),
        (1.0, "share", "100\N{NO-BREAK SPACE}%"),
        (0.9999, "share", "over 99.9\N{NO-BREAK SPACE}%"),
        (0.00279, "share", "0.279\N{NO-BREAK SPACE}%"),
        (0.000001, "share", "under 0.001\N{NO-BREAK SPACE}%"),
        (0.16372, "share", "16.4\N{NO-BREAK SPACE}%"),
        (1.0, "score", "1.000"),
        (float("nan"), "", "unknown"),
        (float("-inf"), "", "−∞"),
    ],
)
def test_numbers_as_people_read_them(value: float, unit: str, text: str) -> None:
    assert number(value, unit) == text


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("see `tacit calibrate`", "see <code>tacit calibrate</code>"),
        ("**a** `x -1 > 2 **b**` -1", "<b>a</b> <code>x -1 &gt; 2 **b**</code> −1"),
        ("`<script>`&`", "<code>&lt;script&gt;</code>&amp;`"),
        ("**a `b** c`", "**a <code>b** c</code>"),  # never tags that cross
        ("``", "``"),
    ],
)
def test_commands_in_sentences_are_code(text: str, html: str) -> None:
    assert emphasised(text) == html


def test_commands_in_what_is_read_are_code(copy: Run) -> None:
    for drawn in ("figures.safetensors", "metrics.jsonl"):
        (copy.path / drawn).unlink()
    copy.write("certificate.json", copy.read("certificate.json") | {"statement": "See `tacit certify`."})
    data = replace(load_run(copy), notes=("Finish it with `tacit resume <here>`.",))
    text = render_report([data])
    assert "See <code>tacit certify</code>." in text
    assert "Finish it with <code>tacit resume &lt;here&gt;</code>." in text
    assert "`" not in Page(text).text


@pytest.mark.parametrize(("pictures", "beside"), [(1, 1), (2, 2), (5, 5), (6, 3), (7, 4), (8, 4)])
def test_rows_of_a_film_are_equally_full(pictures: int, beside: int) -> None:
    assert film_columns(pictures) == beside


def test_powers_of_ten() -> None:
    assert "3.1 × 10<sup>−12</sup>" in number(3.1e-12)
    assert measured("return", None) == measured("return", {"value": "many"})


# ---------------------------------------------------------------------------------------------------------------------
# In a real browser


class TestBrowser:
    pytestmark = browser

    @pytest.fixture
    def window(self, tmp_path: Path) -> Iterator[Browser]:
        with Browser(tmp_path) as opened:
            yield opened
            assert opened.complaints == []

    def test_desk_and_phone(self, report: Path, tmp_path: Path) -> None:
        seen = look(report, tmp_path)
        for view in seen.values():
            assert view["overflow"] <= 0, "the page scrolls sideways"
            assert len(view["figures"]) == 9
            assert all(width > 150 and height > 120 for width, height in view["figures"])
            assert view["headings"][0] == "What was found"
            assert "Mean total reward" in view["tooltip"]
            assert view["smallest"] >= 11
            assert view["focusable"] > 15
        assert all(width <= 390 for width, _ in seen["phone"]["figures"])
        assert seen["desk"]["background"] == "rgb(246, 247, 248)"

    def test_the_rule_of_a_map_can_be_read(self, ruled: Run, tmp_path: Path) -> None:
        seen = look(write_report([ruled], tmp_path / "rule.html"), tmp_path)
        for view, least in (("desk", 350), ("phone", 300)):
            assert seen[view]["headings"][1] == "The rule"
            # One map each: higher than wide, and as wide as the page lets it be.
            assert all(height > width > least for width, height in seen[view]["figures"][:2])

    def test_dark(self, report: Path, tmp_path: Path) -> None:
        light = look(report, tmp_path)["desk"]
        dark = look(report, tmp_path, "--blink-settings=preferredColorScheme=0")["desk"]
        assert dark["background"] == "rgb(16, 19, 22)"
        assert light["ink"] != dark["ink"]

    def test_screenshot_and_print(self, report: Path, tmp_path: Path) -> None:
        from matplotlib.image import imread

        chromium(tmp_path, "--window-size=1280,1600", f"--screenshot={tmp_path / 'shot.png'}", report.as_uri())
        image = (imread(tmp_path / "shot.png")[..., :3] * 255).astype(int)
        reds = (image[..., 0] > 180) & (image[..., 1] < 120) & (image[..., 2] < 110)
        blues = (image[..., 2] > 150) & (image[..., 0] < 80) & (image[..., 1] < 160)
        assert reds.sum() > 500, "the recovered cost is not visible"
        assert blues.sum() > 2000, "the visitations are not visible"
        chromium(tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}", report.as_uri())
        assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "page.pdf").read_bytes())) >= 2

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_everything_can_be_read_and_has_a_name(self, window: Browser, report: Path, scheme: str) -> None:
        window.prefer(scheme)
        window.resize(400, 800, phone=True)
        window.open(report.as_uri())
        assert window.ask("document.documentElement.scrollWidth") <= 400
        window.ask("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        assert window.ask("document.documentElement.scrollWidth") <= 400, "with everything unfolded"
        assert window.faint(4.5) == []
        assert window.nameless() == []

    def test_keyboard(self, window: Browser, report: Path) -> None:
        window.open(report.as_uri())
        window.press("Tab")
        assert window.ask("document.activeElement.className") == "skip"
        window.press("Enter")
        window.wait("location.hash === '#content'")
        window.press("Tab")
        explained = "getComputedStyle(document.activeElement, '::after').content"
        assert window.ask("document.activeElement.tagName") == "ABBR"
        assert len(window.ask(explained)) > 20, "the explanation of the first number is shown"
        window.ask("document.querySelector('summary').focus()")
        window.press("Enter")
        assert window.ask("document.querySelector('details').open")

    def test_a_figure_can_be_enlarged(self, window: Browser, report: Path) -> None:
        window.open(report.as_uri())
        size = "(() => { const box = document.querySelector('.enlarge + svg').getBoundingClientRect();"
        size += " return [box.width, box.height]; })()"
        small = window.ask(size)
        window.click(".enlarge")
        assert window.ask(size) == [1280, 900]
        window.press(" ")  # it has the focus
        assert window.ask(size) == small

    def test_print(self, window: Browser, report: Path) -> None:
        window.prefer("dark")
        window.open(report.as_uri())
        window.send("Emulation.setEmulatedMedia", media="print")
        assert window.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert window.faint(4.5) == []
