"""Run folders: named from content, one writer at a time, resumable after any kind of death."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tacit.algorithms import find
from tacit.errors import UserError
from tacit.run import Run, run_name, storage, versions
from tacit.run.find import other_seeds

SETTINGS = {
    "algo": "toy",
    "env": "tacit/Gridworld-v0",
    "env_kwargs": {"slip": 0.1, "shape": (2, 3)},
    "seed": 0,
    "config": {"beta": 0.1, "budget": float("inf")},
    "demos": {"path": "a.npz", "sha256": "00"},
}


def start(root, **changes) -> Run:
    return Run.start(root, **{**SETTINGS, **changes})


def learn(run: Run, iterations: int = 12, every: int = 3, pause: float = 0.0) -> None:
    """A learner in small: a random walk whose state and generator are checkpointed."""
    with run:
        if run.done:
            return
        rng, position, first = np.random.default_rng(run.config["seed"]), np.zeros(3), 0
        checkpoint = run.latest_checkpoint()
        if checkpoint is not None:
            first, arrays, metadata = checkpoint
            position, rng.bit_generator.state = arrays["position"], metadata["rng"]
        for i in range(first + 1, iterations + 1):
            position = position + rng.normal(size=3)
            run.log({"iteration": i, "position": position})
            if i % 2 == 0:
                run.log_eval({"iteration": i})
            if i % every == 0:
                run.save_checkpoint(i, {"position": position}, {"rng": rng.bit_generator.state})
            time.sleep(pause)
        run.save_model("cost", {"weights": position}, {"inputs": ["row", "column"]})
        run.finish({"distance": float(np.linalg.norm(position))})


def results(run: Run) -> dict[str, bytes]:
    """Every file but the one that tells when and where."""
    files = (file for file in run.path.rglob("*") if file.is_file())
    return {
        str(file.relative_to(run.path)): file.read_bytes()
        for file in files
        if file.name not in ("provenance.json", "DONE")
    }


# -- names -------------------------------------------------------------------------------------------------------------


def test_name_is_readable_and_made_from_the_content(tmp_path):
    run = start(tmp_path)
    assert run.name.startswith("toy-gridworld-s0-")
    assert len(run.name.rsplit("-", 1)[1]) == 8
    assert start(tmp_path).path == run.path
    assert start(tmp_path, env_kwargs={"shape": [2, 3], "slip": 0.1}).path == run.path
    assert start(tmp_path, demos={"path": "elsewhere/b.npz", "sha256": "00"}).path == run.path
    changes = [
        {"seed": 1},
        {"algo": "other"},
        {"env": "tacit/Gridworld-v1"},
        {"env_kwargs": {"slip": 0.2}},
        {"config": {"beta": 0.1}},
        {"demos": {"path": "a.npz", "sha256": "01"}},
        {"demos": None},
    ]
    names = {start(tmp_path, **change).name for change in changes}
    assert len(names) == len(changes)
    assert run.name not in names


def test_name_does_not_change_between_versions():
    # A changed rule for names would make every finished run look new.
    settings = {
        "schema": 1,
        "algo": "a",
        "env": "ns/My_Env-v3",
        "env_kwargs": {},
        "seed": 7,
        "config": {},
        "demos": None,
    }
    text = '{"algo": "a", "config": {}, "demos": null, "env": "ns/My_Env-v3", "env_kwargs": {}, "schema": 1, "seed": 7}'
    assert run_name(settings) == f"a-my-env-s7-{storage.sha256_of_bytes(text.encode())[:8]}"


@pytest.mark.parametrize(
    ("algo", "config", "corrected"),
    [
        ("mce", {"start": "nominal", "critics": "separate"}, False),
        ("mce", {"start": "clone", "critics": "separate"}, True),
        ("mce", {"start": "nominal", "critics": "single"}, True),
        ("gacl", {"start": "clone"}, True),
        ("rcpo", {"critics": "single"}, False),
    ],
)
def test_runs_from_before_a_correction_are_not_taken_for_runs_of_today(algo, config, corrected):
    retired = {name: value for name, (value, _) in find(algo).history.retired.items()}
    settings = {**SETTINGS, "algo": algo, "config": retired | config}
    before = storage.to_json({**settings, "demos": "00"}, sort_keys=True)
    was = f"{algo}-gridworld-s0-{storage.sha256_of_bytes(before.encode())[:8]}"
    assert (run_name(settings, find(algo).history) != was) == corrected


# -- opening -----------------------------------------------------------------------------------------------------------


def test_config_and_provenance(tmp_path):
    run = Run.open(start(tmp_path, command="tacit learn toy").path)
    assert run.config["schema"] == 1
    assert run.config["config"] == {"beta": 0.1, "budget": float("inf")}
    assert run.config["env_kwargs"] == {"slip": 0.1, "shape": [2, 3]}
    provenance = run.read("provenance.json")
    assert provenance["command"] == "tacit learn toy"
    assert provenance["versions"]["numpy"] == np.__version__
    assert provenance["finished"] is None
    assert "no-such-package" not in versions(["no-such-package"])


def test_opening_what_is_not_a_run(tmp_path):
    with pytest.raises(UserError, match="no run folder"):
        Run.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="it is a file"):
        Run.open(tmp_path / "file")
    run = start(tmp_path)
    with pytest.raises(UserError, match=f"it contains the runs {run.name}"):
        Run.open(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"it has no config\.json$"):
        Run.open(tmp_path / "empty")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"config\.json is not valid JSON"),
        ('{"schema": 1, "algo"', r"config\.json is not valid JSON"),
        ("[]", "no schema number"),
        ("{}", "no schema number"),
        ('{"schema": 99}', "has schema 99 but this Tacit reads schema 1"),
        ('{"schema": 1, "algo": "toy", "seed": "0"}', "env, env_kwargs, seed, config missing"),
    ],
)
def test_opening_a_damaged_folder(tmp_path, text, message):
    run = start(tmp_path)
    (run.path / "config.json").write_text(text)
    with pytest.raises(UserError, match=message):
        Run.open(run.path)
    with pytest.raises(UserError, match=message):
        start(tmp_path)


def test_starting_where_the_configuration_was_edited(tmp_path):
    run = start(tmp_path)
    storage.write_json(run.path / "config.json", {**run.config, "config": {"beta": 0.5}})
    with pytest.raises(UserError, match="was changed after the run had started"):
        start(tmp_path)


def test_starting_over_a_folder_that_died_before_its_configuration(tmp_path):
    run = start(tmp_path)
    (run.path / "config.json").unlink()
    assert start(tmp_path).config == run.config


def test_starting_where_no_folder_can_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot make the run folder"):
        start(tmp_path / "file")


# -- logs, checkpoints, models -----------------------------------------------------------------------------------------


def test_the_two_newest_checkpoints_are_kept(tmp_path):
    run = start(tmp_path)
    assert run.latest_checkpoint() is None
    for step in (5, 99_999_999, 100_000_000):
        run.save_checkpoint(step, {"x": np.array([step])}, {"note": str(step)})
    assert len(list((run.path / "checkpoints").iterdir())) == 2
    step, arrays, metadata = run.latest_checkpoint()
    assert (step, arrays["x"].tolist(), metadata) == (100_000_000, [100_000_000], {"note": "100000000"})


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    run = start(tmp_path)
    for step in (1, 2):
        run.log({"iteration": step})
        run.save_checkpoint(step, {"x": np.array([step])})
    newest = run.path / "checkpoints" / "step-00000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-3])
    with pytest.warns(UserWarning, match="step-00000002"):
        assert run.latest_checkpoint()[0] == 1
    with pytest.warns(UserWarning, match="step-00000002"):
        run.__enter__()
    run.__exit__(None, None, None)
    assert run.metrics() == [{"iteration": 1}]
    assert not newest.exists(), "it would otherwise take the place of a good one"
    last = run.path / "checkpoints" / "step-00000001.safetensors"
    last.write_bytes(b"")
    for _ in range(2):  # the lock is given back, and nothing is removed
        with pytest.warns(UserWarning, match="step-00000001"), pytest.raises(UserError, match="every checkpoint in"):
            run.__enter__()
    assert run.metrics() == [{"iteration": 1}]
    last.unlink()
    with run:
        assert run.latest_checkpoint() is None
        assert run.metrics() == []


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    run, other = start(tmp_path), start(tmp_path, seed=1)
    other.save_checkpoint(3, {"x": np.array([3])})
    shutil.copytree(other.path / "checkpoints", run.path / "checkpoints")
    with pytest.raises(UserError, match=f"checkpoint of another run, {other.name}"), run:
        pass
    os.rename(other.path, tmp_path / "renamed")
    with Run.open(tmp_path / "renamed") as renamed:
        assert renamed.latest_checkpoint()[0] == 3


def test_models_carry_their_card(tmp_path):
    run = start(tmp_path)
    with pytest.raises(UserError, match=r"has no cost .*tacit resume"):
        run.load_model("cost")
    card = {"inputs": ["row", "column"], "budget": float("inf")}
    run.save_model("cost", {"w": np.arange(2.0)}, card)
    arrays, loaded = run.load_model("cost")
    assert loaded == run.read("model/cost.json") == card
    np.testing.assert_array_equal(arrays["w"], [0, 1])


def test_finishing(tmp_path):
    run = start(tmp_path)
    assert not run.done
    with run:
        run.finish({"return": -3.0})
    again = start(tmp_path)
    assert again.done
    assert again.read("summary.json") == {"return": -3.0}
    assert again.read("provenance.json")["finished"].endswith("+00:00")
    with again:
        again.log_eval({"kept": 1})
    with again:
        assert again.evals() == [{"kept": 1}], "the logs of a finished run are not cut back"


# -- death and resurrection --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Run:
    run = start(tmp_path_factory.mktemp("whole"))
    learn(run)
    return run


class Death(BaseException):
    pass


def writes_of_one_run(root: Path) -> int:
    calls = 0
    with pytest.MonkeyPatch.context() as patch:
        for name in ("append_jsonl", "atomic_write_bytes"):
            original = getattr(storage, name)

            def counted(path, data, original=original):
                nonlocal calls
                calls += 1
                original(path, data)

            patch.setattr(storage, name, counted)
        learn(start(root))
    return calls


def test_dying_at_any_write_and_resuming_gives_the_same_files(tmp_path, uninterrupted):
    total = writes_of_one_run(tmp_path / "count")
    assert total > 25
    for last in range(total):
        root = tmp_path / str(last)
        calls = 0

        with pytest.MonkeyPatch.context() as patch:
            append, write = storage.append_jsonl, storage.atomic_write_bytes

            def torn_append(path, record, last=last, append=append):
                nonlocal calls
                calls += 1
                if calls > last:
                    with open(path, "ab") as file:
                        file.write(json.dumps({"iteration": 1}).encode()[:-3])
                    raise Death
                append(path, record)

            def torn_write(path, data, last=last, write=write):
                nonlocal calls
                calls += 1
                if calls > last:
                    path.parent.mkdir(exist_ok=True, parents=True)
                    path.with_name(f".{path.name}.0123{storage.TMP_SUFFIX}").write_bytes(data[: len(data) // 2])
                    raise Death
                write(path, data)

            patch.setattr(storage, "append_jsonl", torn_append)
            patch.setattr(storage, "atomic_write_bytes", torn_write)
            try:
                learn(start(root))
            except Death:
                pass
            else:
                pytest.fail("it should have died")
        run = start(root)
        learn(run)
        assert run.done
        assert results(run) == results(uninterrupted)


VICTIM = """
import sys
sys.path.insert(0, sys.argv[1])
from test_run import learn, start
run = start(sys.argv[2])
print("started", flush=True)
learn(run, pause=0.02)
"""


def test_killed_at_random_moments_it_ends_with_the_same_files(tmp_path, uninterrupted):
    rng = np.random.default_rng(0)
    deaths = 0
    for _ in range(6):
        command = [sys.executable, "-c", VICTIM, str(Path(__file__).parent), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "started\n"
            time.sleep(rng.uniform(0, 0.15))
            victim.kill()
        deaths += victim.returncode == -signal.SIGKILL
        (folder,) = tmp_path.iterdir()
        Run.open(folder).metrics()
    assert deaths > 1
    run = start(tmp_path)
    learn(run)
    assert run.done
    assert results(run) == results(uninterrupted)


def test_beginning_again_from_nothing_is_a_beginning(tmp_path):
    """Killed before its first checkpoint, and run a day later by other code: that is what was done, and when."""
    run = start(tmp_path)
    old = {"commit": "0" * 40, "started": "2020-01-01T00:00:00+00:00"}
    run.write("provenance.json", {**run.read("provenance.json"), **old})
    with run:
        run.log({"iteration": 1})
    made = run.read("provenance.json")
    assert made["commit"] != old["commit"]
    assert made["started"] > "2026"
    assert made["command"] == start(tmp_path).read("provenance.json")["command"]
    assert "resumed" not in made


def test_resuming_is_recorded(tmp_path, uninterrupted):
    run = start(tmp_path)
    with run:
        run.log({"iteration": 1})
        run.save_checkpoint(1, {"x": np.zeros(1)})
    with run:
        pass
    assert [entry["step"] for entry in run.read("provenance.json")["resumed"]] == [1]
    (run.path / "provenance.json").write_text("{")
    with pytest.warns(UserWarning, match="provenance"), run:
        assert run.metrics() == [{"iteration": 1}]


# -- the lock ----------------------------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from tacit.run import Run
with Run.open(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_dead(tmp_path):
    run = start(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(run.path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(UserError, match=f"in use by process {holder.pid} on "):
            run.__enter__()
        # Looking is allowed.
        assert Run.open(run.path).metrics() == []
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert (run.path / ".lock").exists(), "killed: it could not tidy up"
    with run:
        run.log({"x": 1})
    assert not (run.path / ".lock").exists()


def test_the_same_process_cannot_enter_twice(tmp_path):
    run, again = start(tmp_path), start(tmp_path)
    with run, pytest.raises(UserError, match=f"process {os.getpid()} "):
        again.__enter__()
    with again:
        pass


def test_a_folder_may_move(tmp_path, uninterrupted):
    moved = Path(shutil.copytree(uninterrupted.path, tmp_path / "elsewhere"))
    assert Run.open(moved).read("summary.json") == uninterrupted.read("summary.json")


def test_runs_with_other_seeds_are_found(tmp_path):
    """Finished ones with the same settings, and no damaged folder."""

    def made(seed, finished=True, **settings):
        run = Run.start(tmp_path, algo="bc", env="x", env_kwargs={}, seed=seed, config=settings)
        if finished:
            with run:
                run.write("summary.json", {"steps": seed})
                run.finish({"steps": seed})
        return run

    mine = made(0)
    made(1)
    made(2, finished=False)
    made(3, lr=0.1)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text("{", "utf-8")
    assert [one["steps"] for one in other_seeds(mine)] == [1]
