"""N copies of a robot task stepped together: `gymnasium.make_vec("tacit/Ant-v0", num_envs=32)`.

All copies live in one array, a row (time, qpos, qvel) each. One C call (`mujoco.rollout`) moves every copy by
frame_skip sub-steps; reward, termination and cost are the vectorised functions of the task. Python touches a single
copy only when its episode ends (and for the process noise, which every copy draws from its own generator).

Copy i behaves like `RobotEnv` seeded with seed + i, bit by bit, whatever the number of copies or threads: the
constraint solver starts cold at every step (which is as fast as keeping a warm start, see docs/environments.md), so
that a step is a pure function of (qpos, qvel, action) and there is no hidden solver state to save.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from tacit.envs import robots
from tacit.envs.batched import Flags, Seeds, Step, reset_mask, seeds_of, step_info
from tacit.envs.families import Info, Options
from tacit.envs.rng_state import RNG_WORDS, check_state, pack_rng, unpack_rng
from tacit.envs.robots import Array, RobotEnv, check_horizon, find_task
from tacit.errors import UserError


class RobotVectorEnv(gym.vector.VectorEnv[Array, np.ndarray, np.ndarray]):
    """N copies of a robot task with autoreset in the same step.

    Args:
        num_envs: number of copies.
        task: name of the task, one of `tacit.envs.robots.TASKS`.
        noise: standard deviation of the process noise, as in `RobotEnv`.
        horizon: steps until an episode is cut off; the task's own by default.
        max_episode_steps: what `gymnasium.make_vec` calls a shorter horizon.
        nthread: threads that step the copies; they pay for many copies of a slow robot and change no number.
        render_mode: None or "rgb_array" (one picture per copy).

    `step` is the Gymnasium interface; `step_arrays` is the same without the dictionary, for learners.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        task: str = "HalfCheetah",
        *,
        noise: float = 0.0,
        horizon: int | None = None,
        max_episode_steps: int | None = None,
        nthread: int = 1,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 480,
    ) -> None:
        self.task = find_task(task)
        self.rule = self.task.constraint
        self.noise = robots.check_noise(noise)
        if num_envs < 1 or nthread < 1:
            raise UserError(f"num_envs and nthread must be at least 1, not {num_envs} and {nthread}.")
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"the batched environment renders as rgb_array only, not {render_mode!r}.")
        self.num_envs = num_envs
        self.horizon = check_horizon(self.task, horizon)
        if max_episode_steps is not None:
            self.horizon = min(self.horizon, check_horizon(self.task, max_episode_steps))
        self.nthread = nthread
        self.render_mode = render_mode
        self.single_observation_space = robots.observation_space(self.task)
        self.single_action_space = robots.action_space(self.task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.feature_names = self.task.feature_names
        self.model = robots.load_model(self.task)
        self.metadata = {**type(self).metadata, "render_fps": round(1 / self.dt)}
        self._picture = (width, height)
        self._camera: RobotEnv | None = None
        self._init_qpos: Array = self.model.qpos0.copy()
        self._steps = np.zeros(num_envs, np.int64)
        self._rngs: list[np.random.Generator] = []
        self._seeds: list[int] = []
        self._started = False
        self._open_backend()

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return float(self.model.opt.timestep * self.task.frame_skip)

    def _open_backend(self) -> None:
        n, task = self.num_envs, self.task
        # Column 0 is the simulator's clock. It is left at 0 before every step, which makes a self-reset of the
        # simulator visible: the clock then stands before the end of the step.
        self._state = np.zeros((n, 1 + task.nq + task.nv))
        self._out = np.empty((n, task.frame_skip, 1 + task.nq + task.nv))
        self._control = np.empty((n, task.frame_skip, task.nu))
        self._models = [self.model] * n
        self._open_threads()

    def _open_threads(self) -> None:
        from mujoco import MjData
        from mujoco.rollout import Rollout

        self._datas = [MjData(self.model) for _ in range(self.nthread)]
        self._rollout = Rollout(nthread=self.nthread if self.nthread > 1 else 0)
        # Four pieces of work per thread: enough to even out copies in contact with those in the air.
        self._chunk = -(-self.num_envs // (4 * self.nthread))

    def use_threads(self, nthread: int) -> None:
        """Step the copies with this many threads from now on. No number changes."""
        if nthread != self.nthread:
            self._rollout.close()
            self.nthread = nthread
            self._open_threads()

    # ------------------------------------------------------------ Gymnasium's interface

    def reset(self, *, seed: Seeds = None, options: Options | None = None) -> tuple[Array, Info]:
        """Start a new episode in every copy, or in those that `options["reset_mask"]` (N,) selects.

        Copy i is seeded with seed + i, or with seed[i] if a list is given; None keeps its generator.
        """
        mask = reset_mask(options, self.num_envs, started=self._started)
        self._seed(seed, mask)
        self._reset_rows(np.flatnonzero(mask))
        self._started = True
        return self.task.observe(self._state[:, 1:].copy()), {"cost": np.zeros(self.num_envs), "_cost": mask}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Flags, Flags, Info]:
        """One step of all copies; a copy whose episode ends is reset in the same step.

        The rows of the observations and of `info["cost"]` (N,) of such a copy belong to its new episode (cost 0), and
        `info["final_obs"]` (N, obs) and `info["final_info"]["cost"]` (N,) hold what the last step gave, in the rows
        that `info["_final_obs"]` (N,) marks.
        """
        result = self.step_arrays(actions)
        ended = result.terminated | result.truncated
        info = step_info(result.cost, ended, result.final_obs)
        return result.obs, result.reward, result.terminated, result.truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """One picture per copy."""
        if self.render_mode is None:
            return None
        if self._camera is None:
            width, height = self._picture
            self._camera = RobotEnv(self.task.name, render_mode=self.render_mode, width=width, height=height)
        frames = []
        for row in self._state:
            self._camera.set_state(row[1 : 1 + self.task.nq], row[1 + self.task.nq :])
            frames.append(self._camera.render())
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        self._rollout.close()
        if self._camera is not None:
            self._camera.close()

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generators of the copies."""
        return tuple(self._rngs)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seeds of the copies."""
        return tuple(self._seeds)

    # ------------------------------------------------------------ the fast path

    def step_arrays(self, actions: ArrayLike) -> Step:
        """One step of all copies for actions (N, nu), clipped to the action box."""
        task, nq = self.task, self.task.nq
        action = np.asarray(actions)
        if action.shape != (self.num_envs, task.nu):
            raise UserError(
                f"{self.num_envs} copies of {task.name} take actions of shape ({self.num_envs}, {task.nu}),"
                f" not {action.shape}."
            )
        if not np.isfinite(action).all():
            row = int(np.flatnonzero(~np.isfinite(action).all(axis=1))[0])
            raise UserError(f"copy {row} of {task.name} was given an action that is not finite: {action[row]}.")
        if not self._started:
            raise gym.error.ResetNeeded("call reset() before step()")

        applied = task.applied(action)
        reached, diverged = self._advance(applied)
        reward = task.reward(self._state[:, 1 : 1 + nq], reached[:, :nq], reached[:, nq:], applied)
        if self.noise:
            task.shake(reached, self._draw_noise(diverged))
        qpos, qvel = reached[:, :nq], reached[:, nq:]
        cost = task.constraint.holds(qpos[:, task.constraint_index]).astype(np.float64)
        terminated = task.terminated(qpos, qvel) if task.terminated else np.zeros(self.num_envs, np.bool_)
        self._steps += 1
        truncated = ~terminated & (self._steps >= self.horizon)
        if diverged is not None:
            truncated |= diverged
        self._state[:, 1:] = reached

        obs = final_obs = task.observe(reached)
        done = terminated | truncated
        if done.any():
            rows = np.flatnonzero(done)
            self._reset_rows(rows)
            obs = final_obs.copy()
            obs[rows] = task.observe(self._state[rows, 1:])
        return Step(obs, reward, cost, terminated, truncated, final_obs)

    def _advance(self, applied: Array) -> tuple[Array, Flags | None]:
        """The states (N, nq + nv) that the applied actions lead to, and which copies diverged (None: none did).

        A copy that diverged (MuJoCo then resets itself to the default pose) stays where it was and is truncated.
        """
        task = self.task
        if task.kinematics:
            still = np.zeros((self.num_envs, task.nv))
            return np.concatenate([task.kinematics(self._state[:, 1 : 1 + task.nq], applied), still], axis=1), None
        self._control[:] = applied[:, None]
        self._rollout.rollout(
            self._models,
            self._datas,
            self._state,
            self._control,
            skip_checks=True,
            nstep=task.frame_skip,
            state=self._out,
            chunk_size=self._chunk,
        )
        last = self._out[:, -1]
        reached = last[:, 1:].copy()
        # The sum of a row is finite only if each of its entries is.
        broken = (last[:, 0] < self.dt * 0.9) | ~np.isfinite(last.sum(axis=1))
        if not broken.any():
            return reached, None
        reached[broken] = self._state[broken, 1:]
        return reached, broken

    def _draw_noise(self, diverged: Flags | None) -> Array:
        noise = np.zeros((self.num_envs, self.task.noise_size))
        for row, rng in enumerate(self._rngs):
            if diverged is None or not diverged[row]:
                rng.standard_normal(out=noise[row])
        noise *= self.noise
        return noise

    # ------------------------------------------------------------ episodes and generators

    def _reset_rows(self, rows: NDArray[np.intp]) -> None:
        for row in rows:
            self._state[row, 1:] = self.task.draw_reset(self._init_qpos, self._rngs[row])
        self._steps[rows] = 0

    def _seed(self, seed: Seeds, mask: Flags) -> None:
        seeds = seeds_of(seed, self.num_envs)
        if not self._rngs:
            pairs = [seeding.np_random(value) for value in seeds]
            self._rngs, self._seeds = [rng for rng, _ in pairs], [value for _, value in pairs]
            return
        for row in np.flatnonzero(mask):
            if seeds[row] is not None:
                self._rngs[row], self._seeds[row] = seeding.np_random(seeds[row])

    # ------------------------------------------------------------ saving

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that the future depends on, as arrays: qpos (N, nq), qvel (N, nv), steps (N,), rng (N, 6).

        `set_state` with it continues bit by bit.
        """
        if not self._started:
            raise gym.error.ResetNeeded("call reset() before get_state()")
        nq = self.task.nq
        return {
            "qpos": self._state[:, 1 : 1 + nq].copy(),
            "qvel": self._state[:, 1 + nq :].copy(),
            "steps": self._steps.copy(),
            "rng": np.stack([pack_rng(rng) for rng in self._rngs]),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned, in this or another process."""
        n, task = self.num_envs, self.task
        shapes = {"qpos": (n, task.nq), "qvel": (n, task.nv), "steps": (n,), "rng": (n, RNG_WORDS)}
        check_state(state, shapes, f"{n} copies of {task.name}")
        self._state[:, 1 : 1 + task.nq] = state["qpos"]
        self._state[:, 1 + task.nq :] = state["qvel"]
        self._steps[:] = state["steps"]
        self._rngs = [unpack_rng(row) for row in state["rng"]]
        self._seeds = [-1] * n
        self._started = True
