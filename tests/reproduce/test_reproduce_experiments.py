"""The experiments of the paper: which runs they are made of, what they share, what is written when some are missing."""

import dataclasses
import functools
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tacit import demos, launch, presets
from tacit.algorithms import find as algorithm
from tacit.cost import Inputs, LearnedCost
from tacit.envs.gridworld import make_spec
from tacit.envs.options import check_env
from tacit.errors import RunFailed, UserError
from tacit.policy import Interface, Policy
from tacit.reproduce import (
    EXPERIMENTS,
    Experiment,
    Group,
    Row,
    Staged,
    figures,
    gridworld,
    overall,
    published,
    records,
    runner,
    stages,
    tables,
    tuning,
)
from tacit.reproduce import results as results_file
from tacit.reproduce.catalogue import ABLATION
from tacit.reproduce.experiment import METHODS, shortened, slips
from tacit.run import Run, storage
from tacit.sweep import Job, Task, prepare

PNG = b"\x89PNG\r\n\x1a\n"
GRID = "tacit/Gridworld-v0"
NAMES = sorted(name for name, entry in EXPERIMENTS.items() if isinstance(entry, Experiment))


@pytest.fixture(autouse=True, scope="module")
def presets_are_read_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "_files", functools.cache(presets._files))
        yield


@functools.cache
def resolved(algo, env, preset, settings):
    config = algorithm(algo).config(env, preset, storage.from_json(settings))
    return storage.to_json(dataclasses.asdict(config))


def config_of(job):
    return storage.from_json(resolved(job.algo, job.env, job.preset, storage.to_json(dict(job.settings))))


def identity(job):
    """What decides about the run folder, but for demonstrations."""
    return storage.to_json([job.algo, job.env, dict(job.env_kwargs), job.seed, config_of(job)])


def jobs_of(name, seeds=(0, 1), quick=False):
    return EXPERIMENTS[name].jobs(list(seeds), quick)


def table_of(name, results):
    return runner.draw(replace(EXPERIMENTS[name], figure=lambda experiment, results: PNG), results)[0]


# -- what is run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_jobs(name):
    """Settings that the methods have, labels that tell runs apart, and much less of it with --quick."""
    for quick in (False, True):
        jobs = jobs_of(name, quick=quick)
        assert len({(job.label, job.seed) for job in jobs}) == len(jobs)
        for job in jobs:
            group, _, row = job.label.partition(": ")
            assert group
            assert row or "" in EXPERIMENTS[name].rows
        steps = [config_of(job).get("total_steps") or 0 for job in jobs]
        assert max(steps) <= (30_000 if quick else 21_000_000)
    assert len(jobs_of(name, quick=True)) <= len(jobs_of(name))


def folders(name, **options):
    return {identity(job) for job in jobs_of(name, **options)}


def test_runs_in_common_are_the_same_runs():
    for quick in (False, True):
        assert folders("grid-curves", quick=quick) < folders("grid-stochasticity", quick=quick)
        assert folders("grid-maps", quick=quick) < folders("grid-stochasticity", quick=quick)
        ablation = folders("table-ablation", quick=quick)
        assert folders("robots-beta", quick=quick) | folders("robots-pretraining", quick=quick) == ablation
        ours = folders("table-robots", quick=quick)
        assert ours == {identity(job) for job in jobs_of("robots", quick=quick) if job.algo == "mce"}
        first = {identity(job) for job in EXPERIMENTS["retraining"].first([0, 1], quick)}
        assert first < folders("robots", quick=quick)
    common = folders("grid-beta") & folders("grid-stochasticity")
    assert len(common) == 2 * len(slips())  # the beta of the preset
    assert folders("robots-paper") & folders("table-ablation")
    for name, group in (("demos-count", "Pendulum, 50:"), ("demos-violating", "Swimmer, 0 %:")):
        given = [job for job in jobs_of(name) if job.label.startswith(group) and "equal squares" not in job.label]
        assert {identity(job) for job in given} < folders("robots")


@pytest.mark.parametrize("name", ["robots", "robots-paper", "grid-stochasticity", "robots-noise", "transfer"])
def test_the_same_steps_for_all_methods(name):
    steps: dict[str, set[int]] = {}
    for job in jobs_of(name):
        config = config_of(job)
        if "total_steps" in config and job.algo != "expert":
            steps.setdefault(job.label.partition(":")[0], set()).add(config["total_steps"])
    assert all(len(found) == 1 for found in steps.values()), steps


def test_more_seeds_of_ours():
    jobs = jobs_of("robots", (0, 1, 2))
    seeds = {algo: sorted({job.seed for job in jobs if job.algo == algo}) for algo in ("mce", "gacl", "ppo")}
    assert seeds == {"mce": [0, 1, 2, 3, 4], "gacl": [0, 1, 2], "ppo": [0, 1, 2]}
    assert {job.seed for job in jobs_of("robots", (7,))} == {7}
    assert {job.seed for job in jobs_of("table-ablation", (0, 1, 2))} == {0, 1, 2}


def test_short_runs_move_multipliers_as_far_and_anneal_as_much():
    """HalfCheetah's presets are of a million steps; 0.3 million are 3.33 times fewer."""
    env = "tacit/HalfCheetah-v0"
    usual, fewer = presets.load("me-icrl", "reference", env), shortened("me-icrl", env)
    assert shortened("mce", env) == {}
    assert fewer["multiplier_lr"] * 0.3 == pytest.approx(usual["multiplier_lr"], rel=1e-4)
    assert fewer["anneal"] ** 0.3 == pytest.approx(usual["anneal"], rel=1e-4)


def test_costs_of_x_alone_go_to_point():
    jobs = jobs_of("transfer", [0])
    inputs = {job.label: job.settings["inputs"] for job in jobs if job.label.startswith("Ant")}
    assert inputs["Ant: gacl"] == ["x_position", "y_position"]
    assert inputs["Ant: gacl, x alone"] == ["x_position"]
    fresh = {job.label for job in jobs if job.algo == "retrain"}
    assert {"Point: mce", "Point: mce, x alone", "BrokenAnt: mce"} <= fresh
    assert "BrokenAnt: mce, x alone" not in fresh


@pytest.mark.parametrize("name", ["transfer", "retraining"])
def test_fresh_agents_are_fresh(name):
    """Another seed than the run whose cost they follow, or they would begin with its network; no cost is left out."""
    jobs = jobs_of(name, [0, 1, 2])
    fresh, others = [[job for job in jobs if (job.algo == "retrain") == wanted] for wanted in (True, False)]
    assert {job.seed for job in fresh}.isdisjoint(job.seed for job in others)
    assert all(job.settings["free"] for job in fresh)


def test_costs_of_x_alone_have_tables_of_their_own():
    runs = [record("Point: mce", 0, 50.0), record("Point: mce, x alone", 0, 90.0), record("Point: ppo", 0, 10.0)]
    results = {"runs": [*runs, record("Ant: mce, x alone", 0, 99.0)], "missing": []}
    titles = table_of("transfer", results).split("**")[1::2]
    assert titles[0] == "all of Point: violating episodes, %"
    assert [part for part in titles if part.endswith(", stochastic policy")] == [
        "Point, stochastic policy",
        "Point, x alone, stochastic policy",
        "Ant, x alone, stochastic policy",
    ]
    labels = [run["label"] for run in stages.by_inputs(results)["runs"]]
    assert labels == ["Point: mce", "Point, x alone: mce", "Point: ppo", "Point, x alone: ppo", "Ant, x alone: mce"]
    lines = table_of("transfer", results).split("**Ant, x alone, stochastic policy**")[1].split("**")[0]
    assert "| mce |" in lines
    assert "| ppo |" not in lines  # no run of it was wanted


def test_tuning_keeps_away_from_evaluation():
    chooses = ("tuning", "grid-tuning", "paper-readings")  # with these, settings were chosen
    evaluated = {seed for name in NAMES if name not in chooses for seed in EXPERIMENTS[name].seeds}
    for name, trials in (("tuning", tuning.ROBOTS), ("grid-tuning", tuning.GRID)):
        assert not evaluated & set(EXPERIMENTS[name].seeds)
        rows = trials.rows.values()
        counts = {algo: sum(row.algo == algo for row in rows) for algo in (*METHODS, "bc2l", "irl-correction")}
        assert counts == dict.fromkeys(counts, 4) | ({"me-icrl": 8} if name == "tuning" else {})


# -- tables and figures -----------------------------------------------------------------------------------------------


def record(label, seed, stopped, rate=0.0, expert=100.0, **more):
    broken = {"violation_rate_step": rate, "violation_rate_episode": rate, "count": round(100 * rate), "n": 100}
    numbers = {"return": stopped + 10.0, "terminated_return": stopped, "feasible_return": stopped, **broken}
    curves = {"steps": [500, 1000], "return": [0.0, stopped], "violations": [0.5, rate]}
    about = {"run": "x", "algo": "mce", "env": "e", "steps": 600_000, "seconds": 120.0, "commit": "abc", "versions": {}}
    shown = {"return": expert, "terminated_return": expert, "violation_rate_step": 0.0}
    about["typical"] = expert
    found = {"stochastic": numbers, "deterministic": numbers, "expert": shown, "curves": curves}
    return {"label": label, "seed": seed, **about, **found, "cost_quality": {"auroc": 0.9, "auroc_cost": 0.8}, **more}


def results_of(records, missing=()):
    lost = [{"label": label, "seed": seed, "run": "x", "reason": "not run"} for label, seed in missing]
    return {"schema": 1, "provenance": {}, "runs": list(records), "missing": lost}


def test_numbers_of_a_table():
    on = [
        {"cost": {"on": {"nominal": {"auroc": x}, "perturbed": {"iou": 0.25}, "tried": {"auroc_outside": 1 - x}}}}
        for x in (0.5, 0.75)
    ]
    runs = [record("Ant: mce", 0, 80.0, detection=on[0]), record("Ant: mce", 1, 120.0, rate=0.02, detection=on[1])]
    runs.append(record("Ant: ppo", 0, 10.0, rate=1.0))
    nothing = {"charge": {"kind": "excess", "top": 0.5, "threshold": 0.5}}
    runs.append(record("Walker: mce", 0, 7.0, source=nothing) | {"expert": {"return": 1.0}})
    lost = [("Ant: gacl", 0)]
    text = tables.by_group(results_of(runs, lost), ("Ant", "Walker", "HalfCheetah"), ("mce", "gacl", "ppo"))
    stochastic = text.split("deterministic policy")[0]
    (mce, _) = [line for line in stochastic.splitlines() if line.startswith("| mce |")]
    # The standard error of 80 and 120 is 20. Two of 200: the upper bound solves P(X <= 2 | 200, p) = 0.05, 3.1 %.
    assert "| 2 | 0.6M | 110 ± 20 | 100 ± 20 |" in mce
    assert "| 1.000 ± 1.000 % | - | 2 of 200 (4.2 %) | - | 80.0 (0), 120 (2) | 1.00 | 2.0 |" in mce
    costs = text.split("**Ant, costs**")[1]
    assert "| mce | - | 0.375 | 0.625 | - | - / - / - | - / - / 0.250 | - |" in costs
    assert "| ppo |" not in costs
    assert "| gacl |" + " - |" * len(tables.COMPARISON) in stochastic
    assert "100 of 100" in stochastic
    assert "HalfCheetah" not in text  # nobody wanted it
    assert "| 7.0 (0) ° |" in text
    assert tables.NOTE_FREE in text
    assert "nan" not in text  # of demonstrations whose violations nobody counted
    assert "| demonstrations | - | - | 100 | 100 | - | 0.000 % |" in stochastic


def test_all_robots_together():
    runs = [record(f"{robot}: mce", seed, 100.0) for robot in ("Ant", "Walker") for seed in (0, 1)]
    runs += [record("Ant: gacl", 0, 50.0), record("Walker: gacl", 0, 150.0, rate=0.3)]
    runs += [record("Ant: ppo", 0, 1.0)]
    text = overall.table(results_of(runs), ("Ant", "Walker"), ("mce", "gacl", "ppo"))
    earned, broken = text.split("**all of Ant; Walker: violating episodes, %**")
    assert "| mce | 2 x 2 | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] | - |" in earned
    # Better on one, worse on the other; a single seed has no spread.
    assert "| gacl | 1 x 2 | 1.00 | 1.00 | 0.50 |" in earned
    assert "| gacl | 1.00 | 0.50 | 0.50 | 0.50 | 0.50 |" in earned
    assert "| ppo | - | - | - | - |" in earned  # not on both
    # Less is better here: 0 % against 0 and 30 %; not above 0, 1, 5 and 20 %.
    assert "P(mce lower), ties half" in broken
    assert "| mce | 2 x 2 | 0.0 [0.0, 0.0] | 0.0 [0.0, 0.0] | - |" in broken
    assert "| gacl | 1 x 2 | 15.0 | 15.0 | 0.75 |" in broken
    assert "| gacl | 0.50 | 0.50 | 0.50 | 0.50 |" in broken
    strangers = [{**run, "expert": None} for run in runs]
    assert "over demonstrations" not in overall.table(results_of(strangers), ("Ant", "Walker"), ("mce", "gacl"))


def test_the_papers_table_stands_beside_ours():
    runs = [record("Swimmer: no pre-training", 0, 200.0), record("Ant: beta 0.001", 0, 6000.0)]
    text = table_of("table-ablation", results_of(runs))
    (swimmer,) = [
        line for line in text.split("deterministic")[0].splitlines() if line.startswith("| no pre") and "20" in line
    ]
    assert swimmer.endswith("| 165 ± 59 / 0.22 ± 0.09 |")
    assert "| 6057 ± 313 / 0 |" in text
    assert list(ABLATION) == ["beta 1e-05", "beta 0.0001", "beta 0.001", "beta 0.01", "no pre-training"]
    assert all(len(numbers) == 5 for numbers in published.OF_THE_PAPER.values())


def test_earlier_numbers_stand_beside_ours():
    """Each belongs to a row of some experiment, and the table says where it is from."""
    labels = {job.label for name in ("robots", "robots-contenders", "transfer") for job in jobs_of(name, (0,))}
    assert set(published.PUBLISHED) <= labels
    text = table_of("robots", results_of([record("HalfCheetah: vicrl", 0, 5000.0)]))
    assert "| Liu 3998 ± 261 / 0 |" in text
    assert published.NOTE in text
    text = table_of("transfer", results_of([record("Point: ppo", 0, 5.0), record("Ant: gacl", 0, 5.0)]))
    assert "| Malik 50 / 0.60 |" in text
    assert "7200" not in text


def grid_record(label, seed, value):
    exact = {"return": value, "violation_rate_step": -value / 100, "excess_violation_occupancy": 0.1, "auroc": 0.9}
    return record(label, seed, value, expert=-6.0, exact=exact)


def test_the_gridworld_against_stochasticity():
    runs = [
        grid_record("slip 0: mce", 0, -6.0),
        grid_record("slip 0: mce", 1, -8.0),
        grid_record("slip 0.3: mce", 0, -9.0),
    ]
    found = results_of(runs, [("slip 0.3: gacl", 0)])
    experiment = replace(EXPERIMENTS["grid-curves"], rows={name: Row(name) for name in ("mce", "gacl")})
    text = gridworld.table(experiment, found)
    first = text.split("\n\n**")[0]
    assert "| mce | -7.000 ± 1.000 | -9.000 n=1 |" in first
    assert "over 2 seeds (fewer where n says so)" in text
    assert "| gacl | - | - |" in first
    assert "| expert | -6.000 | -6.000 |" in first
    assert "| mce | 6.0, 8.0 | 9.0 |" in text.split("violating steps of each seed")[1]
    assert "AUROC on nominal states" not in text  # nobody has it
    assert "all of slip 0; slip 0.3: violating steps" in text
    assert figures.values(experiment, found)[:8] == PNG
    assert figures.curves(experiment, found)[:8] == PNG


@pytest.mark.parametrize("name", ["robots", "robots-noise", "demos-violating", "tuning"])
def test_half_of_the_runs_are_enough_to_draw(name):
    jobs = jobs_of(name, (0,), quick=True)
    runs = [record(job.label, job.seed, 90.0 + i) for i, job in enumerate(jobs) if i % 2 == 0]
    lost = [(job.label, job.seed) for i, job in enumerate(jobs) if i % 2]
    text, picture = runner.draw(EXPERIMENTS[name], results_of(runs, lost))
    assert picture[:8] == PNG
    assert "Missing: " + lost[0][0] in text
    with pytest.raises(UserError, match="other version"):
        runner.redraw(EXPERIMENTS[name], {"schema": 1, "runs": [{"label": 3}]}, "file")


def test_words_about_missing_runs():
    assert figures.words_of_missing(results_of([])) == ""
    lost = results_of([], [(f"a: {i}", 0) for i in range(8)])
    assert figures.words_of_missing(lost).startswith("missing runs (8): a: 0;")
    assert figures.words_of_missing(lost).endswith("a: 5 and 2 more")


def test_the_choice_of_a_trial():
    """Without the truth: whose return is nearest to the demonstrations'. A violator that earns twice as much is not."""
    runs = []
    for robot in tuning.ROBOTS.groups:
        runs += [record(f"{robot}: gacl, trial 1", 100, 60.0), record(f"{robot}: gacl, trial 2", 100, 190.0)]
        runs += [record(f"{robot}: gacl, trial 3", 100, 85.0)]
    runs += [record("Swimmer: gacl, trial 4", 100, 90.0)]  # on one robot only
    found = results_of(runs)
    assert tuning.ROBOTS.score(runs[0]) == pytest.approx(0.7)
    assert tuning.ROBOTS.chosen(found, "gacl") == "gacl, trial 3"
    assert tuning.ROBOTS.chosen(found, "mce") is None
    text = table_of("tuning", found)
    assert "| gacl | trial 3 | lr_constraint = 0.01 | trial 2 |" in text


def test_the_choice_of_a_trial_in_the_gridworld():
    """Returns are negative there: who walks through the wall earns more than the demonstrations, and is not chosen."""
    judged = {1: (-3.0, 0.9), 2: (-9.0, 0.1), 3: (-20.0, 0.0)}
    runs = []
    for group in tuning.GRID.groups:
        for number, (earned, excess) in judged.items():
            exact = {"return": earned, "excess_violation_occupancy": excess, "violation_rate_step": excess / 4}
            runs.append(record(f"{group}: vicrl, trial {number}", 100, 0.0) | {"exact": exact, "typical": -10.0})
    found = results_of(runs)
    assert tuning.GRID.score(runs[0]) == pytest.approx(0.3)
    assert tuning.GRID.score(runs[2]) == 0.0
    assert tuning.GRID.chosen(found, "vicrl") == "vicrl, trial 2"
    assert tuning.GRID.chosen(found, "vicrl", tuning.GRID.truth) == "vicrl, trial 3"
    text, picture = runner.draw(EXPERIMENTS["grid-tuning"], found)
    assert "| vicrl | trial 2 | lr_constraint = 0.02, multiplier_init = 10.0 | trial 3 |" in text
    assert picture[:8] == PNG


# -- the numbers of a run ---------------------------------------------------------------------------------------------


@pytest.fixture
def spec():
    return make_spec("S.G\n.X.\n...\n", slip=0.2)


def saved(tmp_path, **models):
    """A run folder with these models, {name: (arrays, card)}."""
    settings = {"algo": "mce", "env": GRID, "env_kwargs": {}, "seed": 0, "config": {}}
    run = Run.start(tmp_path, **settings)
    for name, (arrays, card) in models.items():
        run.save_model(name, arrays, card)
    return run


def test_a_deep_policy_as_a_table(tmp_path, spec):
    rng = np.random.default_rng(3)
    face = Interface(2, spec.n_actions, 0, spec.n_actions)
    weights = rng.normal(size=(2, spec.n_actions)).astype(np.float32)
    bias = np.zeros(spec.n_actions, np.float32)
    policy = Policy(face, (weights,), (bias,), None, np.zeros(2, np.float32), np.ones(2, np.float32), 10.0)
    table = records.policy_table(saved(tmp_path, policy=policy.to_arrays()), spec)
    assert table.shape == (spec.n_states, spec.n_actions)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    drawn = policy(np.repeat(spec.cells[4:5].astype(np.float32), 20_000, axis=0), rng)
    shares = np.bincount(drawn, minlength=spec.n_actions) / 20_000
    np.testing.assert_allclose(shares, table[4], atol=0.02)


def test_a_cost_that_reads_actions_is_averaged_over_the_policy(tmp_path, spec):
    names = ("row", "column", *(f"action[{i}]" for i in range(spec.n_actions)))
    zeros, ones = np.zeros(len(names), np.float32), np.ones(len(names), np.float32)
    inputs = Inputs(
        names, tuple(range(len(names))), 2, spec.n_actions, zeros, ones, squash=False, n_actions=spec.n_actions
    )
    lam = np.array([0.0, 2.0, 1.0] + [0.0] * (spec.n_actions - 1), np.float32)  # 2 column + [action is 0]
    empty = np.zeros((len(names), 0), np.float32)
    cost = LearnedCost(inputs, lam, empty, empty)
    policy = np.full((spec.n_states, spec.n_actions), 1 / spec.n_actions)
    found = records.cost_table(saved(tmp_path, cost=cost.to_arrays()), spec, policy)
    np.testing.assert_allclose(found, 2 * spec.cells[:, 1] + 1 / spec.n_actions, rtol=1e-6)
    assert records.cost_table(SimpleNamespace(path=tmp_path), spec, policy) is None


def test_exact_runs_are_judged_as_they_judge_themselves(tmp_path):
    wanted = {"layout": "S.G\n.X.\n...\n", "slip": 0.2}
    job = Job("mce-exact", GRID, wanted, seed=1, label="slip 0.2: mce-exact")
    run, demos = launch.start_run(job.algo, job.env, **job.wanted, out=str(tmp_path))
    summary = launch.execute(run, demos)
    found = records.collect_grid(job, run)
    for key in ("return", "violation_rate_step", "violation_occupancy", "excess_violation_occupancy"):
        assert found["exact"][key] == pytest.approx(summary["table"]["learned"][key])
    assert found["exact"]["auroc"] == pytest.approx(summary["cost_quality"]["auroc"])
    assert found["expert"]["return"] == pytest.approx(summary["table"]["expert"]["return"])
    assert found["curves"] == {}


def test_curves_are_thinned():
    log = [{"steps": 10 * i, "rollout/ep_rew_mean": float(i), "rollout/cost_mean": 0.5} for i in range(1, 121)]
    curves = records.curves_of([{"loss": 1.0}, *log])
    assert len(curves["steps"]) == records.POINTS
    assert curves["steps"][-1] == 1200
    assert curves["return"][:2] == [1.5, 3.5]
    assert set(curves["violations"]) == {0.5}
    assert set(curves) == {"steps", "return", "violations"}  # nothing of duals in a log that has none
    assert records.curves_of([{"steps": 1, "dual/learner_cost": 2.0}])["learner_cost"] == [2.0]


def test_comparisons_take_over_what_the_tables_of_single_methods_hold(tmp_path, monkeypatch):
    """The paper's settings are in a table of their own, and the same runs a row of the ablation."""
    monkeypatch.chdir(tmp_path)
    (label,) = {job.label for job in jobs_of("table-ablation", [0]) if job.label == "Walker: beta 0.0001"}
    (job,) = [job for job in jobs_of("table-robots-paper", [0]) if job.label == "Walker"]
    (task,) = prepare([job], "runs")
    agent = {"return": 60.0, "terminated_return": 50.0, "violation_rate_step": 0.1, "count": 10, "n": 100}
    older = {"label": "Walker", "run": task.path.name, "seed": 0, "steps": 2_200_000, "seconds": 60.0}
    older |= {"stochastic": agent, "demonstrations": 200.0, "commit": "c", "curves": {}, "cost_quality": None}
    storage.write_json("results/table-robots-paper.json", {"schema": 1, "runs": [older]})
    experiment = EXPERIMENTS["table-ablation"]
    kept = runner.earlier("table-ablation", experiment, Path("results"))
    _, tasks = runner.plan(experiment, [0], False, "runs")
    results = runner.gather(experiment, tasks, runner.taken_over(tasks, kept))
    assert [(run["label"], run["run"]) for run in results["runs"]] == [(label, task.path.name)]
    row = next(line for line in table_of("table-ablation", results).splitlines() if "50.0 (10)" in line)
    assert "| 0.25 |" in row  # over demonstrations


# -- demonstrations that violate --------------------------------------------------------------------------------------


def pusher(tmp_path, action, seed=50):
    """A finished folder of a pendulum's policy that always pushes in one direction."""
    face = Interface(4, 1, 0, 0, (-3.0,), (3.0,), True)
    zeros = np.zeros((4, 1), np.float32)
    policy = Policy(
        face,
        (zeros,),
        (np.array([action], np.float32),),
        np.full(1, -5.0, np.float32),
        np.zeros(4, np.float32),
        np.ones(4, np.float32),
        10.0,
    )
    job = Job("ppo", "tacit/Pendulum-v0", seed=seed, label="Pendulum: ppo")
    return Task(job, saved(tmp_path, policy=policy.to_arrays()).path)


def test_a_share_of_demonstrations_violates(tmp_path, caplog):
    caplog.set_level("INFO", logger="tacit")
    # One of the three never violates: the others take turns.
    tasks = [pusher(tmp_path / name, push, seed) for name, push, seed in (("a", -0.6, 50), ("b", 1, 51), ("c", -1, 52))]
    given = demos.load(demos.shipped("tacit/Pendulum-v0"))
    EXPERIMENTS["demos-violating"].make(tasks)
    for share in stages.SHARES:
        mixed = demos.load(stages.mixed_file(tasks, share))
        broken = np.add.reduceat(mixed.costs, mixed.step_offsets) > 0
        wrong = round(share * 50)
        assert len(mixed) == len(given) == 50
        assert broken.tolist() == [False] * (50 - wrong) + [True] * wrong
        np.testing.assert_array_equal(mixed[0].observations, given[0].observations)
        pushes = [round(float(one.actions[0, 0])) for one in mixed][50 - wrong :]
        assert pushes == ([-2, -3] * wrong)[:wrong]
        assert f"{wrong} of 50 by PPO without cost" in mixed.card["source"]
    demos.validate(mixed, "tacit/Pendulum-v0")
    with pytest.raises(RunFailed, match="only 3 episodes of PPO without cost violate, but 10 are needed"):
        stages.mixed("tacit/Pendulum-v0", list(mixed)[:3], 0.2)
    unable = [pusher(tmp_path / "unable", 1.0)]
    EXPERIMENTS["demos-violating"].make(unable, quick=True)  # its runs will be missing, those of the others not
    assert not stages.mixed_file(unable, stages.SHARES[0]).exists()
    assert "10 are needed" in caplog.text


# -- runs that need other runs ----------------------------------------------------------------------------------------

MAP = {"layout": "S.G\n.X.\n...\n", "slip": 0.0}


class TwoStages(Staged):
    def first(self, seeds, quick=False):
        return [Job("mce-exact", GRID, MAP, seed=0, label="world: first")]

    def jobs(self, seeds, quick=False, finished=()):
        file = "(later)" if not finished else str(finished[0].path.parent / "demonstrations" / "made.npz")
        fine = [Job("mce-exact", GRID, MAP, seed=seed, demos=file, label="world: second") for seed in seeds]
        return [*fine, Job("ml-greedy", GRID, MAP, seed=0, settings={"beta": -1.0}, demos=file, label="world: wrong")]

    def make(self, tasks, quick=False):
        file = tasks[0].path.parent / "demonstrations" / "made.npz"
        file.parent.mkdir(exist_ok=True)
        demos.save(Run.open(tasks[0].path).demonstrations(), file)


SPECIAL = {
    "seeds": (0,),
    "collect": lambda job, run: {},
    "table": lambda experiment, results: "".join(run["label"] for run in results["runs"]),
    "figure": lambda experiment, results: PNG,
}


@pytest.fixture
def staged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "staged", TwoStages("for tests", {}, {}, **SPECIAL))

    def here(tasks, **options):
        for task in tasks:
            if not task.done:
                run, demonstrations = launch.start_run(task.job.algo, task.job.env, **task.job.wanted, out="runs")
                launch.execute(run, demonstrations)

    monkeypatch.setattr(runner, "run_tasks", here)


def test_runs_that_need_other_runs(cli, staged, tmp_path):
    plan = cli("reproduce", "staged", "--dry-run", "--json")
    assert plan.json()["jobs"] == plan.json()["to_run"] == 3
    assert plan.json()["seconds"] is None
    assert plan.json()["unknown"] == [["mce-exact", GRID], ["ml-greedy", GRID]]
    assert not (tmp_path / "runs").exists()
    nothing = cli("reproduce", "staged", "--no-run")
    assert nothing.status == 1
    # The one that cannot work is missing, the others are there.
    output = cli("reproduce", "staged", "--json")
    assert output.status == 1
    assert output.json()["runs"] == 1
    (lost,) = output.json()["missing"]
    assert lost["label"] == "world: wrong"
    assert "beta" in lost["reason"]
    assert results_file.read("results/staged.json")["runs"][0]["label"] == "world: second"
    again = cli("reproduce", "staged", "--dry-run")
    assert "2 jobs, 1 finished, 1 to run" in again.stderr  # the first and the second are the same run


class BySeed(Staged):
    """Of each seed a first run, and one on what it made; "first" is also an experiment's own, as in `transfer`."""

    def first(self, seeds, quick=False):
        return [Job("mce-exact", GRID, MAP, seed=seed, label="world: first") for seed in seeds]

    def jobs(self, seeds, quick=False, finished=()):
        files = {task.job.seed: str(task.path / "demos.npz") for task in finished}
        second = Job("mce-exact", GRID, settings=self.budget, label="world: second")
        later = [replace(second, seed=100 + seed, demos=files.get(seed, "later")) for seed in seeds]
        return self.first(seeds, quick) + later


def test_only_what_is_needed_is_run_for_others(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = BySeed("for tests", {}, {}, **SPECIAL, budget={"beta": 0.5})
    monkeypatch.setitem(EXPERIMENTS, "by-seed", experiment)
    assert "2 jobs, 0 finished, 2 to run" in cli("reproduce", "by-seed", "--dry-run").stderr  # the first only once
    assert cli("reproduce", "by-seed", "--workers", 1).status == 0
    before = results_file.read("results/by-seed.json")["runs"]
    shutil.rmtree("runs")
    # Nothing is run for what is kept, and of a second seed only its own.
    assert "nothing to run" in cli("reproduce", "by-seed", "--keep", "--dry-run").stderr
    plan = cli("reproduce", "by-seed", "--keep", "--seeds", 2, "--dry-run").stderr
    assert "2 runs are taken over" in plan
    assert "2 jobs, 0 finished, 2 to run" in plan
    assert cli("reproduce", "by-seed", "--keep", "--seeds", 2, "--workers", 1).status == 0
    after = results_file.read("results/by-seed.json")["runs"]
    assert [run for run in after if run in before] == before
    assert sorted(run["seed"] for run in after) == [0, 1, 100, 101]
    assert {path.name.split("-")[-2] for path in Path("runs").glob("*-s*")} == {"s1", "s101"}
    # Other settings are another run, even where it has no name yet.
    shutil.rmtree("runs")
    monkeypatch.setitem(EXPERIMENTS, "by-seed", replace(experiment, budget={"beta": 0.25}))
    assert "1 runs are taken over" in cli("reproduce", "by-seed", "--keep", "--dry-run").stderr


def test_a_part_of_an_experiment_is_meant_by_its_name():
    """Labels, groups and rows first, which may have commas and be parts of others; then parts of labels."""
    names = ["Ant: ppo", "Ant: ppo, cloned", "BrokenAnt: ppo", "slip 0: mce", "slip 0.1: mce"]
    jobs = [Job("ppo", GRID, label=name) for name in names]
    for words, meant in (
        ([], names),
        (["Ant"], names[:2]),
        (["ppo, cloned"], names[1:2]),
        (["ppo"], [names[0], names[2]]),
        (["slip 0", "BrokenAnt"], [names[3], names[2]]),
        (["slip"], names[3:]),
        (["slip 0.1: mce"], names[4:]),
    ):
        assert runner.chosen_labels(jobs, words) == set(meant)
    with pytest.raises(UserError, match="'Walker'; the labels are Ant: ppo, "):
        runner.chosen_labels(jobs, ["ppo", "Walker"])


def test_what_a_part_needs_is_a_part_too(tmp_path):
    def needed(name, *words):
        before, _ = runner.plan(EXPERIMENTS[name], [0], False, str(tmp_path), words=words)
        return [task.job.label for task in before]

    assert needed("retraining", "Swimmer") == ["Swimmer: mce", "Swimmer: me-icrl"]
    assert needed("robots-noise", "noise 0.1") == ["noise 0.1: expert"]
    assert set(needed("transfer", "Point")) == set(needed("transfer"))  # costs of another robot
    assert needed("demos-violating", "Pendulum, 50 %") == needed("demos-violating")


def test_seeds_given_twice_are_one():
    assert runner.seeds_of("0,0,3", ()) == [0, 3]


def test_mixtures_are_of_all_who_violate(tmp_path, monkeypatch):
    tasks = [Task(job, tmp_path / f"run-{job.seed}") for job in EXPERIMENTS["demos-violating"].first([0])]
    pendulum = [task for task in tasks if task.job.label.startswith("Pendulum")]
    for task in pendulum:
        (task.path / "model").mkdir(parents=True)
        (task.path / "model" / "policy.safetensors").write_bytes(bytes([task.job.seed]))
    assert stages.by_robot(pendulum[:2], quick=False) == {}
    assert stages.by_robot(tasks[:1], quick=True) == {"Pendulum": tasks[:1]}

    def files(made):
        jobs = EXPERIMENTS["demos-violating"].jobs([0], finished=made)
        return {job.demos for job in jobs if job.label.startswith("Pendulum, 50")}

    assert files(pendulum[:2]) == {stages.MIXED_LATER}
    file = stages.mixed_file(pendulum, 0.5)
    assert files(pendulum) == {str(file)}
    (pendulum[0].path / "model" / "policy.safetensors").write_bytes(b"made again")
    assert stages.mixed_file(pendulum, 0.5) != file


def test_experts_in_the_noise_have_a_row(tmp_path):
    """All of their episodes, of which the demonstrations are the legal ones; trained once, with the first seed."""
    experiment = EXPERIMENTS["robots-noise"]
    experts = [(job.label, job.seed) for job in experiment.jobs([0, 1, 2]) if job.algo == "expert"]
    assert experts == [(f"{group}: expert", 0) for group in ("noise 0.1", "noise 0.01", "noise 0.001", "no noise")]
    numbers = {"return": 5.0, "terminated_return": 3.0, "violation_rate_step": {"value": 0.25}}
    run = SimpleNamespace(
        read=lambda name: {"table": {"stochastic": numbers, "deterministic": numbers}},
        path=tmp_path,
        metrics=list,
        config={},
    )
    found = records.collect(Job("expert", "tacit/HalfCheetah-v0"), run)
    assert found["stochastic"] == {"return": 5.0, "terminated_return": 3.0, "violation_rate_step": 0.25}


def test_violating_demonstrations_are_no_measure(tmp_path):
    """Returns of `demos-violating` are beside the clean demonstrations', whatever the mixture earns."""
    clean = float(np.mean(demos.load(demos.shipped("tacit/Swimmer-v0")).returns))
    run = record("Swimmer, 80 %: mce", 0, 0.5 * clean, expert=4 * clean)
    text = table_of("demos-violating", {"runs": [run]}).split("stochastic policy**")[1]
    line = next(line for line in text.splitlines() if line.startswith("| mce |"))
    assert line.split("|")[HEAD_OF_RATIO].strip() == "0.50"
    assert stages.CLEAN_NOTE in text
    # What `demos-count` has measured with all 50 is not run again.
    storage.write_json(tmp_path / "demos-count.json", {"schema": 1, "runs": [{**run, "run": "name"}]})
    kept = runner.earlier("demos-violating", EXPERIMENTS["demos-violating"], tmp_path)
    assert kept["name"]["label"] == "Swimmer, 80 %: mce"


HEAD_OF_RATIO = 2 + [column.title for column in tables.COMPARISON].index("over demonstrations")


def test_scores_are_of_seeds_that_all_groups_have():
    runs = [record("Ant: mce", seed, value) for seed, value in ((0, 100.0), (1, 0.0))]
    runs += [record("Walker: mce", seed, value) for seed, value in ((1, 50.0), (2, 70.0))]
    found = overall.values_of({"runs": runs}, ["Ant", "Walker"], "mce", overall.RATIO)
    np.testing.assert_allclose(found, [[0.0, 0.5]])
    assert overall.values_of({"runs": runs[:1] + runs[3:]}, ["Ant", "Walker"], "mce", overall.RATIO) is None


def test_labels_that_are_the_same_run_are_both_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = {"plain": Row("mce-exact"), "beta 0.1": Row("mce-exact", settings={"beta": 0.1})}
    twins = Experiment("for tests", {"world": Group(GRID, MAP)}, rows)
    _, tasks = runner.plan(twins, [0], False, "runs")
    assert [task.job.label for task in tasks] == ["world: plain", "world: beta 0.1"]
    assert tasks[0].path == tasks[1].path
    assert len(prepare(twins.jobs([0]), "runs")) == 1


def test_the_list_for_machines(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage.write_json("results/robots.json", {"schema": 99, "provenance": {}, "runs": []})
    found = {row["name"]: row for row in cli("reproduce", "--list", "--json").json()}
    assert set(found) == set(EXPERIMENTS)
    assert found["robots"]["results"] == "written by another version of Tacit"
    assert found["grid-maps"]["results"] == "not there"
    output = cli("reproduce", "robots", "--keep", "--dry-run")
    assert "results/robots.json is ignored: it was written by another version" in output.stderr
    for content, words in (
        ("{", "is not valid JSON"),
        ('{"schema": 1, "provenance": {}, "runs": [{}]}', "'seed' is missing"),
    ):
        Path("results/robots.json").write_text(content)
        text = {row["name"]: row for row in cli("reproduce", "--list", "--json").json()}["robots"]["results"]
        assert words in text
        assert "Error(" not in text
    assert cli("reproduce", "robots", "--redraw").status == 2


# -- for real ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_maps_of_a_few_steps(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    usual = EXPERIMENTS["grid-maps"]
    rows = {name: usual.rows[name] for name in ("mce", "mce-exact")}
    quick = {**usual.quick, "total_steps": 8192, "minibatches": 5}
    monkeypatch.setitem(EXPERIMENTS, "grid-maps", replace(usual, rows=rows, groups=slips((0.0,)), quick=quick))
    output = cli("reproduce", "grid-maps", "--quick", "--workers", 1)
    assert output.status == 0, output.stderr
    runs = results_file.read("results/grid-maps-quick.json")["runs"]
    assert [run["label"] for run in runs] == ["slip 0: mce", "slip 0: mce-exact"]
    for run in runs:
        assert len(run["maps"]["visits"]) == len(run["maps"]["cost"]) == len(run["cells"])
        assert run["maps"]["demonstrated"][run["cells"].index([6, 2])] >= 1.0  # the start
    assert (tmp_path / "results" / "grid-maps-quick.png").read_bytes()[:8] == PNG


@pytest.mark.slow
def test_a_frozen_cost_is_tested_on_a_fresh_agent(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    usual = EXPERIMENTS["retraining"]
    quick = {**usual.quick, "total_steps": 12_288, "eval_episodes": 2, "minibatches": 20}
    monkeypatch.setitem(EXPERIMENTS, "retraining", replace(usual, quick=quick))
    output = cli("reproduce", "retraining", "--quick", "--seeds", "0,", "--workers", 1)
    assert output.status == 0, output.stderr
    results = results_file.read("results/retraining-quick.json")
    assert results["missing"] == []
    labels = {run["label"] for run in results["runs"]}
    rows = {"mce", "mce, budget", "me-icrl", "me-icrl, budget", "ppo", "rcpo"}
    assert labels == {f"Pendulum: {row}" for row in rows}
    fresh = {run["label"]: run for run in results["runs"] if run["algo"] == "retrain"}
    assert {run["seed"] for run in fresh.values()} == {1000}
    assert fresh["Pendulum: mce"]["source"]["run"] == fresh["Pendulum: mce, budget"]["source"]["run"]
    kinds = {label: run["source"]["charge"]["kind"] for label, run in fresh.items()}
    assert kinds == {label: "budget" if "budget" in label else "excess" for label in fresh}


def test_our_experts_are_those_that_demonstrate():
    """The numbers beside MCE-ICRL's are those of the experts' table, of the seed that made the demonstrations."""
    experts = results_file.read(Path(__file__).parents[2] / "results" / "table-experts.json")["runs"]
    for robot, value in published.EXPERTS.items():
        seed = demos.load(demos.shipped(f"tacit/{robot}-v0")).card["expert"]["seed"]
        (found,) = [run for run in experts if run["label"] == robot and run["seed"] == seed]
        assert value == pytest.approx(found["stochastic"]["terminated_return"], rel=1e-3)


def test_fresh_agents_of_every_method_stand_beside_the_controls():
    """mce on all seeds and tasks, references on three seeds, other methods on few tasks."""
    fresh = EXPERIMENTS["fresh"]
    jobs = {(job.label, job.seed): job for job in fresh.jobs([0, 3])}
    assert {"Nav, disc", "SlowZone", "Reactor", "Swimmer"} <= set(fresh.groups)
    for row, charge in (("mce", "soft"), ("mce, set", "set"), ("vicrl, price", "price")):
        job = jobs[f"Reactor: {row}", 1000]
        assert (job.algo, job.settings["charge"]) == ("retrain", charge)
    assert [jobs[f"Reactor: {row}", 0].algo for row in ("rcpo", "ppo", "box")] == ["rcpo", "ppo", "box"]
    assert ("SlowZone: gacl", 1000) not in jobs  # one of the few tasks only
    assert {label for label, seed in jobs if seed in (3, 1003)} == {
        f"{group}: mce{ending}" for group in fresh.groups for ending in ("", ", set", ", price")
    }
    assert fresh.needed_by(["Reactor: mce, set", "Reactor: box, price", "Reactor: rcpo"]) == {
        "Reactor: mce",
        "Reactor: box",
    }
    # The default of mce, not the preset of the older tables.
    assert {job.preset for job in fresh.first([0]) if job.algo == "mce"} == {None}


def test_a_shift_learns_in_one_task_and_tests_in_another():
    shift = EXPERIMENTS["shift"]
    learned = {job.label: job for job in shift.first([0])}
    tested = {job.label: job for job in shift.jobs([0])}
    for group in shift.groups:
        source, target = learned[f"{group} (source): mce"], tested[f"{group}: mce"]
        assert (source.env, source.env_kwargs) != (target.env, target.env_kwargs)
        assert tested[f"{group}: rcpo"].env_kwargs == target.env_kwargs
        check_env(target.env, target.env_kwargs)
    assert "Ant to Point: bc" not in tested  # a clone cannot move another body
    assert learned["Ant to Point (source): mce"].settings["inputs"] == ["x_position", "y_position"]
    assert shift.needed_by(["Nav, other goals: bc"]) == {"Nav, other goals (source): mce"}


def test_returns_are_over_the_agent_with_the_true_cost():
    """(return - floor) / (rcpo's - floor): on Reactor the floor is what random actions earn, -54.8."""
    runs = [record("Reactor: mce", 1000, -37.4), record("Reactor: rcpo", 0, -20.0), record("Reactor: rcpo", 1, 0.0)]
    text = table_of("fresh", {"runs": [*runs, record("SlowZone: mce", 1000, 5.0)], "missing": []})
    first = text.split("**")[2]
    assert "/ 0.50 |" in first
    lines = [line for line in text.split("**SlowZone**")[1].splitlines() if line.startswith("| mce ")]
    assert " - |" in lines[0]  # nobody knows what the true cost's agent earns there
