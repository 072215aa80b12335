"""`tacit learn mce` with what it cannot use: a clear sentence, exit status 2 or 1, nothing lost."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from tacit import demos as demonstrations
from tacit.demos.data import Trajectory, from_trajectories
from tacit.errors import RunFailed, UserError
from tacit.inverse import mce, trainer
from tacit.launch import execute, start_run
from tacit.run import Run

PENDULUM = "tacit/Pendulum-v0"
TINY = {
    "features": "network",
    "n_envs": 8,
    "batch_size": 128,
    "total_steps": 3072,
    "bootstrap_steps": 1024,
    "forward_steps": 1024,
    "rollout_steps": 512,
    "minibatches": 5,
    "eval_episodes": 2,
    "hidden": (8,),
    "checkpoint_every": 1,
}


def shipped(n: int = 6):
    return demonstrations.load(demonstrations.shipped(PENDULUM)).subset(np.arange(n))


def saved(demos, tmp_path, name="demos.npz") -> str:
    demonstrations.save(demos, tmp_path / name)
    return str(tmp_path / name)


def start(tmp_path, env=PENDULUM, demos=None, **settings):
    return start_run(
        "mce", env, out=str(tmp_path / "runs"), demos=demos, settings={**TINY, **settings}, say=lambda _: None
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": lambda x: x[:, :3]}, "shape"),
        ({"actions": lambda x: 100 * x + 50}, "outside"),
        ({"card": lambda c: {**c, "feature_names": ["a", "b", "c", "d"]}}, "feature names"),
        ({"card": lambda c: {**c, "env": "tacit/Ant-v0"}}, "was made in tacit/Ant-v0"),
    ],
)
def test_demonstrations_that_do_not_fit(tmp_path, change, message):
    demos = shipped()
    if "observations" in change:
        demos = replace(demos, card={**demos.card, "feature_names": None})
    changed = replace(demos, **{name: function(getattr(demos, name)) for name, function in change.items()})
    with pytest.raises(UserError, match=message):
        start(tmp_path, demos=saved(changed, tmp_path))
    assert not (tmp_path / "runs").exists()


def test_demonstrations_longer_than_the_horizon(tmp_path):
    long = Trajectory(np.zeros((102, 4)), np.zeros((101, 1)), np.zeros(101), None, False)
    with pytest.raises(UserError, match="more than the environment's horizon of 100"):
        start(tmp_path, demos=saved(from_trajectories([long], {}), tmp_path))


def test_numbers_that_are_not_finite_are_refused_on_construction():
    broken = Trajectory(np.full((3, 4), np.nan), np.zeros((2, 1)), np.zeros(2), None, False)
    with pytest.raises(UserError, match="NaN or infinity in trajectory 0, step 0"):
        from_trajectories([broken], {})


def test_unknown_names_and_settings_suggest_the_nearest(tmp_path):
    with pytest.raises(UserError, match="did you mean 'x_position'"):
        start(tmp_path, inputs=("x_positon",))
    with pytest.raises(UserError, match="thresholds"):
        start(tmp_path, treshold=3)
    with pytest.raises(UserError, match="reference"):
        start_run("mce", PENDULUM, out=str(tmp_path), preset="refrence", say=lambda _: None)
    assert not (tmp_path / "runs").exists()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total_steps": 0}, "total_steps must be at least 1"),
        ({"n_envs": 0}, "n_envs must be at least 1"),
        ({"n_envs": -8}, "n_envs must be at least 1"),
        ({"n_envs": 7}, "multiple of the number of environments"),
        ({"rollout_steps": 0}, "rollout_steps must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"gamma": 0.0}, "gamma must be above 0 and at most 1"),
        ({"gamma": 1.5}, "gamma must be above 0 and at most 1"),
        ({"beta": -0.1}, "beta cannot be negative"),
        ({"hidden": (8, 0)}, "hidden must be sizes"),
        ({"dual_batch": 0}, "dual_batch must be at least 1"),
        ({"eval_episodes": 0}, "eval_episodes must be at least 1"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
        ({"demonstrations": -1}, "demonstrations cannot be negative"),
        ({"thresholds": 0, "joint": 0}, "a linear cost needs features >= 0"),
        ({"bootstrap_steps": -1}, "bootstrap_steps cannot be negative"),
        ({"forward_steps": -1}, "forward_steps must be at least 1"),
        ({"input_clip": 0.0}, "input_clip must be positive"),
        ({"replay_phases": 0}, "replay_phases must be at least 1"),
        ({"guard_iterations": 0}, "guard_iterations must be at least 1"),
        ({"zeta_decay": 0.0}, "zeta_decay must be positive"),
        ({"pretrain_lr": -1e-3}, "pretrain_lr cannot be negative"),
        ({"joint": 4, "feature_hidden": ()}, "feature_hidden are sizes"),
        ({"joint": 4, "feature_hidden": (4, 0)}, "feature_hidden are sizes"),
        ({"lam_init": 0.0}, "features get no gradient"),
        ({"lr": NAN}, "lr must be a finite number"),
        ({"gamma": NAN}, "gamma must be a finite number"),
        ({"expert_square": INF}, "expert_square must be a finite number"),
        ({"clone_log_std": NAN}, "clone_log_std must be a finite number"),
        ({"input_clip": NAN}, "input_clip must be positive, it is nan"),
        ({"pid_gains": (1.0, NAN, 0.0)}, "pid_gains has no effect"),
        ({"terminal_cost": 1.0}, "terminal_cost has no effect, because"),
        ({"budget_per": "episode"}, "budget_per has no effect, because"),
        ({"multiplier_lr": 0.1}, "multiplier_lr has no effect, because"),
        ({"pid_smoothing": 0.1}, "pid_smoothing has no effect, because"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_written(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        start(tmp_path, **change)
    assert not (tmp_path / "runs").exists()


def test_settings_that_are_a_bound_may_be_infinite(tmp_path):
    run, _ = start(tmp_path, input_clip=INF, target_kl=INF, max_grad_norm=INF, replay_phases=0, replay_share=0.0)
    assert run.path.exists()


@pytest.mark.parametrize("algo", ["bc2l", "gacl", "me-icrl", "vicrl", "irl-correction", "ppo", "rcpo"])
@pytest.mark.parametrize("name", ["total_steps", "n_envs", "eval_episodes", "lr", "beta"])
def test_other_deep_methods_refuse_them_too(tmp_path, algo, name):
    wrong = {"lr": NAN, "beta": -1.0}.get(name, 0)
    with pytest.raises(UserError, match=name):
        start_run(algo, PENDULUM, out=str(tmp_path / "runs"), settings={name: wrong}, say=lambda _: None)
    assert not (tmp_path / "runs").exists()


def test_an_environment_without_names_gets_numbers():
    from tacit.forward.collect import interface_of, make_vec, names_of

    env = make_vec("InvertedPendulum-v5", 1)
    assert names_of(env, interface_of(env)) == ("obs[0]", "obs[1]", "obs[2]", "obs[3]")


def test_few_demonstrations_and_other_physics_are_warned_of(tmp_path):
    demos = shipped(2)
    older = replace(demos, card={**demos.card, "versions": {"mujoco": "2.1.0"}})
    run, data = start(tmp_path, demos=saved(older, tmp_path))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        summary = execute(run, data)
    texts = " ".join(str(warning.message) for warning in seen)
    assert "only 2 demonstrations" in texts
    assert "MuJoCo 2.1.0" in texts
    assert summary["table"]["learned"]["return"]["value"] > 0


def test_clipped_inputs_are_warned_of(tmp_path):
    run, data = start(tmp_path, squash=False, input_clip=0.5)
    with pytest.warns(UserWarning, match="beyond the clip of 0.5"):
        execute(run, data)


class Breaks(gym.Env):
    """Goes well for a while, then raises or returns what is not a number."""

    broken = False
    healed = False

    def __init__(self, how: str = "raise", after: int = 300) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.how, self.after, self.total = how, after, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        late = self.total > self.after and not self.healed
        if self.how == "raise in reset" or (late and self.how == "raise in a later reset"):
            raise RuntimeError("the door is locked")
        begun = np.nan if late and self.how == "nan in reset" else 0.0
        return np.full(2, begun, np.float32), {"cost": 0.0} if self.how == "nan cost" else {}

    def step(self, action):
        self.t += 1
        self.total += 1
        late = self.total > self.after and not self.healed
        if (late and self.how == "raise") or (self.broken and self.how == "raise later"):
            raise RuntimeError("the motor is on fire")
        value = np.nan if late and self.how == "nan" else 1.0
        reward = 0.0 if self.how == "no reward" else value
        seen = np.nan if self.broken and self.how == "nan later" else float(self.t)
        if late and self.how == "nan seen":  # and what follows from it
            seen = reward = np.nan
        info = {"cost": np.nan if late else 0.0} if self.how == "nan cost" else {}
        return np.full(2, seen, np.float32), reward, False, self.t >= 10, info


gym.register("tacit-test/Breaks-v0", entry_point=Breaks)


def walks(n: int = 6):
    obs = np.repeat(np.arange(11.0)[:, None], 2, axis=1).astype(np.float32)
    return from_trajectories([Trajectory(obs, np.zeros((10, 1), np.float32), np.ones(10), None, False)] * n, {})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "the motor is on fire"),
        ("nan", "returned a reward that is not finite"),
        ("nan seen", "returned an observation that is not finite"),
        ("nan cost", "returned a cost that is not finite"),
        ("nan in reset", "returned an observation to begin with that is not finite"),
        ("raise in a later reset", "the door is locked"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # Gymnasium's of NaN, ours of episodes that begin anew
def test_an_environment_that_breaks_in_the_middle_leaves_a_resumable_run(tmp_path, monkeypatch, how, message):
    run, data = start_run(
        "mce",
        "tacit-test/Breaks-v0",
        out=str(tmp_path),
        env_kwargs={"how": how},
        demos=saved(walks(), tmp_path),
        settings=TINY,
        say=lambda _: None,
    )
    with pytest.raises(RunFailed, match=message) as failure:
        execute(run, data)
    assert "checkpoint of iteration" in str(failure.value)
    assert f"tacit resume {run.path}" in str(failure.value)
    assert not run.done
    step, arrays, header = run.latest_checkpoint()
    assert mce.METHODS["network"].from_arrays(arrays, header["state"]).iteration == step >= 1
    monkeypatch.setattr(Breaks, "healed", True)
    assert execute(run, data)["steps"] == TINY["total_steps"]


def test_an_environment_that_cannot_even_be_reset(tmp_path):
    run, data = start_run(
        "mce",
        "tacit-test/Breaks-v0",
        out=str(tmp_path),
        env_kwargs={"how": "raise in reset"},
        demos=saved(walks(), tmp_path),
        settings=TINY,
        say=lambda _: None,
    )
    with pytest.raises(RunFailed, match="RuntimeError in a reset: the door is locked"):
        execute(run, data)


@pytest.mark.filterwarnings("ignore")  # Gymnasium's of NaN, ours of episodes that begin anew
@pytest.mark.parametrize(
    ("how", "message"),
    [("raise later", "RuntimeError during evaluation: the motor is on fire"), ("nan later", "observation that is not")],
)
def test_an_environment_that_breaks_in_the_evaluation_leaves_a_resumable_run(tmp_path, monkeypatch, how, message):
    run, data = start_run(
        "mce",
        "tacit-test/Breaks-v0",
        out=str(tmp_path),
        env_kwargs={"how": how},
        demos=saved(walks(), tmp_path),
        settings=TINY,
        say=lambda _: None,
    )

    def copies_for(episodes: int) -> int:
        monkeypatch.setattr(Breaks, "broken", True)
        return episodes

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "copies_for", copies_for)
        with pytest.raises(RunFailed, match=message) as failure:
            execute(run, data)
    assert "checkpoint of iteration 3 is kept" in str(failure.value)
    assert not run.done
    monkeypatch.setattr(Breaks, "broken", False)
    assert execute(run, data)["steps"] == TINY["total_steps"]


@pytest.mark.parametrize(("seconds", "expected"), [(180.0, [1, 3]), (-1.0, [1, 2, 3])])
def test_checkpoints_times_and_discounts(tmp_path, monkeypatch, seconds, expected):
    """There is a checkpoint after the bootstrap and after minutes; phases add up; returns are discounted with gamma."""
    saved_at, original = [], Run.save_checkpoint
    monkeypatch.setattr(Run, "save_checkpoint", lambda *given: (saved_at.append(given[1]), original(*given)))
    monkeypatch.setattr("tacit.run.trainer.CHECKPOINT_SECONDS", seconds)
    run, data = start(tmp_path, checkpoint_every=100, start="clone")
    began = time.perf_counter()
    summary = execute(run, data)
    whole = time.perf_counter() - began
    assert saved_at == expected
    assert list(summary["time"]) == ["rollouts", "PPO", "inverse", "set-up", "map", "evaluation"]
    # The rest is the explanation, and opening and closing the run.
    assert 0.2 * whole < sum(summary["time"].values()) < whole
    assert min(summary["time"].values()) > 0
    for agent in ("demonstrations", "learned"):
        row = summary["table"][agent]
        assert 0 < row["discounted_return"]["value"] < row["return"]["value"]


def test_an_environment_without_reward_or_truth_still_learns(tmp_path):
    """No reward: the unit of cost is 1, and a warning. No info["cost"]: nothing is said of violations."""
    run, data = start_run(
        "mce",
        "tacit-test/Breaks-v0",
        out=str(tmp_path),
        env_kwargs={"how": "no reward"},
        demos=saved(walks(), tmp_path),
        settings=TINY,
        say=lambda _: None,
    )
    with pytest.warns(UserWarning, match="no reward in 1,024 steps of the nominal policy"):
        summary = execute(run, data)
    assert "cost_quality" not in summary
    assert "violation_rate_step" not in summary["table"]["learned"]
    assert all(not key.startswith("truth/") for record in run.metrics() for key in record)


def test_command_line_says_it_in_one_line(tmp_path):
    command = [
        sys.executable,
        "-m",
        "tacit",
        "learn",
        "mce",
        PENDULUM,
        "--inputs",
        "x_pos",
        "--out",
        str(tmp_path / "r"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: the environment has no feature 'x_pos'")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r").exists()


def test_killed_and_resumed_is_the_same_run(tmp_path):
    """A run stopped after its second checkpoint and resumed ends with the files of one that was not."""
    whole, data = start(tmp_path / "a")
    execute(whole, data)
    broken, data = start(tmp_path / "b")

    class Stop(Exception):
        pass

    original = Run.save_checkpoint

    def save_then_stop(run, step, arrays, metadata):
        original(run, step, arrays, metadata)
        if step == 2:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "save_checkpoint", save_then_stop)
        with pytest.raises(Stop):
            execute(broken, data)
    execute(broken, data)
    timeless = [
        [{k: v for k, v in record.items() if not k.startswith("time/")} for record in run.metrics()]
        for run in (whole, broken)
    ]
    assert timeless[0] == timeless[1]
    for name in ("policy", "cost", "map"):
        one, two = whole.load_model(name)[0], broken.load_model(name)[0]
        assert all(np.array_equal(one[key], two[key]) for key in one)


# ---------------------------------------------------------------------------------------------------------------------
# Presets and settings that must work to the end


@pytest.mark.filterwarnings("ignore")  # few demonstrations, survival bias, clipped inputs
@pytest.mark.parametrize("env", ["Gridworld", "Pendulum", "Swimmer"])
def test_the_papers_settings_run_to_the_end(tmp_path, env):
    """Costs of actions too, and on the gridworld the comparison with the exact solution."""
    small = {**TINY, "pretrain_epochs": 1, "epochs": 1}
    run, data = start_run(
        "mce", f"tacit/{env}-v0", preset="paper", out=str(tmp_path), settings=small, say=lambda _: None
    )
    summary = execute(run, data)
    assert run.done
    assert ("exact" in summary) == (env == "Gridworld")
    if env == "Gridworld":
        assert 0 <= summary["exact"]["kl_per_step"] < 1e4


def test_no_squares_where_demonstrations_end(tmp_path):
    """The closed form of the absorbing state has no bound then: what the learner's living costs is one."""
    run, data = start(tmp_path, env="tacit/Gridworld-v0", expert_square=0.0, learner_square=0.0)
    assert np.isfinite(execute(run, data)["table"]["learned"]["return"]["value"])


def test_a_price_for_ever_needs_a_discount(tmp_path):
    with pytest.raises(UserError, match="gamma and cost_gamma must be below 1"):
        start(tmp_path, gamma=1.0, cost_gamma=1.0)
    assert not (tmp_path / "runs").exists()
