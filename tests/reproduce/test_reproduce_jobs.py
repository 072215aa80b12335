"""Experiments that are made of runs: what is run, what is drawn, what is missing; and the table of experts."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit import launch
from tacit.errors import UserError
from tacit.reproduce import EXPERIMENTS, Experiment, Group, Row
from tacit.reproduce import results as results_file
from tacit.reproduce.runner import earlier, plan, seeds_of
from tacit.run import Run, storage
from tacit.sweep import prepare

GRID = "tacit/Gridworld-v0"
MAP = "S.G\n.X.\n...\n"


def collect(job, run):
    return {"return": run.read("summary.json")["table"]["learned"]["return"]}


def small_table(experiment, results):
    return "".join(f"| {run['label']} | {run['seed']} | {run['return']:.3f} |\n" for run in results["runs"])


WORLD = Group(GRID, {"layout": MAP, "slip": 0.0})
SMALL = Experiment(
    "for tests",
    {f"beta {beta}": replace(WORLD, settings={"beta": beta}) for beta in (0.1, 1.0)},
    {"": Row("mce-exact")},
    seeds=(0,),
    quick_groups=("beta 0.1",),
    collect=collect,
    table=small_table,
    figure=lambda experiment, results: b"\x89PNG" + bytes([len(results["runs"])]),
)
LARGER = replace(SMALL, groups={f"again, {name}": group for name, group in SMALL.groups.items()})
OTHER = replace(SMALL, collect=lambda job, run: {"return": 0.0})
OURS = {"small": SMALL, "larger": LARGER, "other": OTHER}


def small_jobs(seeds, quick=False):
    return SMALL.jobs(seeds, quick)


@pytest.fixture(autouse=True)
def with_a_small_experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, experiment in OURS.items():
        monkeypatch.setitem(EXPERIMENTS, name, experiment)


def run_here(job):
    """A job without a process of its own."""
    run, demos = launch.start_run(job.algo, job.env, **job.wanted, out="runs")
    launch.execute(run, demos)
    return run


def test_options_that_do_nothing_are_refused(cli, tmp_path):
    for words, text in (
        (("exact-stochasticity", "--no-run"), "measured in one go: leave out --no-run"),
        (("exact-stochasticity", "--keep", "--workers", 2), "leave out --keep, --workers"),
        (("exact-stochasticity", "--only", "slip"), "leave out --only"),
        (("small", "--sets", 3), "say with --seeds how many"),
        (("small", "--redraw", "--dry-run", "--keep"), "runs nothing: leave out --keep, --dry-run"),
        (("small", "--redraw", "--seeds", 2, "--only", "x"), "leave out --only, --seeds"),
        (("small", "--quick", "--keep"), "none are kept: leave out --keep"),
    ):
        output = cli("reproduce", *words)
        assert output.status == 2
        assert text in " ".join(output.stderr.split())
    assert cli("reproduce", "exact-stochasticity", "--dry-run", "--json").json() == {"sets": 20, "seconds": None}
    (tmp_path / "file").write_text("")
    output = cli("reproduce", "small", "--out", "file")
    assert output.status == 2
    assert "is a file, not a folder" in output.stderr
    assert not (tmp_path / "runs").exists()


def test_damaged_earlier_results_are_no_reason_to_stop(cli):
    Path("results").mkdir()
    for runs in ([{"label": "beta 0.1"}], ["?"], 7):
        storage.write_json("results/larger.json", {"schema": 1, "runs": runs})
        plan = cli("reproduce", "small", "--keep", "--dry-run")
        assert plan.status == 0, plan.stderr
        assert "results/larger.json is ignored" in plan.stderr


def test_why_nothing_can_be_drawn(cli):
    run = run_here(small_jobs([0])[0])
    (run.path / "summary.json").write_text('{"table": []}')
    output = cli("reproduce", "small", "--no-run")
    assert output.status == 1
    assert "missing: beta 0.1, seed 0:" in output.stderr
    assert "is damaged or of another version" in output.stderr


def test_earlier_results_of_other_runs_are_set_aside(cli):
    """Also where they have the same labels: with other settings they are other runs."""
    assert cli("reproduce", "small", "--workers", 2).status == 0
    results = results_file.read("results/small.json")
    results["runs"][0]["run"] = "mce-exact-gridworld-s0-01234567"
    results_file.write("results/small.json", results)
    assert "has 1 run that the new one lacks" in cli("reproduce", "small", "--no-run").stderr
    assert results_file.read("results/small.json.bak") == results


def test_run_draw_and_skip(cli, tmp_path):
    plan = cli("reproduce", "small", "--dry-run", "--seeds", 2)
    assert plan.status == 0
    assert "4 jobs, 0 finished, 4 to run" in plan.stderr
    assert not (tmp_path / "results").exists()
    assert cli("reproduce", "small", "--ray", "127.0.0.1:9").status == 2
    run_here(small_jobs([0])[0])
    output = cli("reproduce", "small", "--workers", 2)
    assert output.status == 0, output.stderr
    assert "2 jobs, 1 finished, 1 to run with 2 workers: about" in output.stderr
    results = results_file.read("results/small.json")
    assert [(run["label"], run["seed"]) for run in results["runs"]] == [("beta 0.1", 0), ("beta 1.0", 0)]
    assert results["missing"] == []
    assert results["provenance"]["command"] == "tacit reproduce small --workers 2"
    for record in results["runs"]:
        run = Run.open(tmp_path / "runs" / record["run"])
        assert record["commit"] == run.read("provenance.json")["commit"]
        assert record["return"] == pytest.approx(run.read("summary.json")["table"]["learned"]["return"])
    assert (tmp_path / "results" / "small.png").read_bytes()[-1] == 2
    listed = cli("reproduce", "--list").stdout
    assert re.search(r"small\.json: 2 runs, seeds 0; commit \w{4,7}", listed)
    # Again: nothing is run. Redrawn: the same table.
    text = (tmp_path / "results" / "small.md").read_text()
    again = cli("reproduce", "small")
    assert "nothing to run" in again.stderr
    (tmp_path / "results" / "small.md").unlink()
    assert cli("reproduce", "small", "--redraw").status == 0
    assert (tmp_path / "results" / "small.md").read_text() == text


def test_what_is_there_is_drawn_and_what_is_missing_is_named(cli, tmp_path):
    first = run_here(small_jobs([0])[0])
    output = cli("reproduce", "small", "--no-run")
    assert output.status == 0
    assert "missing: beta 1.0, seed 0: not run" in output.stderr
    assert "Missing: beta 1.0, seed 0." in (tmp_path / "results" / "small.md").read_text()
    assert (tmp_path / "results" / "small.png").read_bytes()[-1] == 1
    assert "1 missing" in cli("reproduce", "--list").stdout
    # A damaged run is missing too, and nothing is overwritten when there is nothing to draw.
    before = (tmp_path / "results" / "small.json").read_text()
    (first.path / "summary.json").write_text("{")
    output = cli("reproduce", "small", "--no-run")
    assert output.status == 1
    assert (tmp_path / "results" / "small.json").read_text() == before
    second = run_here(small_jobs([0])[1])
    output = cli("reproduce", "small", "--no-run")
    assert output.status == 0
    assert "damaged" in output.stderr
    assert second.name in (tmp_path / "results" / "small.json").read_text()


def test_results_of_runs_that_are_elsewhere_are_kept(cli, tmp_path):
    runs = [run_here(job) for job in small_jobs([0])]
    assert cli("reproduce", "small").status == 0
    before = results_file.read("results/small.json")["runs"]
    for run in runs:
        run.path.rename(tmp_path / run.name)
    # Without being asked: they would be run again.
    assert "2 to run" in cli("reproduce", "small", "--dry-run").stderr
    # Asked for: nothing is run for them, and what is new joins.
    output = cli("reproduce", "small", "--keep", "--dry-run", "--seeds", 2)
    assert "2 runs are taken over from earlier results" in output.stderr
    assert "2 jobs, 0 finished, 2 to run" in output.stderr
    run_here(small_jobs([1])[1])
    assert cli("reproduce", "small", "--keep", "--no-run", "--seeds", 2).status == 0
    results = results_file.read("results/small.json")
    assert [run for run in results["runs"] if run["seed"] == 0] == before
    assert [(run["label"], run["seed"]) for run in results["missing"]] == [("beta 0.1", 1)]
    # A record of other settings is not the same run.
    results["runs"][0]["run"] = "of-other-settings"
    results_file.write("results/small.json", results)
    assert "1 runs are taken over" in cli("reproduce", "small", "--keep", "--dry-run").stderr


def test_records_of_the_same_runs_are_taken_from_other_experiments(cli, tmp_path):
    runs = [run_here(job) for job in small_jobs([0])]
    assert cli("reproduce", "small").status == 0
    for run in runs:
        run.path.rename(tmp_path / run.name)
    assert cli("reproduce", "larger", "--keep", "--no-run").status == 0
    small, larger = (results_file.read(f"results/{name}.json")["runs"] for name in ("small", "larger"))
    assert [run["label"] for run in larger] == ["again, beta 0.1", "again, beta 1.0"]
    assert [run | {"label": ""} for run in larger] == [run | {"label": ""} for run in small]
    # Of the same run made twice, the later record is taken, whoever holds it.
    later, sooner = "2999-01-01T00:00:00+00:00", "1999-01-01T00:00:00+00:00"
    for when, kept in ((later, 1.0), (sooner, larger[0]["return"])):
        again = [{**run, "return": 1.0, "finished": when} for run in small]
        results_file.write("results/small.json", {**results_file.read("results/small.json"), "runs": again})
        assert earlier("larger", LARGER, Path("results"))[small[0]["run"]]["return"] == kept
    # A damaged file of another experiment stops nobody; the experiment's own is not overlooked.
    Path("results/small.json").write_text("{")
    output = cli("reproduce", "larger", "--keep", "--dry-run")
    assert output.status == 0
    assert "earlier results are ignored: results/small.json is not valid JSON" in output.stderr
    assert cli("reproduce", "small", "--keep", "--dry-run").status == 2
    # One that collects other numbers has none of it.
    assert "taken over" not in cli("reproduce", "other", "--keep", "--dry-run").stderr


def test_a_part_of_an_experiment(cli):
    """--only runs what it names; the rest is drawn where it is there, and is no failure where it is not."""
    output = cli("reproduce", "small", "--only", "beta 1.0", "--workers", 1)
    assert output.status == 0, output.stderr
    assert "1 job, 0 finished" in output.stderr
    assert "not asked for, and missing: 1" in output.stderr
    found = results_file.read("results/small.json")
    assert [run["label"] for run in found["runs"]] == ["beta 1.0"]
    assert [(lost["label"], lost["reason"]) for lost in found["missing"]] == [("beta 0.1", "not asked for (--only)")]
    output = cli("reproduce", "small", "--only", "0.1", "beta 1.0", "--workers", 1)  # the first one is finished
    assert output.status == 0, output.stderr
    assert "2 jobs, 1 finished" in output.stderr
    assert "not asked for" not in output.stderr
    assert len(results_file.read("results/small.json")["runs"]) == 2
    # In a new clone, without the run folders: what is named is run, the rest stays as the results have it.
    shutil.rmtree("runs")
    before = {run["label"]: run["finished"] for run in results_file.read("results/small.json")["runs"]}
    output = cli("reproduce", "small", "--only", "beta 1.0", "--workers", 1)
    assert "1 runs are taken over" in output.stderr
    after = {run["label"]: run["finished"] for run in results_file.read("results/small.json")["runs"]}
    assert after["beta 0.1"] == before["beta 0.1"]
    assert after["beta 1.0"] > before["beta 1.0"]
    # Nothing is lost either where nothing is run, or only one seed.
    shutil.rmtree("runs")
    cli("reproduce", "small", "--only", "beta 1.0", "--no-run")
    assert len(results_file.read("results/small.json")["runs"]) == 2
    cli("reproduce", "small", "--only", "beta 1.0", "--seeds", "1,", "--workers", 1)
    labels = sorted((run["label"], run["seed"]) for run in results_file.read("results/small.json")["runs"])
    assert labels == [("beta 0.1", 0), ("beta 1.0", 0), ("beta 1.0", 1)]
    for words in (["beta 7"], [""], ["beta 0.1", "1.0,"]):
        output = cli("reproduce", "small", "--only", *words)
        assert output.status == 2
        assert "the labels are beta 0.1, beta 1.0" in " ".join(output.stderr.split())


def test_runs_that_fail_are_reported_at_the_end(cli, tmp_path, monkeypatch):
    run_here(small_jobs([0])[0])

    def fail(tasks, **options):
        for task in tasks:
            if not task.done:
                task.status, task.message = "failed", "out of luck"

    monkeypatch.setattr("tacit.reproduce.runner.run_tasks", fail)
    output = cli("reproduce", "small")
    assert output.status == 1
    assert "out of luck" in output.stderr
    assert "1 runs did not finish" in output.stderr
    assert (tmp_path / "results" / "small.md").exists()


def test_quick_has_results_of_its_own(cli, tmp_path):
    run_here(small_jobs([0], quick=True)[0])
    assert cli("reproduce", "small", "--quick").status == 0
    assert results_file.read("results/small-quick.json")["quick"] is True
    assert not (tmp_path / "results" / "small.json").exists()


def test_results_of_another_version(cli, tmp_path):
    storage.write_json("results/small.json", {"schema": 99, "provenance": {}, "runs": []})
    output = cli("reproduce", "small", "--redraw")
    assert output.status == 2
    assert "another version" in output.stderr
    for content in ('{"runs": [{"label": 3}]}', "[]", "3", '{"provenance": {}, "runs": 3}', '{"runs"'):
        (tmp_path / "results" / "small.json").write_text(content)
        output = cli("reproduce", "small", "--redraw")
        assert output.status == 2, content
        assert "results/small.json" in output.stderr
        listed = cli("reproduce", "--list")
        assert listed.status == 0, content
        assert "small.json" in listed.stdout
    assert not (tmp_path / "results" / "small.md").exists()


def test_results_that_would_be_lost_are_set_aside(cli, tmp_path):
    """Of another version, damaged, or with runs that the new file lacks; not those that are only measured again."""
    file = tmp_path / "results" / "small.json"
    cli("reproduce", "small", "--seeds", "2")
    whole = file.read_bytes()
    assert not [*file.parent.glob("*.bak*")]
    assert "is now" not in cli("reproduce", "small", "--seeds", "2").stderr
    again = cli("reproduce", "small", "--seeds", "1")
    assert "runs that the new one lacks" in again.stderr
    assert json.loads((file.parent / "small.json.bak").read_bytes())["runs"] == json.loads(whole)["runs"]
    for content, why in (('{"schema": 99, "runs": []}', "another version"), ("[]", "cannot be read")):
        file.write_text(content)
        assert why in cli("reproduce", "small", "--seeds", "1").stderr
    assert (file.parent / "small.json.bak1").read_text().startswith('{"schema": 99')
    assert (file.parent / "small.json.bak2").read_text() == "[]"


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", [0, 1, 2]), ("0,1,2", [0, 1, 2]), ("4,", [4]), ("7,2", [7, 2]), (None, [5])],
)
def test_seeds(text, seeds):
    assert seeds_of(text, (5,)) == seeds


@pytest.mark.parametrize("text", ["0", "-1", "a", "", ",", "1,-2", "1.5", "1,,2"])
def test_bad_seeds(text, cli):
    with pytest.raises(UserError, match="--seeds"):
        seeds_of(text, (5,))


def test_seeds_are_sets_where_nothing_is_run(cli):
    assert "3 sets: an unknown time" in cli("reproduce", "exact-stochasticity", "--seeds", 3, "--dry-run").stderr
    assert cli("reproduce", "exact-stochasticity", "--seeds", "1,2").status == 2
    records = {"methods": {"a": [{"seconds": 2.0}, {"seconds": 4.0}]}, "sets": 2}
    storage.write_json("results/exact-stochasticity.json", records)
    assert "20 sets: about 60 s" in cli("reproduce", "exact-stochasticity", "--dry-run").stderr


# -- experts ----------------------------------------------------------------------------------------------------------


def finished_expert(task, value, count):
    """A folder as an expert leaves it, with a known evaluation."""

    def row(scale):
        rate = {"value": count / 100, "count": count, "n": 100}
        found = {key: {"value": scale * value} for key in ("return", "terminated_return")}
        return found | {"violation_rate_step": {"value": 0.01}, "violation_rate_episode": rate}

    run, _ = launch.start_run(task.job.algo, task.job.env, **task.job.wanted, out="runs")
    for i in range(250):
        run.log({"steps": i + 1, "rollout/cost_mean": 0.5, **({"rollout/ep_rew_mean": float(i)} if i > 9 else {})})
    run.finish({"table": {"stochastic": row(1.0), "deterministic": row(2.0)}})


def test_the_table_of_experts(cli, tmp_path):
    robots = [job for job in EXPERIMENTS["table-experts"].jobs([0, 1]) if job.label in ("Swimmer", "Pendulum")]
    for task, value, count in zip(prepare(robots, "runs"), (100, 10, 300, 14), (0, 1, 0, 2), strict=True):
        finished_expert(task, float(value), count)
    output = cli("reproduce", "table-experts", "--seeds", 2, "--no-run")
    assert output.status == 0, output.stderr
    assert output.stderr.count("missing: ") == 6
    text = (tmp_path / "results" / "table-experts.md").read_text()
    stochastic, deterministic = text.split("**deterministic policy**")
    (swimmer,) = [line for line in stochastic.splitlines() if line.startswith("| Swimmer")]
    # sd of 100 and 300 with n - 1 is 141.4; the upper bound for 0 of 200 is 1 - 0.05^(1/200) = 1.5 %.
    assert "| 2 | 1.5M | 200 ± 100 | 200 [100, 300] | 200 ± 100 | 1.000 % | 0 of 200 (2.4 %) |" in swimmer
    assert "| 100 (0), 300 (0) | 801 |" in swimmer
    assert "| 12.0 ± 2.0 |" in stochastic
    assert "3 of 200" in stochastic
    assert "| 400 ± 200 |" in deterministic
    assert "| Ant | - |" in stochastic
    assert (tmp_path / "results" / "table-experts.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    curves = results_file.read("results/table-experts.json")["runs"][0]["curves"]
    assert len(curves["steps"]) == len(curves["return"]) == 100
    assert np.isnan(curves["return"][0])
    assert curves["steps"][-1] == 250
    assert curves["return"][-1] == pytest.approx(248.5)  # the mean of the last two


def test_an_expert_is_trained_and_drawn(cli, tmp_path, monkeypatch):
    usual = EXPERIMENTS["table-experts"]
    quick = {**usual.quick, "total_steps": 2048, "epochs": 1}
    small = replace(usual, groups={"Pendulum": usual.groups["Pendulum"]}, quick=quick)
    monkeypatch.setitem(EXPERIMENTS, "table-experts", small)
    output = cli("reproduce", "table-experts", "--quick", "--seeds", "3,")
    assert output.status == 0, output.stderr
    (run,) = results_file.read("results/table-experts-quick.json")["runs"]
    assert (run["label"], run["seed"], run["steps"]) == ("Pendulum", 3, 2048)
    assert 0 < run["stochastic"]["return"] <= 100
    assert run["stochastic"]["n"] == 4
    assert "| Pendulum | 1 |" in (tmp_path / "results" / "table-experts-quick.md").read_text()


def test_runs_of_a_frozen_preset_keep_their_names():
    """`--keep` finds the committed records by name: a setting that is added later must not change it."""
    names = {task.path.name for task in plan(EXPERIMENTS["table-robots-paper"], [0], False, "runs")[1]}
    assert {"mce-ant-s0-2865622c", "mce-swimmer-s0-26b1807b", "mce-pendulum-s0-8a726614"} <= names
