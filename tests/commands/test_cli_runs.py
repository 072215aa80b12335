"""The command line on real runs of the exact method: demo, learn, eval, certify, report."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.demos import Demonstrations
from tacit.evaluate import episodes_of
from tacit.run import Run, storage
from test_cli import is_error

GRID = "tacit/Gridworld-v0"
# A map of our own, so that these tests do not depend on what the built-in ones look like.
MAP = """\
moves: 4

.......
.......
...X...
.S.X.G.
...X...
"""
LEARN = ("learn", "mce-exact", GRID, "--layout", "map.txt")


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_map(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.txt").write_text(MAP)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> dict[str, Path]:
    """One finished run folder for each objective; "moments" has no solution with this budget."""
    root = tmp_path_factory.mktemp("runs")
    folders = {}
    (root / "map.txt").write_text(MAP)
    for objective, status in (("likelihood", 0), ("plugin", 0), ("moments", 1)):
        args = [*LEARN[:-1], str(root / "map.txt"), "--objective", objective, "--out", str(root / objective)]
        assert main(args) == status
        (folders[objective],) = (root / objective).iterdir()
    return folders


@pytest.fixture
def copy_of(finished, tmp_path):
    """A private copy of one of them."""
    return lambda objective: Path(shutil.copytree(finished[objective], tmp_path / "runs" / finished[objective].name))


# -- demo --------------------------------------------------------------------------------------------------------------


def test_demo(cli):
    started = time.monotonic()
    output = cli("demo")
    assert time.monotonic() - started < 60
    assert output.status == 0
    assert all(character in output.stdout.split("The learner")[1] for character in "SGX")
    for word in ("expert", "without constraint", "learned constraint", "AUROC", "IoU", "certificate"):
        assert word in output.stdout
    report = Path(output.stdout.split()[-1])
    assert report.name == "report.html"
    assert report.stat().st_size > 10_000
    told = cli("demo", "--json").json()
    assert Path(told["report"]) == report
    table = told["summary"]["table"]
    assert table["unconstrained"]["violation_rate_step"] > 0.1
    assert table["learned"]["violation_rate_step"] < 0.02
    assert abs(table["learned"]["return"] - table["expert"]["return"]) < 1.0


def test_demo_on_another_map_without_slip(cli):
    output = cli("demo", "--layout", "wall-1", "--slip", 0, "--seed", 1)
    assert output.status == 0
    assert "The expert never breaks the constraint in these demonstrations." in output.stdout


def test_demo_on_a_map_that_forbids_nothing(cli, tmp_path):
    (tmp_path / "free.txt").write_text("S..G\n....\n")
    output = cli("demo", "--layout", tmp_path / "free.txt")
    assert output.status == 0, output.stderr
    assert "nothing is forbidden, so there is nothing to learn" in output.stdout


def test_demo_mistakes(cli, tmp_path):
    assert is_error(cli("demo", "--layout", "no-such-map"), "neither a built-in layout nor a map file")
    assert is_error(cli("demo", "--slip", -1), "probability")
    assert not (tmp_path / "runs").exists()


# -- learn -------------------------------------------------------------------------------------------------------------


def test_a_run_folder_holds_what_was_promised(finished):
    run = Run.open(finished["plugin"])
    assert run.done
    policy, card = run.load_model("policy")
    assert card["feature_names"] == ["row", "column"]
    np.testing.assert_allclose(policy["policy"].sum(axis=1), 1.0)
    cost, _ = run.load_model("cost")
    assert (cost["weights"] >= 0).all()
    np.testing.assert_allclose(cost["cost"], np.repeat(cost["weights"][:, None], 4, axis=1))
    assert [record["iteration"] for record in run.metrics()] == list(range(len(run.metrics())))
    assert run.metrics()[-1]["kkt"] < 1e-8
    figures, metadata = storage.load_arrays(run.path / "figures.safetensors")
    assert metadata["layout"].count("X") == figures["true_constraint"].sum() == 3
    assert figures["learned_visits"].shape == figures["cost_state_beta001"].shape == figures["unknown"].shape == (35,)
    assert len(run.demonstrations()) == 50


def test_no_solution_is_said_in_words_and_stays_so(cli, copy_of):
    folder = copy_of("moments")
    summary = Run.open(folder).read("summary.json")
    assert summary["diagnosis"]["features"][0]["name"].startswith("cell (")
    assert summary["diagnosis"]["budgets"]
    again = cli(*LEARN, "--objective", "moments")
    assert "finished already" in again.stderr
    assert is_error(again, "No policy can satisfy", "To blame: cell (", status=1)
    output = cli(*LEARN, "--objective", "moments", "--json")
    assert output.status == 1
    assert output.json()["summary"]["status"] == "infeasible"
    # The smallest budget that it proposes has a solution.
    budget = summary["diagnosis"]["budgets"][0]["budget"] * 1.001
    assert cli(*LEARN, "--objective", "moments", "--budget", budget).status == 0


def test_learn_from_a_table_of_ones_own(cli, tmp_path):
    (tmp_path / "my.txt").write_text(".....\nS.X.G\n.....\n")
    cli("demos", "make", "--layout", "my.txt", "--slip", 0.1, "--n", 20, "-o", "a.npz")
    cli("demos", "convert", "a.npz", "logs.csv")
    cli("demos", "convert", "logs.csv", "own.npz", "--env", GRID, "--layout", "my.txt")
    output = cli("learn", "mce-exact", GRID, "--layout", "my.txt", "--demos", "own.npz", "--json")
    assert output.status == 0, output.stderr
    expert = output.json()["summary"]["table"]["expert"]
    assert expert["return"]["low"] < expert["return"]["value"] < expert["return"]["high"]
    assert expert["return"]["n"] == 20
    assert "8 of 20 trajectories look unlike the others: too many" in output.stderr  # they go round the other way


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--beta", 0], "beta must be a positive number"),
        (["--beta", -1], "beta must be a positive number"),
        (["--beta", "nan"], "beta must be a positive number"),
        (["--budget", -0.1], "budget must be >= 0"),
        (["--budget", "inf"], "finite"),
        (["--l1", -1], "l1 must be >= 0"),
        (["--env", "discount=1.0"], "discount must be in (0, 1)"),
    ],
)
def test_bad_settings(cli, tmp_path, options, words):
    assert is_error(cli(*LEARN, *options), words)
    assert not (tmp_path / "runs").exists()  # nothing is left behind


def test_an_environment_without_a_model(cli):
    cli("demos", "make", "-o", "a.npz", "--n", 2)
    cli("demos", "convert", "a.npz", "b.csv")
    cli("demos", "convert", "b.csv", "c.npz")
    assert is_error(cli("learn", "mce-exact", "FrozenLake-v1", "--demos", "c.npz"), "do not fit")


def test_killed_and_resumed_it_has_the_same_results(cli, finished, tmp_path):
    command = [sys.executable, "-m", "tacit", *LEARN, "--objective", "plugin"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as victim:
        while victim.poll() is None and not list(tmp_path.glob("runs/*/metrics.jsonl")):
            time.sleep(0.001)
        victim.kill()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == finished["plugin"].name
    assert cli("resume", folder.name).status == 0
    for file in ("certificate.json", "summary.json", "figures.safetensors", "model/cost.safetensors", "demos.npz"):
        assert (folder / file).read_bytes() == (finished["plugin"] / file).read_bytes(), file


# -- certify -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["likelihood", "plugin", "moments"])
def test_certificates_hold(cli, copy_of, objective):
    folder = copy_of(objective)
    output = cli("certify", folder.name, "--json")
    assert output.status == 0, output.stderr
    assert output.json()["agrees"]
    assert output.json()["stored"]["objective"] == objective
    assert cli("certify", folder).stdout


@pytest.mark.parametrize("objective", ["likelihood", "plugin"])
def test_a_changed_weight_is_noticed(cli, copy_of, objective):
    run = Run.open(copy_of(objective))
    arrays, card = run.load_model("cost")
    arrays["weights"][arrays["weights"].argmax()] *= 1.01
    run.save_model("cost", arrays, card)
    output = cli("certify", run.path)
    assert output.status == 1
    assert "does not hold" in output.stderr
    assert cli("certify", run.path, "--json").json()["agrees"] is False


def test_a_changed_policy_or_certificate_is_noticed(cli, copy_of):
    run = Run.open(copy_of("plugin"))
    arrays, card = run.load_model("policy")
    run.save_model("policy", {**arrays, "policy": np.full_like(arrays["policy"], 0.25)}, card)
    output = cli("certify", run.path)
    assert output.status == 1
    assert "policy (it loses" in output.stderr
    run.save_model("policy", arrays, card)
    assert cli("certify", run.path).status == 0
    for change in ({"gap": 1.0}, {"status": "infeasible"}, {"backward_error": "small"}, {"dual_value": None}):
        stored = run.read("certificate.json")
        run.write("certificate.json", {**stored, **change})
        assert cli("certify", run.path).status == 1
        run.write("certificate.json", stored)


def test_a_false_proof_is_noticed(cli, copy_of):
    run = Run.open(copy_of("moments"))
    arrays, card = run.load_model("proof")
    run.save_model("proof", {"farkas": np.roll(arrays["farkas"], 1)}, card)
    assert is_error(cli("certify", run.path), "does not prove", status=1)


def test_certify_mistakes(cli, copy_of):
    run = Run.open(copy_of("plugin"))
    assert is_error(cli("certify", "nothing"), "no run folder")
    arrays, card = run.load_model("cost")
    for weights in (arrays["weights"][:-1], -arrays["weights"], arrays["weights"] * np.nan):
        run.save_model("cost", {**arrays, "weights": weights}, card)
        assert is_error(cli("certify", run.path), "weights >= 0")
    run.save_model("cost", arrays, card)
    file = run.path / "model" / "cost.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    assert is_error(cli("certify", run.path), "cost.safetensors")
    file.unlink()
    assert is_error(cli("certify", run.path), "has no cost")
    (run.path / "certificate.json").write_text("[")
    assert is_error(cli("certify", run.path), "certificate.json")
    (run.path / "DONE").unlink()
    assert is_error(cli("certify", run.path), "not finished")
    storage.write_json(run.path / "config.json", {**run.config, "algo": "other"})
    assert is_error(cli("certify", run.path), "only exact solutions")


# -- eval --------------------------------------------------------------------------------------------------------------


def test_eval_samples_agree_with_the_exact_numbers(cli, copy_of):
    folder = copy_of("likelihood")
    told = cli("eval", folder, "--episodes", 2000, "--json").json()
    sampled, exact = told["sampled"], told["table"]["learned"]
    for key in ("return", "discounted_return", "length"):
        assert abs(sampled[key]["value"] - exact[key]) < 4 * sampled[key]["se"]
    assert sampled["violation_rate_episode"]["low"] < exact["violation_rate_episode"]
    assert sampled["violation_rate_episode"]["high"] > exact["violation_rate_episode"]
    run = Run.open(folder)
    summary = run.read("summary.json")
    for agent, row in summary["table"].items():
        assert told["table"][agent] == pytest.approx(row)
    assert told["cost_quality"] == summary["cost_quality"]
    assert [record["episodes"] for record in run.evals()] == [2000]
    assert cli("eval", folder, "--episodes", 2000, "--json").json() == told
    assert "95 % from" in cli("eval", folder, "--episodes", 10, "--seed", 1).stdout


def test_words_and_numbers_stay_whole_in_a_narrow_terminal(cli, copy_of, monkeypatch):
    path = copy_of("likelihood")
    for columns in (60, 80, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = cli("eval", path, "--episodes", 20).stdout.splitlines()
        assert max(map(len, lines[:30])) <= columns
        words = {word for line in lines for word in line.replace(" %", "_%").split()}
        assert {"before", "violating", "episodes", "occupancy", "0_%"} <= words
        assert "%" not in words


def test_eval_of_a_policy_that_always_violates(cli, copy_of):
    run = Run.open(copy_of("likelihood"))
    arrays, card = run.load_model("policy")
    # Straight to the right: from the start through the wall to the goal.
    arrays["policy"][:] = [1.0, 0.0, 0.0, 0.0]
    run.save_model("policy", arrays, card)
    config = json.loads((run.path / "config.json").read_text())
    config["env_kwargs"]["slip"] = 0.0
    storage.write_json(run.path / "config.json", config)
    told = cli("eval", run.path, "--episodes", 5, "--json").json()["sampled"]
    assert told["return"]["value"] == -2.0
    assert told["violation_rate_episode"]["value"] == 1.0
    assert told["violation_rate_step"]["value"] == pytest.approx(1 / 4)


def test_eval_mistakes(cli, copy_of):
    run = Run.open(copy_of("likelihood"))
    assert is_error(cli("eval", "nothing"), "no run folder")
    assert is_error(cli("eval", run.path, "--episodes", 0), "at least 1")
    arrays, card = run.load_model("policy")
    run.save_model("policy", {"policy": arrays["policy"][:5]}, card)
    assert is_error(cli("eval", run.path), "does not fit its environment")
    assert is_error(cli("eval", copy_of("moments")), "proved that no policy fits")


def test_demonstrations_as_episodes():
    demos = Demonstrations(
        observations=np.zeros((7, 2)),
        actions=np.zeros(5, dtype=int),
        rewards=np.array([1.0, 2.0, 4.0, 8.0, 16.0]),
        costs=np.array([0.0, 1.0, 0.0, 0.0, 0.0]),
        lengths=np.array([3, 2]),
        terminated=np.array([True, False]),
    )
    episodes = episodes_of(demos, 0.5)
    assert episodes.returns.tolist() == [7.0, 24.0]
    assert episodes.discounted_returns.tolist() == [1 + 1 + 1, 8 + 8]
    assert episodes.terminated_returns.tolist() == [1.0, 24.0]
    assert episodes.violation_steps.tolist() == [1, 0]


# -- report ------------------------------------------------------------------------------------------------------------


def test_report_of_one_and_of_several_runs(cli, copy_of, finished, tmp_path):
    folder = copy_of("likelihood")
    output = cli("report", folder)
    assert output.stdout.strip() == str(folder / "report.html")
    assert cli("report", folder.name, "-o", "x/page.html", "--json").json()["report"] == "x/page.html"
    assert (tmp_path / "x" / "page.html").exists()
    assert cli("report", *finished.values()).stdout.strip() == "report.html"
    # runs/* also finds what a sweep leaves there.
    (tmp_path / "logs").mkdir()
    (tmp_path / "table.json").write_text("{}")
    output = cli("report", "logs", "table.json", *finished.values())
    assert output.status == 0, output.stderr
    assert "left out, because they are not run folders: logs, table.json" in output.stderr
    assert is_error(cli("report", "logs", "table.json"), "none of these is a run folder")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_report_mistakes(cli, copy_of, tmp_path):
    assert is_error(cli("report"), "name at least one run folder")
    assert is_error(cli("report", "nothing"), "no run folder")
    folder = copy_of("likelihood")
    assert is_error(cli("report", folder, "-o", tmp_path), "is a folder")
    (folder / "config.json").write_text("{")
    assert is_error(cli("report", folder), "config.json")
    assert not (folder / "report.html").exists()
