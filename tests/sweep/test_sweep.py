"""Sweeps: workers that die, folders that others use, and the command."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import launch
from tacit.errors import RunFailed, listed
from tacit.reproduce.results import records_in
from tacit.run import Run, RunInUse, in_use, storage
from tacit.sweep import Job, LocalCrew, Task, prepare, run_jobs, run_tasks
from tacit.sweep import runner as sweep_runner
from tacit.sweep import time as sweep_time
from tacit.sweep import worker as sweep_worker
from tacit.sweep.file import read
from tacit.sweep.time import Pace, Rate
from tacit.sweep.worker import BUSY, CRASHED, DONE, FAILED, WRONG, work

GRID = "tacit/Gridworld-v0"
MAP = "S.G\n.X.\n...\n"
SMALL = {"layout": MAP, "slip": 0.0}
FILE = f"""
algo = "mce-exact"
env = "{GRID}"
seeds = 2

[env_kwargs]
layout = '''
{MAP}'''
slip = 0.0
"""
ENDLESS = {"method": "gradient", "max_iterations": 10**9, "tolerance": 1e-300, "step_size": 1e-9}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(FILE)


def grid_job(seed: int = 0, **settings) -> Job:
    return Job("mce-exact", GRID, env_kwargs=SMALL, seed=seed, settings=settings, label="small")


# -- the command ------------------------------------------------------------------------------------------------------


def test_workers_share_what_is_compiled_in_the_users_cache(tmp_path, monkeypatch):
    """Never beside the runs, which are passed on; and what the user has set stays."""
    from tacit.run.machine import compiled_cache

    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = compiled_cache()
    assert Path(found["JAX_COMPILATION_CACHE_DIR"]).parent == tmp_path / "tacit"
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *args, env, **kwargs: started.append(env))
    with pytest.raises(AttributeError), LocalCrew(1) as crew:
        crew.start(Task(Job("mce-exact", "tacit/Gridworld-v0"), tmp_path / "runs" / "x"))
    assert started[0]["JAX_COMPILATION_CACHE_DIR"] == found["JAX_COMPILATION_CACHE_DIR"]
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    assert "JAX_COMPILATION_CACHE_DIR" not in compiled_cache()


def test_run_skip_and_compare_with_learn(cli, tmp_path):
    plan = cli("sweep", "small.toml", "--dry-run")
    assert plan.status == 0
    assert "2 jobs, 0 finished, 2 to run" in plan.stdout
    assert "unknown" in plan.stdout
    assert not (tmp_path / "runs").exists()
    output = cli("sweep", "small.toml", "--workers", 2)
    assert output.status == 0, output.stderr
    assert "stationary" in output.stdout
    found = storage.read_json("runs/small.json")
    assert [(job["seed"], job["status"], job["attempts"]) for job in found["jobs"]] == [(0, "done", 1), (1, "done", 1)]
    assert found["provenance"]["command"] == "tacit sweep small.toml --workers 2"
    # `tacit learn` with the same settings makes the same run: it is finished already.
    again = cli("learn", "mce-exact", GRID, "--layout", MAP, "--slip", 0.0, "--seed", 1, "--json")
    assert "finished already" in again.stderr
    assert again.json()["run"] == f"runs/{found['jobs'][1]['run']}"
    run = Run.open(tmp_path / again.json()["run"])
    assert {run.read("provenance.json")["threads"][name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")} == {"1"}
    assert found["jobs"][1]["summary"] == run.read("summary.json")
    # Nothing is done twice.
    stamp = (run.path / "DONE").stat().st_mtime_ns
    more = cli("sweep", "small.toml", "--json")
    assert more.status == 0
    assert [job["attempts"] for job in more.json()["jobs"]] == [0, 0]
    assert "nothing to run" in more.stderr
    assert (run.path / "DONE").stat().st_mtime_ns == stamp
    # A third seed: what it will take is known now.
    (tmp_path / "three.toml").write_text(FILE.replace("seeds = 2", "seeds = [0, 2]"))
    plan = cli("sweep", "three.toml", "--dry-run", "--json").json()
    assert [job["state"] for job in plan["jobs"]] == ["finished", "new"]
    assert 0 <= plan["jobs"][1]["seconds"] < 600
    assert "unknown" not in plan["plan"]


def test_a_damaged_finished_run_is_named(cli):
    (task,) = prepare([grid_job()], "runs")
    summary, demos = launch.start_run("mce-exact", GRID, env_kwargs=SMALL, out="runs")
    launch.execute(summary, demos)
    (task.path / "summary.json").write_text("{")
    Path("one.toml").write_text(FILE.replace("seeds = 2", "seeds = 1"))
    output = cli("sweep", "one.toml")
    assert output.status == 1
    assert "damaged" in output.stdout
    assert "summary.json is not valid JSON" in output.stderr
    assert "Traceback" not in output.stderr
    # A run folder of another version is no success, either.
    (task.path / "summary.json").write_text("{}")
    storage.write_json(task.path / "config.json", {**storage.read_json(task.path / "config.json"), "schema": 77})
    output = cli("sweep", "one.toml")
    assert output.status == 1
    assert "1 of 1 jobs did not finish" in output.stderr
    assert "77" in output.stderr


def test_bad_use(cli, tmp_path):
    (tmp_path / "unknown.toml").write_text(FILE + "\n[settings]\nbetta = 1.0\n")
    for words, message in (
        (("nowhere.toml",), "does not exist"),
        (("small.toml", "--workers", 0), "at least 1"),
        (("small.toml", "--retries", -1), "at least 0"),
        (("small.toml", "--ray", "127.0.0.1:9"), "Ray"),
        (("unknown.toml",), "unknown.toml: "),
        ((), "required"),
    ):
        output = cli("sweep", *words)
        assert output.status == 2, words
        assert message in output.stderr.lower() or message in output.stderr
        assert "Traceback" not in output.stderr
    assert not (tmp_path / "runs").exists()


# -- workers that die -------------------------------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle(tmp_path):
    """It is started again and goes on from its checkpoint. (That this changes no bit is tested with the expert.)"""
    settings = {"total_steps": 6144, "n_envs": 8, "eval_episodes": 2, "demonstrations": 0, "checkpoint_every": 1}
    job = Job("expert", "tacit/Pendulum-v0", settings=settings | {"epochs": 2}, label="pendulum")
    killed: list[int] = []

    def kill_once() -> None:
        while not killed:
            for log in (tmp_path / "runs").glob("*/metrics.jsonl"):
                lock = log.parent / ".lock"
                owner = re.match(r"process (\d+)", lock.read_text()) if lock.exists() else None
                if owner and any((log.parent / "checkpoints").glob("step-00000002*")):
                    killed.append(int(owner[1]))
                    os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.005)

    threading.Thread(target=kill_once, daemon=True).start()
    said: list[str] = []
    (task,) = run_jobs([job], "runs", workers=1, report=said.append)
    assert killed
    assert (task.status, task.attempts) == ("done", 2), said
    assert any("SIGKILL" in line and "trying again" in line for line in said)
    assert [record["steps"] for record in Run.open(task.path).metrics()] == [2048, 4096, 6144]
    assert Run.open(task.path).read("provenance.json")["resumed"][0]["step"] >= 2


def test_a_worker_that_always_dies_is_given_up(cli, monkeypatch):
    start = LocalCrew.start

    def start_and_kill(self, task):
        process = start(self, task)
        process.kill()
        return process

    monkeypatch.setattr(LocalCrew, "start", start_and_kill)
    said: list[str] = []
    (task,) = run_jobs([grid_job()], "runs", retries=2, report=said.append)
    assert (task.status, task.attempts) == ("failed", 3)
    assert "SIGKILL" in task.message
    assert sum("trying again" in line for line in said) == 2
    output = cli("sweep", "small.toml", "--retries", 0)
    assert output.status == 1
    assert "2 of 2 jobs did not finish" in output.stderr
    assert [job["status"] for job in storage.read_json("runs/small.json")["jobs"]] == ["failed", "failed"]


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_sweep(tmp_path, how):
    lines = "\n".join(f"{key} = {value!r}" for key, value in ENDLESS.items()).replace("'", '"')
    (tmp_path / "endless.toml").write_text(FILE.replace("[env_kwargs]", f"[settings]\n{lines}\n[env_kwargs]"))
    command = [sys.executable, "-m", "tacit", "sweep", "endless.toml", "--workers", "2"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    folders = [task.path for task in prepare(read("endless.toml"), "runs")]
    try:
        wait_until(lambda: all((path / "metrics.jsonl").exists() and in_use(path) for path in folders))
        parent.send_signal(how)
        _, errors = parent.communicate(timeout=30)
    finally:
        parent.kill()
    assert parent.returncode == (130 if how == signal.SIGINT else -9)
    if how == signal.SIGINT:
        assert "the same command continues from here" in errors
        assert "Traceback" not in errors
        assert [job["status"] for job in storage.read_json("runs/endless.json")["jobs"]] == ["open", "open"]
    wait_until(lambda: not any(in_use(path) for path in folders))


# -- others in the same folder ----------------------------------------------------------------------------------------


def test_a_run_that_somebody_else_is_writing_is_waited_for(monkeypatch):
    monkeypatch.setattr(sweep_runner, "PATIENCE", 0.1)
    run, demos = launch.start_run("mce-exact", GRID, env_kwargs=SMALL, out="runs")
    said: list[str] = []
    with run:

        def report(line: str) -> None:
            said.append(line)
            if "waiting" in line and run._lock is not None:
                run.__exit__(None, None, None)
                launch.execute(run, demos)  # the other one finishes it

        tasks = run_jobs([grid_job(0), grid_job(1)], "runs", workers=1, report=report)
    assert [(task.status, task.attempts) for task in tasks] == [("done", 0), ("done", 1)]
    assert sum("waiting" in line and "in use by process" in line for line in said) == 1


def test_two_sweeps_at_once():
    """Both end with everything done, nothing had to be tried again, and no run was written by two."""
    command = [sys.executable, "-m", "tacit", "sweep", "small.toml", "--workers", "2", "--retries", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    sweeps = [subprocess.Popen(command, **pipes) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in sweeps]
    assert [process.returncode for process in sweeps] == [0, 0], outputs
    for task in prepare(read("small.toml"), "runs"):
        assert task.done
        iterations = [record["iteration"] for record in Run.open(task.path).metrics()]
        assert iterations == sorted(set(iterations))


def test_two_that_start_the_same_runs(tmp_path):
    """Threads, whose locks exclude each other as those of processes do: each file that is opened has its own."""
    barrier, failures = threading.Barrier(2), []

    def start_many() -> None:
        for seed in range(60):
            barrier.wait()
            try:
                with Run.start(tmp_path / "many", algo="mce-exact", env=GRID, env_kwargs={}, seed=seed, config={}):
                    pass
            except RunInUse:
                pass
            except Exception as error:
                failures.append(repr(error))

    pair = [threading.Thread(target=start_many) for _ in range(2)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join(60)
    assert failures == []
    runs = list((tmp_path / "many").iterdir())
    assert len(runs) == 60
    for folder in runs:
        assert Run.open(folder).read("provenance.json")["started"]
        assert not list(folder.glob(".*tmp"))


def test_a_folder_that_cannot_be_locked_stops_nobody_else():
    tasks = prepare([grid_job(0), grid_job(1)], "runs")
    (tasks[0].path / ".lock").mkdir(parents=True)  # cannot be opened as a file, whoever asks
    run_tasks(tasks, workers=1)
    assert [task.status for task in tasks] == ["failed", "done"]
    assert "is a folder, not a regular file" in tasks[0].message


def test_what_a_worker_says_is_its_own(tmp_path):
    log = tmp_path / "run.log"
    log.write_text("[worker 7] is in use\n14 kkt 0.0\n[worker 8] wrong settings\n")
    assert sweep_runner._last_words(7, 75, log, 0) == "is in use"
    assert sweep_runner._last_words(8, 2, log, 0) == "wrong settings"
    assert sweep_runner._last_words(9, 1, log, 0) == "[worker 8] wrong settings"


def test_a_run_from_before_a_setting_existed_counts(tmp_path):
    run, demos = launch.start_run("mce-exact", GRID, env_kwargs=SMALL, out="runs")
    launch.execute(run, demos)
    config = run.read("config.json")
    del config["config"]["pseudo_count"]
    run.write("config.json", config)
    older = run.path.rename(tmp_path / "runs" / f"{run.name[:-8]}01234567")
    tasks = prepare([grid_job(), grid_job(pseudo_count=0.2), grid_job(1)], "runs")
    assert [task.path == older for task in tasks] == [True, False, False]
    assert [task.status for task in tasks] == ["done", "open", "open"]
    found, _ = launch.start_run("mce-exact", GRID, env_kwargs=SMALL, out="runs")
    assert found.path.samefile(older)


# -- how it went ------------------------------------------------------------------------------------------------------


def test_what_a_worker_answers(monkeypatch):
    job = grid_job()
    assert work("mce-exakt", GRID, "runs", job.wanted)[0] == WRONG
    assert work(job.algo, job.env, "runs", job.wanted) == (DONE, "")
    run, _ = launch.start_run(job.algo, job.env, **job.wanted | {"seed": 7}, out="runs")
    with run:
        assert work(job.algo, job.env, "runs", job.wanted | {"seed": 7})[0] == BUSY
    for error, status in ((RunFailed("no"), FAILED), (ZeroDivisionError("no"), CRASHED)):
        monkeypatch.setattr(sweep_worker, "execute", lambda run, demos, error=error: (_ for _ in ()).throw(error))
        assert work(job.algo, job.env, "runs", job.wanted)[0] == status


class Scripted:
    """A crew that answers what it is told to, and finishes the run when the answer is DONE."""

    def __init__(self, answers, size):
        self.answers, self.size, self.most, self.now = answers, size, 0, set()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def start(self, task):
        self.now.add(task.job.seed)
        self.most = max(self.most, len(self.now))
        status = self.answers[task.job.seed].pop(0)
        if status == DONE:
            task.path.mkdir(parents=True)
            (task.path / "DONE").touch()
        return task.job.seed, status

    def ended(self, handles):
        for handle in handles[:1]:
            self.now.discard(handle[0])
            yield handle, (handle[1], f"status {handle[1]}")


@given(
    answers=st.lists(st.lists(st.sampled_from([DONE, FAILED, WRONG, CRASHED, BUSY, -9]), max_size=4), max_size=6),
    size=st.integers(1, 3),
    retries=st.integers(0, 2),
)
def test_any_sequence_of_answers(tmp_path_factory, answers, size, retries):
    """Compared with the rule said again: busy ones do not count, crashes are tried again, the rest is final."""
    root = tmp_path_factory.mktemp("scripted")
    script = [[*few, DONE] for few in answers]
    tasks = [Task(Job("a", "e", seed=i), root / str(i)) for i in range(len(script))]
    crew = Scripted([list(few) for few in script], size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_runner, "_crew", lambda ray, workers: crew)
        patch.setattr(sweep_runner, "POLL", 0.0)
        patch.setattr(sweep_runner, "PATIENCE", 0.0)
        run_tasks(tasks, retries=retries, report=lambda line: None)
    assert crew.most <= size
    for task, few in zip(tasks, script, strict=True):
        counted = [status for status in few if status != BUSY]
        until = next(i for i, status in enumerate(counted) if status in (DONE, FAILED, WRONG) or i >= retries)
        assert task.attempts == until + 1
        assert task.status == ("done" if counted[until] == DONE else "failed")


def test_a_folder_that_the_workers_do_not_share(monkeypatch, tmp_path):
    crew = Scripted([[DONE]], 1)
    crew.start = lambda task: (0, DONE)
    monkeypatch.setattr(sweep_runner, "_crew", lambda ray, workers: crew)
    (task,) = run_jobs([grid_job()], tmp_path / "runs", report=lambda line: None)
    assert task.status == "failed"
    assert "is it shared?" in task.message


def test_forecasts():
    known = Pace([Rate("a", "e", 100, 0.5, here=False)])
    tasks = [Task(Job("a", "e"), Path(f"nowhere/{i}"), steps=100) for i in range(4)]
    assert "4 jobs, 0 finished, 4 to run with 2 workers: about 2 min" in sweep_time.forecast(tasks, 2, known)
    assert "about 50 s" in sweep_time.forecast(tasks, 100, known)  # not less than the longest
    assert "about 3 min of work" in sweep_time.forecast(tasks, None, known)
    text = sweep_time.forecast([*tasks, Task(Job("b", "e"), Path("nowhere/b"))], 1, known)
    assert "and an unknown time (there is no earlier run of b on e" in text
    assert [sweep_time.in_words(s) for s in (3, 600, 7200)] == ["3 s", "10 min", "2.0 h"]
    assert listed(range(12), most=2) == "0, 1 and 10 more"


def test_pace_is_taken_from_runs_and_results(tmp_path):
    run, _ = launch.start_run("mce-exact", GRID, env_kwargs=SMALL, out="runs")
    record = run.read("provenance.json") | {"started": "2026-01-01T00:00:00+00:00"}
    run.write("provenance.json", record)
    run.finish({})
    run.write("provenance.json", record | {"finished": "2026-01-01T00:00:40+00:00"})
    storage.write_json("results/a.json", {"runs": [{"algo": "x", "env": "y", "seconds": 50.0, "steps": 100}, {}, 3]})
    (tmp_path / "results" / "broken.json").write_text("{")
    (tmp_path / "runs" / "odd").mkdir()
    (tmp_path / "runs" / "odd" / "DONE").touch()
    known = sweep_time.pace("runs", records_in("results"))
    assert known == Pace([Rate("mce-exact", GRID, 1, 40.0, here=True), Rate("x", "y", 100, 0.5, here=False)])
    assert (known.seconds("mce-exact", GRID, None), known.seconds("x", "y", 200), known.seconds("x", "z", 1)) == (
        40.0,
        100.0,
        None,
    )
    run.write("provenance.json", record | {"finished": "2026-01-01T00:00:40+00:00", "resumed": [{"step": 1}]})
    assert sweep_time.pace("runs", records_in("results")).seconds("mce-exact", GRID, None) is None


def test_what_a_run_takes_here():
    results = [Rate("a", "e", 1000, 2.0, here=False), Rate("b", "e", 1000, 3.0, here=False)]
    assert Pace(results).seconds("a", "e", 500) == 1000.0
    # This machine is twice as fast with the same run; so it will be with others.
    own = [Rate("a", "e", 1000, 1.0, here=True)]
    assert Pace([*results, *own]).seconds("a", "e", 1000) == 1000.0
    assert Pace([*results, *own]).seconds("b", "e", 1000) == 1500.0
    # A short run mostly starts: it says nothing of long ones, nor of the machine.
    short = [Rate("a", "e", 10, 50.0, here=True)]
    assert Pace([*results, *short]).seconds("a", "e", 1000) == 2000.0
    assert Pace([*results, *short]).seconds("b", "e", 1000) == 3000.0
    assert Pace([*results, *short]).seconds("a", "e", 20) == 1000.0
    assert Pace(short).seconds("a", "e", 1000) == 50_000.0  # better than nothing
