"""How close the batched robots come to the simulator's own speed.

    python -m benchmarks.stepping [--copies 32] [--threads 1] [--steps 200] [--repeats 7] [--task Ant] [--json]

For each task and the same episodes, actions included, in environment steps a second:

    raw       MuJoCo alone: one C call an episode, nothing in Python. The limit.
    batched   `RobotVectorEnv.step_arrays`: physics, reward, termination, cost, resets, observations.
    gym       `RobotVectorEnv.step`: the same with Gymnasium's dictionary.
    cold      the batched call alone, the solver cold at every step as in `batched`, without rewards.
    warm      another backend: the batched call with the solver's warm start carried on, without rewards.
    loop      another backend: one MjData a copy, `mj_step` from Python, state copied out, without rewards.

The actions move the robots: the best of 256 random sinusoidal gaits (a linear feedback for the pendulum). Contacts make
Ant and Walker slower than random actions suggest. Ratios are medians over repeats in which all take turns, so that a
busy machine slows all of them alike; with one thread the clock counts processor time, with more it is the wall's.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from tacit.envs.mujoco_vector import RobotVectorEnv
from tacit.envs.robots import TASKS, Task

BALANCE = np.array([1.0, 12.0, 1.2, 2.3])
"""Pendulum: the force is this times (x, angle, velocities), which keeps the pole up."""


def gaits(task: Task, copies: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random gaits: frequency (n, 1) in Hz, phase and amplitude (n, nu)."""
    frequency = rng.uniform(0.5, 3.0, (copies, 1))
    strength = 10 ** rng.uniform(-1.0, 0.1, (copies, 1))
    return frequency, rng.uniform(0, 2 * np.pi, (copies, task.nu)), strength * rng.uniform(0.2, 1.0, (copies, task.nu))


def act(task: Task, gait: tuple[np.ndarray, np.ndarray, np.ndarray], step: int, obs: np.ndarray) -> np.ndarray:
    if task.name == "Pendulum":
        return (obs @ BALANCE)[:, None]
    frequency, phase, amplitude = gait
    return task.action_high * amplitude * np.sin(2 * np.pi * frequency * task.dt * step + phase)


def moving_actions(task: Task, copies: int, steps: int, seed: int = 0) -> np.ndarray:
    """(steps, copies, nu) actions of the best random gait, each copy a little different."""
    rng = np.random.default_rng(seed)
    candidates = gaits(task, 256, rng)
    env = RobotVectorEnv(256, task.name)
    obs, _ = env.reset(seed=seed)
    total, alive = np.zeros(256), np.ones(256, np.bool_)
    for step in range(min(200, task.horizon)):
        result = env.step_arrays(act(task, candidates, step, obs))
        total += alive * result.reward
        alive &= ~result.terminated
        obs = result.obs
    frequency, phase, amplitude = (part[[total.argmax()]] for part in candidates)
    gait = (frequency, phase + 0.1 * rng.standard_normal((copies, task.nu)), amplitude)
    env = RobotVectorEnv(copies, task.name)
    obs, _ = env.reset(seed=seed)
    actions = []
    for step in range(steps):
        actions.append(act(task, gait, step, obs))
        obs = env.step_arrays(actions[-1]).obs
    return np.stack(actions)


class Episode(NamedTuple):
    row: int
    begin: int
    """The step at which it starts."""
    state: np.ndarray
    """(1 + nq + nv,) initial (time, qpos, qvel)."""
    control: np.ndarray
    """(T * frame_skip, nu)"""


def episodes(env: RobotVectorEnv, actions: np.ndarray, seed: int | None = 0) -> list[Episode]:
    """Every episode that the actions make, from a reset or (seed None) from where the copies are."""
    task, found = env.task, []
    if seed is not None:
        env.reset(seed=seed)
    start = env._state.copy()
    begun = np.zeros(env.num_envs, np.int64)
    for step in range(len(actions)):
        result = env.step_arrays(actions[step])
        ended = result.terminated | result.truncated | (step == len(actions) - 1)
        for row in np.flatnonzero(ended):
            control = task.applied(actions[begun[row] : step + 1, row])
            control = np.repeat(control, task.frame_skip, axis=0)
            found.append(Episode(int(row), int(begun[row]), start[row].copy(), control))
            start[row], begun[row] = env._state[row], step + 1
    return found


def raw_stepper(env: RobotVectorEnv, pieces: list[Episode], threads: int) -> Callable[[], None]:
    """MuJoCo alone: equal numbers of sub-steps in as few calls as there are distinct lengths of episode."""
    model, size = env.model, 1 + env.task.nq + env.task.nv
    pool = Rollout(nthread=threads if threads > 1 else 0)
    datas = [mujoco.MjData(model) for _ in range(threads)]
    groups: dict[int, list[Episode]] = {}
    for piece in pieces:
        groups.setdefault(len(piece.control), []).append(piece)
    jobs = []
    for length, members in groups.items():
        starts, controls = np.stack([piece.state for piece in members]), np.stack([piece.control for piece in members])
        jobs.append((length, starts, controls, np.empty((len(members), length, size))))

    def raw() -> None:
        for length, starts, controls, out in jobs:
            pool.rollout([model] * len(starts), datas, starts, controls, skip_checks=True, nstep=length, state=out)

    return raw


def timed(function: Callable[[], object], clock: Callable[[], float]) -> float:
    begin = clock()
    function()
    return clock() - begin


def measure(task: Task, copies: int, threads: int, steps: int, repeats: int) -> dict[str, float]:
    """Environment steps a second of each way to step, and ratios to `raw`."""
    actions = moving_actions(task, copies, steps)
    env = RobotVectorEnv(copies, task.name, nthread=threads)
    pieces = episodes(env, actions)
    model, size = env.model, 1 + task.nq + task.nv
    pool = Rollout(nthread=threads if threads > 1 else 0)
    datas = [mujoco.MjData(model) for _ in range(threads)]

    raw = raw_stepper(env, pieces, threads)
    starting: dict[int, list[Episode]] = {}
    for piece in pieces:
        starting.setdefault(piece.begin, []).append(piece)

    def batched() -> None:
        for action in actions:
            env.step_arrays(action)

    def gym() -> None:
        for action in actions:
            env.step(action)

    applied = np.stack([task.applied(action) for action in actions])
    warmstart, state = np.zeros((copies, task.nv)), np.zeros((copies, size))
    out = np.empty((copies, task.frame_skip, size))
    control = np.empty((copies, task.frame_skip, task.nu))

    def call(keep: bool) -> None:
        for step, action in enumerate(applied):
            for piece in starting.get(step, ()):
                state[piece.row], warmstart[piece.row] = piece.state, 0
            control[:] = action[:, None]
            pool.rollout(
                [model] * copies,
                datas,
                state,
                control,
                skip_checks=True,
                nstep=task.frame_skip,
                initial_warmstart=warmstart if keep else None,
                state=out,
            )
            if keep:  # MuJoCo gives the acceleration of the last sub-step back only as a difference of velocities
                np.subtract(out[:, -1, 1 + task.nq :], out[:, -2, 1 + task.nq :], out=warmstart)
                np.divide(warmstart, model.opt.timestep, out=warmstart)
            state[:] = out[:, -1]

    many = [mujoco.MjData(model) for _ in range(copies)]
    views = [(data, data.ctrl, data.qpos, data.qvel) for data in many]
    obs = np.empty((copies, task.nq + task.nv))

    def loop() -> None:
        for step, action in enumerate(applied):
            for piece in starting.get(step, ()):
                _, _, qpos, qvel = views[piece.row]
                qpos[:], qvel[:] = piece.state[1 : 1 + task.nq], piece.state[1 + task.nq :]
            for row, (data, ctrl, qpos, qvel) in enumerate(views):
                ctrl[:] = action[row]
                mujoco.mj_step(model, data, task.frame_skip)
                obs[row, : task.nq], obs[row, task.nq :] = qpos, qvel

    ways: dict[str, Callable[[], None]] = {"raw": raw, "batched": batched, "gym": gym}
    ways |= {"cold": lambda: call(False), "warm": lambda: call(True), "loop": loop}
    if task.kinematics:
        ways = {"batched": batched, "gym": gym}
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            env.reset(seed=0)
            times[name].append(timed(way, clock))
    total = steps * copies
    result = {name: total / min(seconds) for name, seconds in times.items()}
    if "raw" in ways:
        pairs = {name: zip(times["raw"], seconds, strict=True) for name, seconds in times.items()}
        result |= {f"{name}/raw": median(a / b for a, b in pairs[name]) for name in ways if name != "raw"}
    result["episodes"] = len(pieces)
    return result


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--task", choices=list(TASKS), default=None)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    rows = {
        name: measure(task, args.copies, args.threads, args.steps, args.repeats)
        for name, task in TASKS.items()
        if args.task in (None, name)
    }
    if args.json:
        print(json.dumps({"copies": args.copies, "threads": args.threads, "mujoco": mujoco.__version__, "tasks": rows}))
        return
    print(
        f"MuJoCo {mujoco.__version__}, {args.copies} copies, {args.threads} thread(s), thousand steps/s (ratio to raw)"
    )
    print(f"{'task':<12}{'raw':>8}{'batched':>16}{'gym':>16}{'cold':>16}{'warm':>16}{'loop':>16}{'episodes':>10}")
    for name, row in rows.items():
        cells = f"{row['raw'] / 1e3:>8.1f}" if "raw" in row else f"{'-':>8}"
        for way in ("batched", "gym", "cold", "warm", "loop"):
            ratio = f" ({row[f'{way}/raw']:.2f})" if f"{way}/raw" in row else ""
            cells += f"{row[way] / 1e3:.1f}{ratio}".rjust(16) if way in row else f"{'-':>16}"
        print(f"{name:<12}{cells}{row['episodes']:>10.0f}")


if __name__ == "__main__":
    main()
