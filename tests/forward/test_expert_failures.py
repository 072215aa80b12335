"""Experts whose training goes wrong: full disks, kills, foreign and damaged checkpoints, divergence, wrong names.

What was saved before stays good, the message is one line that says how to go on, and going on gives what the run would
have given without the mishap, bit by bit.
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from tacit.run import Run, storage

pytest.importorskip("mujoco")
pytest.importorskip("jax")

SMALL = ("--rollout-steps", 256, "--n-envs", 8, "--epochs", 2, "--eval-episodes", 4, "--demonstrations", 0)
SMALL = (*SMALL, "--checkpoint-every", 1)
PENDULUM = ("expert", "tacit/Pendulum-v0", *SMALL, "--total-steps")
SHORT, LONG = (*PENDULUM, 8 * 256), (*PENDULUM, 40 * 256)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def only_run(root="runs") -> Run:
    (folder,) = Path(root).iterdir()
    return Run.open(folder)


def outcome(run: Run):
    """(policy, metrics, evaluations, summary) without the times."""
    arrays, _ = storage.load_arrays(run.path / "model" / "policy.safetensors")
    metrics = [{k: v for k, v in record.items() if not k.startswith("time/")} for record in run.metrics()]
    return arrays, metrics, run.evals(), run.read("summary.json")


def assert_same(one, two):
    assert one[0].keys() == two[0].keys()
    for name in one[0]:
        np.testing.assert_array_equal(one[0][name], two[0][name], err_msg=name)
    assert one[1:] == two[1:]
    assert [record["iteration"] for record in one[1]] == list(range(1, len(two[1]) + 1))


def one_line(output, *words, status):
    """The last line of stderr says it; what came before are warnings and progress."""
    assert output.status == status, output.stderr
    assert "Traceback" not in output.stderr
    last = output.stderr.splitlines()[-1]
    for word in words:
        assert word in last, last
    return last


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run of this process, and the bytes that it wrote."""
    from tacit.cli import main

    root, disk = tmp_path_factory.mktemp("whole"), Disk(10**9)
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        assert main([str(word) for word in (*SHORT, "--out", root)]) == 0
    return outcome(only_run(root)), 10**9 - disk.room


# -- full disk ---------------------------------------------------------------------------------------------------------


class Disk:
    """A disk with so many bytes left: writes what fits, then fails as the operating system does."""

    def __init__(self, room):
        self.room = room

    def install(self, patch):
        disk = self

        class File(io.FileIO):
            def write(self, data):
                if disk.room <= 0:
                    raise OSError(28, "No space left on device")
                n = super().write(bytes(data)[: disk.room])
                disk.room -= n
                return n

        def opened(descriptor, mode="r", *args, **kwargs):
            if not set(mode) & set("wxa+"):
                return original(descriptor, mode, *args, **kwargs)
            raw = File(descriptor, mode.replace("b", ""))
            return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

        original = os.fdopen
        patch.setattr(os, "fdopen", opened)  # by which `tacit.run.disk` writes


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
def test_full_disk(cli, tmp_path, whole, share):
    expected, total = whole
    with pytest.MonkeyPatch.context() as patch:
        Disk(int(share * total)).install(patch)
        output = cli(*SHORT)
    one_line(output, "No space left on device", "runs/expert-pendulum-s0-", status=1)
    assert not list(tmp_path.rglob(f"*{storage.TMP_SUFFIX}")), "half a file is left over"
    if share < 0.01:  # not even a configuration: there is nothing to resume, and the same command starts afresh
        assert cli(*SHORT).status == 0
    else:
        run = only_run()
        assert f"`tacit resume {run.path}`" in output.stderr
        for file in (run.path / "checkpoints").glob("*"):
            storage.load_arrays(file)
        assert cli("resume", run.path).status == 0
    assert_same(outcome(only_run()), expected)


def test_a_disk_that_is_still_full_when_resuming(cli, whole):
    expected, total = whole
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(total // 2)
        disk.install(patch)
        assert cli(*SHORT).status == 1
        run = only_run()
        before = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}
        for _ in range(2):
            one_line(cli("resume", run.path), "No space left on device", "tacit resume", status=1)
        after = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}
        # Cutting the logs back to the checkpoint makes room for nothing; no file is lost or half written.
        assert before.keys() == after.keys()
        assert {f for f in before if before[f] != after[f]} <= {run.path / "metrics.jsonl"}
    assert cli("resume", run.path).status == 0
    assert_same(outcome(run), expected)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_the_operating_systems_own_full_disk_is_recognised(cli, monkeypatch):
    original = os.fdopen

    def on_a_full_disk(descriptor, mode="r", *args, **kwargs):
        if mode != "wb":  # not the lock, which is read as well
            return original(descriptor, mode, *args, **kwargs)
        os.close(descriptor)
        return io.FileIO("/dev/full", "w")

    monkeypatch.setattr(os, "fdopen", on_a_full_disk)
    one_line(cli(*SHORT), "provenance.json", "No space left on device", status=1)


# -- kills -------------------------------------------------------------------------------------------------------------

# A shell may have started the tests with Ctrl-C switched off.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tacit.cli import main
sys.exit(main(sys.argv[1:]))
"""


def started(*words):
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finished(*words):
    with started(*words) as process:
        _, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr


def wait_for_checkpoint(process, step):
    """Until there is a checkpoint of at least this step."""
    while process.poll() is None:
        names = [file.stem for file in Path("runs").glob("*/checkpoints/step-*.safetensors")]
        if any(int(name.removeprefix("step-")) >= step for name in names):
            return
        time.sleep(0.001)
    pytest.fail(f"it ended before checkpoint {step}: {process.communicate()[1]}")


@pytest.fixture
def with_cache(tmp_path_factory, monkeypatch):
    """JAX keeps what it compiles, because every victim compiles the same."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("jax")))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def test_killed_and_interrupted_it_ends_as_if_it_had_not_been(with_cache):
    rng = np.random.default_rng(0)
    finished(*LONG, "--out", "whole")
    words = LONG
    for deadly, step in ((signal.SIGKILL, 1), (signal.SIGINT, 8), (signal.SIGKILL, 16)):
        with started(*words) as victim:
            wait_for_checkpoint(victim, step)
            time.sleep(rng.uniform(0, 0.03))
            victim.send_signal(deadly)
            _, stderr = victim.communicate(timeout=900)
        run = only_run()
        if deadly == signal.SIGINT:
            assert victim.returncode == 130
            assert stderr.splitlines()[-1] == f"stopped; continue with `tacit resume {run.path}`"
            assert "Traceback" not in stderr
        else:
            assert victim.returncode == -signal.SIGKILL
        assert not run.done
        words = ("resume", run.path)
    finished(*words)
    assert len(run.read("provenance.json")["resumed"]) == 3
    assert_same(outcome(run), outcome(only_run("whole")))


@pytest.mark.slow
def test_killed_at_many_moments(with_cache):
    """Also before the first checkpoint, while one is being written, and in the evaluation at the end."""
    rng = np.random.default_rng(1)
    finished(*LONG, "--out", "whole")
    begin, deaths = time.monotonic(), 0
    finished(*LONG, "--out", "again")
    usual = time.monotonic() - begin
    for _ in range(12):
        with started(*LONG) as victim:
            time.sleep(rng.uniform(0.3, 1.0) * usual)
            victim.kill()
        deaths += victim.returncode == -signal.SIGKILL
        if Path("runs").exists() and (list(Path("runs").glob("*/DONE"))):
            break
    assert deaths > 1
    finished(*LONG)
    assert_same(outcome(only_run()), outcome(only_run("whole")))


# -- checkpoints that cannot be continued ------------------------------------------------------------------------------


@pytest.fixture
def halfway(cli, monkeypatch):
    """Runs that Ctrl-C stops after so many iterations."""
    from tacit.forward import ppo_lagrangian

    def stop_at(n, *words):
        original = ppo_lagrangian.iterate

        def dying(env, config, state, *args):
            if state.iteration == n:
                raise KeyboardInterrupt
            return original(env, config, state, *args)

        with monkeypatch.context() as patch:
            patch.setattr(ppo_lagrangian, "iterate", dying)
            one_line(cli(*words), "stopped; continue with `tacit resume ", status=130)
        return Run.open(max(Path("runs").iterdir(), key=os.path.getmtime))

    return stop_at


def checkpoints(run):
    return sorted((run.path / "checkpoints").iterdir())


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_truncated_checkpoint_is_passed_over(cli, halfway, whole):
    run = halfway(5, *SHORT)
    _, newest = checkpoints(run)
    newest.write_bytes(newest.read_bytes()[:-100])
    output = cli("resume", run.path)
    assert output.status == 0
    assert "warning: " in output.stderr
    assert f"{newest.name} is not a readable safetensors file" in output.stderr
    assert "going back to the checkpoint before it" in output.stderr
    assert_same(outcome(run), whole[0])


@pytest.mark.filterwarnings("always::UserWarning")
def test_only_truncated_checkpoints(cli, halfway, whole):
    run = halfway(5, *SHORT)
    for file in checkpoints(run):
        file.write_bytes(file.read_bytes()[:1000])
    metrics = run.metrics()
    for words in (("resume", run.path), SHORT):
        one_line(cli(*words), "error: every checkpoint in", "remove that folder to start the run again", status=2)
        assert len(checkpoints(run)) == 2
        assert run.metrics() == metrics, "the record of the lost work is kept"
    shutil.rmtree(run.path / "checkpoints")
    assert cli("resume", run.path).status == 0
    assert_same(outcome(run), whole[0])


@pytest.mark.parametrize("told", [True, False])
def test_a_checkpoint_of_another_environment(cli, halfway, told):
    run = halfway(3, *SHORT)
    other = halfway(3, "expert", "tacit/Swimmer-v0", *SMALL, "--total-steps", 2048)
    for file in checkpoints(run):
        file.unlink()
    source = checkpoints(other)[-1]
    arrays, header = storage.load_arrays(source)
    # Also one that does not say whose it is: the networks do not fit.
    header = header if told else {key: value for key, value in header.items() if key != "run"}
    storage.save_arrays(run.path / "checkpoints" / source.name, arrays, header)
    before = checkpoints(run)[0].read_bytes()
    words = (
        [f"a checkpoint of another run, {other.name}"] if told else ["the saved agent was made for low = (-1.0, -1.0)"]
    )
    one_line(cli("resume", run.path), "error: ", *words, status=2)
    assert checkpoints(run)[0].read_bytes() == before


def test_a_checkpoint_of_another_version(cli, halfway):
    run = halfway(3, *SHORT)
    newest = checkpoints(run)[-1]
    arrays, header = storage.load_arrays(newest)
    header["metadata"]["state"]["version"] = 99
    storage.save_arrays(newest, arrays, header)
    one_line(cli("resume", run.path), "error: cannot continue from step-00000003", "of this version", status=2)
    assert newest.exists()


# -- divergence --------------------------------------------------------------------------------------------------------


class Broken(gym.Env):
    """A reward that is no number from some step of the process on."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, good=10**9, value=np.nan):
        self.left, self.value = good, value

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"cost": 0.0}

    def step(self, action):
        self.left -= 1
        reward = self.value if self.left < 0 else float(action[0])
        return np.zeros(2, np.float32), reward, False, self.left % 50 == 0, {"cost": 0.0}


@pytest.fixture
def broken(monkeypatch):
    from gymnasium.envs.registration import EnvSpec

    monkeypatch.setitem(
        gym.registry, "test/Broken-v0", EnvSpec("test/Broken-v0", entry_point=Broken, disable_env_checker=True)
    )
    return ("expert", "test/Broken-v0", *SMALL, "--total-steps", 2048, "--env")


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_a_reward_that_is_no_number(cli, broken, value):
    output = cli(*broken, f"value={value}", f"good={3 * 256 // 8 + 5}")
    run = only_run()
    words = ("failed: the environment returned a reward that is not finite", "the checkpoint of iteration 3 is kept in")
    assert str(run.path / "checkpoints") in one_line(output, *words, status=1)
    assert not run.done
    assert len(run.metrics()) == 3
    arrays, _ = storage.load_arrays(checkpoints(run)[-1])
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_a_reward_that_is_no_number_from_the_start(cli, broken):
    one_line(cli(*broken, "good=0"), "not finite", "no checkpoint had been written", status=1)
    assert only_run().metrics() == []


def test_diverging_training(cli):
    words = ("expert", "tacit/Pendulum-v0", *SMALL, "--total-steps", 2048, "--lr", "1e38")
    output = cli(*words)
    one_line(output, "failed: training diverged", "lr", status=1)
    run = only_run()
    for file in (run.path / "checkpoints").glob("*"):
        arrays, _ = storage.load_arrays(file)
        assert all(np.isfinite(array).all() for name, array in arrays.items() if name.startswith("params"))
    assert not (run.path / "model").exists()


# -- what cannot work is said before a folder is made ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tacit/HalfCheeta-v0",), "did you mean 'tacit/HalfCheetah-v0'?"),
        (("tacit/Aunt-v0",), "did you mean 'tacit/Ant-v0'?"),
        (("tacit/Ant-v0", "--preset", "exprt"), "did you mean 'expert'?"),
        (("tacit/Ant-v0", "--preset", "walking"), "there are expert"),
        (("tacit/Ant-v0", "--env", "nois=0.1"), "tacit/Ant-v0 has no option 'nois'"),
        (("tacit/Ant-v0", "--n-envs", 24), "multiple of the number of environments (24)"),
        (("tacit/Ant-v0", "--checkpoint-every", 0), "checkpoint_every must be at least 1, not 0"),
        (("tacit/Ant-v0", "--eval-episodes", 0), "eval_episodes must be at least 1, not 0"),
        (("tacit/Ant-v0", "--total-steps", 0), "total_steps must be at least 1, not 0"),
        (("tacit/Ant-v0", "--demonstrations", -1), "demonstrations cannot be negative"),
        (("tacit/Ant-v0", "--budget", -1), "budget cannot be negative"),
        (("tacit/Ant-v0", "--lr", 0), "lr must be positive"),
        (("tacit/Gridworld-v0", "--margin", 1), "margin needs an environment"),
        (("Blackjack-v1",), 'does not report info["cost"]'),
    ],
)
def test_what_cannot_work_is_said_at_once(cli, words, said):
    one_line(cli("expert", *words), "error: ", said, status=2)
    assert not Path("runs").exists()
