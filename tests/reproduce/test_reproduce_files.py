"""An experiment of one's own, as a TOML or Python file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import paper_page
from tacit.errors import UserError
from tacit.reproduce import EXPERIMENTS, find
from tacit.reproduce import results as results_file
from tacit.reproduce.paper import NUMBERED

TOML = """
description = "two entropy weights"
seeds = 2
ours = "cold"
figure = "values"
axis = {label = "slip"}

[[group]]
name = "still"
env = "tacit/Gridworld-v0"
env_kwargs = {layout = "S.G\\n.X.\\n...\\n", slip = 0.0}
value = 0.0

[[group]]
name = "slippery"
env = "tacit/Gridworld-v0"
env_kwargs = {layout = "S.G\\n.X.\\n...\\n", slip = 0.2}
value = 0.2

[[row]]
name = "cold"
algo = "mce-exact"
settings = {beta = 0.1}

[[row]]
name = "warm"
algo = "mce-exact"
settings = {beta = 1.0}
"""
PYTHON = """
from tacit.reproduce import Experiment, Group, Row

WORLD = {"layout": "S.G\\n.X.\\n...\\n", "slip": 0.0}
EXPERIMENT = Experiment(
    "one world",
    {"world": Group("tacit/Gridworld-v0", WORLD)},
    {"exact": Row("mce-exact")},
    seeds=(4,),
    ours="exact",
    table=lambda experiment, results: f"{len(results['runs'])} runs\\n",
)
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(TOML)


def test_a_toml_file_is_planned_run_and_drawn(cli):
    name, experiment = find("mine.toml")
    assert name == "mine"
    assert (experiment.seeds, experiment.ours) == ((0, 1), "cold")
    labels = ["still: cold", "still: warm", "slippery: cold", "slippery: warm"]
    assert [job.label for job in experiment.jobs([0])] == labels
    plan = cli("reproduce", "mine.toml", "--dry-run")
    assert plan.status == 0, plan.stderr
    assert "8 jobs, 0 finished" in plan.stderr
    assert not Path("runs").exists()
    output = cli("reproduce", "mine.toml", "--seeds", 1, "--only", "still", "--workers", 2)
    assert output.status == 0, output.stderr
    assert output.stdout.split() == ["results/mine.json", "results/mine.md", "results/mine.png"]
    assert [run["label"] for run in results_file.read("results/mine.json")["runs"]] == labels[:2]
    text = Path("results/mine.md").read_text()
    assert "| cold | 1 |" in text
    Path("results/mine.md").unlink()
    assert cli("reproduce", "mine.toml", "--redraw").status == 0
    assert Path("results/mine.md").read_text() == text
    kept = cli("reproduce", "mine.toml", "--keep", "--runs", "elsewhere", "--seeds", 1, "--dry-run")
    assert "2 runs are taken over" in kept.stderr
    listed = cli("reproduce", "mine.toml", "--list", "--json").json()
    assert [(row["name"], row["summary"]) for row in listed] == [("mine", "two entropy weights")]
    assert listed[0]["results"].startswith("2 runs, seeds 0, 2 missing")
    assert "8 jobs" in cli("reproduce", "mine.toml", "--quick", "--dry-run").stderr


def test_a_python_file_is_run_because_it_was_named(cli):
    Path("own.py").write_text(PYTHON)
    output = cli("reproduce", "own.py", "--workers", 1)
    assert output.status == 0, output.stderr
    assert Path("results/own.md").read_text() == "1 runs\n"
    assert results_file.read("results/own.json")["runs"][0]["seed"] == 4
    for content, words in (
        ("1 / 0", "own.py: it raised ZeroDivisionError"),
        ("EXPERIMENT = 3", "must define EXPERIMENT"),
        ("", "must define EXPERIMENT"),
    ):
        Path("own.py").write_text(content)
        output = cli("reproduce", "own.py", "--dry-run")
        assert output.status == 2
        assert words in " ".join(output.stderr.split())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seeds = 2", "seed = 2", "there is no key 'seed'; did you mean 'seeds'"),
        ("seeds = 2", "seeds = -1", "seeds must be a number of seeds"),
        ("seeds = 2", "steps = true", "steps must be a number"),
        ("seeds = 2", "steps = {still = 5}", "no number for the group 'slippery'"),
        ("seeds = 2", "budget = 3", "budget must be a table"),
        ("seeds = 2", 'table = "grids"', "there is no table 'grids'; did you mean 'grid'"),
        ("seeds = 2", 'name = "robots"', "belongs to an experiment of Tacit"),
        ("seeds = 2", 'name = "../x"', "must consist of letters"),
        ("settings = {beta = 0.1}", "setting = {beta = 0.1}", "row 1: there is no key 'setting'"),
        ('algo = "mce-exact"', 'algo = "mce-exac"', "row 'cold': there is no algorithm 'mce-exac'; did you mean"),
        ('algo = "mce-exact"', "", "row 1: algo is missing"),
        ('env = "tacit/Gridworld-v0"', "env = 3", "group 1: env is missing, or not a text"),
        ('name = "slippery"', 'name = "still"', "group 2: the name 'still' is used twice"),
        ('name = "still"', 'name = "a: b"', "must not be empty or contain ': '"),
        ("value = 0.2", "", "needs a number `value` in every group; 'slippery' has none"),
        ('ours = "cold"', 'ours = "hot"', "ours: there is no row 'hot'"),
        ("[[row]]", "[[rows]]", "there is no key 'rows'; did you mean 'row'"),
        ("seeds = 2", "seeds = ", "is not valid TOML"),
    ],
)
def test_mistakes_are_named(old, new, words):
    Path("mine.toml").write_text(TOML.replace(old, new))
    with pytest.raises(UserError) as raised:
        find("mine.toml")
    assert "mine.toml" in str(raised.value)
    assert words in str(raised.value)


def test_rows_and_groups_are_needed():
    Path("mine.toml").write_text(TOML[: TOML.index("[[row]]")].replace('ours = "cold"', ""))
    with pytest.raises(UserError, match=r"there is no row: add at least one \[\[row\]\] table"):
        find("mine.toml")
    Path("mine.toml").write_text("")
    with pytest.raises(UserError, match="there is no group"):
        find("mine.toml")
    with pytest.raises(UserError, match="does not exist"):
        find("other.toml")
    with pytest.raises(UserError, match="there is no experiment 'mine'"):
        find("mine")


def test_every_experiment_has_a_line_for_the_list():
    assert all(experiment.summary for experiment in EXPERIMENTS.values())


def test_a_dry_run_makes_no_environment_and_loads_no_file_twice(cli, monkeypatch):
    """Ant and the others: one environment each, whatever the number of methods and seeds."""
    from tacit import demos
    from tacit.envs import registry

    made, loaded = [], []
    make, load = registry.gym.make_vec, demos.load

    def make_vec(spec, *args, **options):
        made.append((getattr(spec, "id", spec), options.get("num_envs")))
        return make(spec, *args, **options)

    monkeypatch.setattr(registry.gym, "make_vec", make_vec)
    monkeypatch.setattr(demos, "load", lambda file: (loaded.append(file), load(file))[1])
    output = cli("reproduce", "robots", "--dry-run")
    assert output.status == 0, output.stderr
    assert len(made) == len(set(made)) == 5, made
    assert len(loaded) == len(set(loaded)) == 5, loaded


def test_the_example_of_the_docs_is_planned(cli):
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    own = page.split("## An experiment of your own")[1]
    Path("slippery.toml").write_text(own.split("```toml\n")[1].split("```")[0])
    output = cli("reproduce", "slippery.toml", "--dry-run")
    assert output.status == 0, output.stderr
    assert "12 jobs, 0 finished" in output.stderr


def test_every_figure_and_table_of_the_paper_has_a_number() -> None:
    assert set(NUMBERED) == {f"figure-{n}" for n in range(1, 16)} | {"table-1", "table-2"}
    for number, name in NUMBERED.items():
        assert find(number) == (name, EXPERIMENTS[name])
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if line.startswith("| ")}
    for number, name in NUMBERED.items():
        assert f"`{name}`" in rows[number.replace("-", " ")]


def test_the_list_names_the_numbers_of_the_paper(cli: Any) -> None:
    listed = {row["name"]: row["paper"] for row in json.loads(cli("reproduce", "--list", "--json").stdout)}
    assert listed["table-ablation"] == ["table-1"]
    assert listed["grid-causality"] == []
    assert sum(map(len, listed.values())) == 17
    text = cli("reproduce", "figure-2", "--list").stdout
    assert text.startswith("robots-paper")
    assert "figure 2 of the paper" in text


def test_the_page_of_the_paper_has_the_committed_numbers() -> None:
    text = paper_page.PAGE.read_text(encoding="utf-8")
    assert text == paper_page.page(), "run python tools/paper_page.py"
    for number in NUMBERED:
        part = text.split(f"## {number.replace('-', ' ').capitalize()}\n")[1].split("\n## ")[0]
        assert f"tacit reproduce {number}" in part
        assert re.search(r"\*Core-minutes:\* (\d+|less than 1|not measured)", part)
        assert "![" in part, "every section shows something"


def test_costs_of_the_paper_s_figures_are_measured() -> None:
    """Table 1: as many core-minutes as its runs say."""
    runs = results_file.read(paper_page.RESULTS / "table-ablation.json", curves=False)["runs"]
    seconds = [run["seconds"] for run in runs if run["seconds"]]
    assert paper_page.cost("table-ablation") == f"{sum(seconds) / len(seconds) * len(runs) / 60:.0f}"
    assert paper_page.state("not-an-experiment") == "not run"


@pytest.mark.parametrize("number", ["figure-5", "figure-7", "table-2"])
def test_pictures_need_no_runs(number: str, tmp_path: Path, cli: Any) -> None:
    assert cli("reproduce", number, "--out", tmp_path).status == 0
    name = find(number)[0]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / f"{name}.md").read_text()) > 30


def test_rows_of_a_python_file_are_compared_with_the_first_unless_it_says_with_which():
    Path("own.py").write_text(PYTHON.replace('    ours="exact",\n', ""))
    assert find("own.py")[1].ours == "exact"
