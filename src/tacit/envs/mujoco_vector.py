"""N copies of a robot task stepped together: `gymnasium.make_vec("tacit/Ant-v0", num_envs=32)`.

All copies live in one array, a row (time, qpos, qvel) each. One C call (`mujoco.rollout`) moves every copy by
frame_skip sub-steps; reward, termination and cost are the vectorised functions of the task. Python touches a single
copy only when its episode ends (and for the process noise, which every copy draws from its own generator).

Copy i behaves like `RobotEnv` seeded with seed + i, bit by bit, whatever the number of copies or threads: the
constraint solver starts cold at every step (which is as fast as keeping a warm start, see docs/environments.md), so
that a step is a pure function of (qpos, qvel, action) and there is no hidden solver state to save.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.envs import robots
from tacit.envs.batched import BatchedEnv, Flags, Step, check_actions, check_render_mode, whole_number
from tacit.envs.robots import Array, RobotEnv, check_horizon


class RobotVectorEnv(robots.Robot, BatchedEnv):
    """N copies of a robot task, see `BatchedEnv`.

    Args:
        num_envs: number of copies.
        task: name of the task, one of `tacit.envs.robots.TASKS`.
        noise: standard deviation of the process noise, as in `RobotEnv`.
        horizon: steps until an episode is cut off; the task's own by default.
        max_episode_steps: what `gymnasium.make_vec` calls a shorter horizon.
        nthread: threads that step the copies; they pay for many copies of a slow robot and change no number.
        render_mode: None or "rgb_array" (one picture per copy).
    """

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
        self._build(task, noise)
        horizon = check_horizon(self.task, horizon)
        if max_episode_steps is not None:
            horizon = min(horizon, check_horizon(self.task, max_episode_steps))
        super().__init__(num_envs, robots.observation_space(self.task), robots.action_space(self.task), horizon)
        self.nthread = whole_number("nthread", nthread)
        self.render_mode = check_render_mode(render_mode)
        self._picture = (width, height)
        self._camera: RobotEnv | None = None
        self._init_qpos: Array = self.model.qpos0.copy()
        self._open_backend()

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

    def step_arrays(self, actions: ArrayLike) -> Step:
        """One step of all copies for actions (N, nu), clipped to the action box."""
        task, nq = self.task, self.task.nq
        action = check_actions(actions, (self.num_envs, task.nu), task.name)
        self._require_started("step")

        applied = task.applied(action)
        reached, diverged = self._advance(applied)
        reward = task.reward(self._state[:, 1 : 1 + nq], reached[:, :nq], reached[:, nq:], applied)
        if self.noise:
            task.shake(reached, self._draw_noise(diverged))
        qpos, qvel = reached[:, :nq], reached[:, nq:]
        terminated = task.terminated(qpos, qvel) if task.terminated else np.zeros(self.num_envs, np.bool_)
        self._steps += 1
        truncated = ~terminated & (self._steps >= self.horizon)
        if diverged is not None:
            truncated |= diverged
        self._state[:, 1:] = reached

        obs = final_obs = task.observe(reached)
        cost = task.costs(final_obs)
        done = terminated | truncated
        if done.any():
            rows = np.flatnonzero(done)
            self._restart(rows)
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

    # ------------------------------------------------------------ episodes, saving

    def _draw_starts(self, rows: NDArray[np.intp]) -> None:
        for row in rows:
            self._state[row, 1:] = self.task.draw_reset(self._init_qpos, self._rngs[row])

    def _observe(self) -> Array:
        return self.task.observe(self._state[:, 1:].copy())

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that the future depends on, as arrays: qpos (N, nq), qvel (N, nv), steps (N,), rng (N, 6).

        `set_state` with it continues bit by bit.
        """
        return self._saved(**self._world())

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned, in this or another process."""
        self._restore(state, self.task.name, **self._world())

    def _world(self) -> dict[str, np.ndarray]:
        """Views of the positions and velocities."""
        nq = self.task.nq
        return {"qpos": self._state[:, 1 : 1 + nq], "qvel": self._state[:, 1 + nq :]}
