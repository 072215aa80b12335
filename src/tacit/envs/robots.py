"""The robot tasks as Gymnasium environments: `gymnasium.make("tacit/Ant-v0")` and its nine siblings.

What a task is (reward, constraint, ...) is data in `robot_tasks.py`; this file steps one copy of it. Its attributes
follow Gymnasium's own MuJoCo environments: `model`, `data`, `dt`, `frame_skip`, `set_state(qpos, qvel)`.
"""

import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tacit.envs.batched import check_actions, check_render_mode
from tacit.envs.families import EnvInfo, Family, Info, Options
from tacit.envs.robot_rendering import RobotRenderer, has_display
from tacit.envs.robot_tasks import TASKS, Array, Task, find_task
from tacit.errors import UserError, install_command

__all__ = ["TASKS", "RobotEnv", "Task", "action_space", "check_noise", "find_task", "load_model", "observation_space"]


def load_model(task: Task) -> Any:
    """The compiled MuJoCo model of a task."""
    try:
        import mujoco
    except ModuleNotFoundError as error:
        raise UserError(f"the robot environments need MuJoCo: {install_command('robots')}") from error
    except ImportError as error:  # versions 3 and 4 share files: upgrading in place leaves neither
        raise UserError(
            "MuJoCo is installed but broken, as by an upgrade from version 3 to 4: pip uninstall mujoco mujoco-core "
            f"mujoco-studio, then {install_command('robots')}"
        ) from error
    except AttributeError as error:
        name = os.environ.get("MUJOCO_GL")
        raise UserError(f"MuJoCo does not start with MUJOCO_GL={name}: is that OpenGL library installed?") from error
    # Compiling half_cheetah.xml says that one of its attributes is deprecated, on stderr and in a log file in the
    # working directory. Nobody who makes an environment can do anything about that.
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mujoco.MjModel.from_xml_path(str(task.model_path()))
    finally:
        mujoco.set_mju_user_warning(handler)


def observation_space(task: Task) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (len(task.feature_names),), np.float64)


def action_space(task: Task) -> spaces.Box:
    return spaces.Box(-task.action_high, task.action_high, (task.nu,), np.float32)


def check_noise(noise: float) -> float:
    if not (np.isfinite(noise) and noise >= 0):
        raise UserError(f"noise must be a standard deviation, a finite number >= 0, not {noise!r}.")
    return float(noise)


def check_horizon(task: Task, horizon: int | None) -> int:
    if horizon is not None and horizon < 1:
        raise UserError(f"the horizon of an episode must be at least 1 step, not {horizon}.")
    return horizon or task.horizon


class Robot:
    """What the single and the batched environment share."""

    task: Task
    model: Any
    metadata: dict[str, Any]

    def _build(self, task: str, noise: float) -> None:
        """Set the attributes that follow from the task."""
        self.task = find_task(task)
        self.rule, self.feature_names = self.task.constraint, self.task.feature_names
        self.noise = check_noise(noise)
        self.model = load_model(self.task)
        # An attribute of the instance: the frame rate differs from task to task.
        self.metadata = {**type(self).metadata, "render_fps": round(1 / self.dt)}

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return float(self.model.opt.timestep * self.task.frame_skip)


class RobotEnv(Robot, gym.Env[Any, Any]):
    """One copy of a robot task.

    Args:
        task: name of the task, one of `TASKS`.
        noise: standard deviation of the Gaussian noise added to each coordinate of qpos and qvel after a step.
        horizon: steps until an episode is cut off; the task's own by default.
        render_mode: None, "rgb_array", "depth_array" or "human".
        width, height: size of the picture.

    A step is a pure function of (qpos, qvel, action): the constraint solver starts cold, as it does in the batched
    environment, so that `set_state` followed by the same actions gives the same numbers to the last bit.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array", "depth_array"]}  # noqa: RUF012

    def __init__(
        self,
        task: str = "HalfCheetah",
        *,
        noise: float = 0.0,
        horizon: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 480,
    ) -> None:
        self._build(task, noise)
        self.horizon = check_horizon(self.task, horizon)
        self.render_mode = check_render_mode(render_mode, self.metadata["render_modes"])
        self.width, self.height = width, height
        import mujoco

        self._mujoco = mujoco
        self.data = mujoco.MjData(self.model)
        self.frame_skip = self.task.frame_skip
        self.init_qpos, self.init_qvel = self.data.qpos.copy(), self.data.qvel.copy()
        self.observation_space = observation_space(self.task)
        self.action_space = action_space(self.task)
        self._renderer: Any = None
        self._steps: int | None = None

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Array, Info]:
        super().reset(seed=seed)
        self._mujoco.mj_resetData(self.model, self.data)
        self._steps = 0
        start = self.task.draw_reset(self.init_qpos, self.np_random)
        self.set_state(start[: self.task.nq], start[self.task.nq :])
        if self.render_mode == "human":
            self.render()
        return self._get_obs(), {"cost": 0.0}

    def step(self, action: np.ndarray) -> tuple[Array, float, bool, bool, Info]:
        """Apply an action. `info["cost"]` is 1.0 if the state reached breaks the task's constraint, else 0.0."""
        task = self.task
        action = check_actions(action, (task.nu,), task.name)
        if self._steps is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        applied = task.applied(action[None])
        before = self.state_vector()
        stable = self._advance(applied)
        after = self.state_vector()[None]
        qpos_before = before[None, : task.nq]
        reward = task.reward(qpos_before, after[:, : task.nq], after[:, task.nq :], applied)
        if self.noise and stable:
            task.shake(after, self.noise * self.np_random.standard_normal((1, task.noise_size)))
            self.set_state(after[0, : task.nq], after[0, task.nq :])
        qpos, qvel = after[:, : task.nq], after[:, task.nq :]
        terminated = bool(task.terminated(qpos, qvel)[0]) if task.terminated else False
        obs = task.observe(after)
        self._steps += 1
        truncated = not terminated and (self._steps >= self.horizon or not stable)
        if self.render_mode == "human":
            self.render()
        info: Info = {"cost": float(task.costs(obs)[0])}
        if not stable:
            info["diverged"] = True
        return obs[0], float(reward[0]), terminated, truncated, info

    def _advance(self, applied: Array) -> bool:
        """Move the simulation by one step; False, and nothing moved, if it diverged (MuJoCo then resets itself)."""
        task, data = self.task, self.data
        if task.kinematics:
            qpos = task.kinematics(data.qpos[None], applied)[0]
            data.time += self.dt
            self.set_state(qpos, np.zeros(task.nv))
            return True
        before = data.qpos.copy(), data.qvel.copy(), data.time
        data.ctrl[:] = applied[0]
        data.qacc_warmstart[:] = 0
        self._mujoco.mj_step(self.model, data, self.frame_skip)
        if not data.warning.number.any() and np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all():
            return True
        self._mujoco.mj_resetData(self.model, data)
        data.time = before[2]
        self.set_state(before[0], before[1])
        return False

    def set_state(self, qpos: Array, qvel: Array) -> None:
        """Put the robot into a state: qpos (nq,), qvel (nv,)."""
        qpos, qvel = np.asarray(qpos, np.float64), np.asarray(qvel, np.float64)
        if qpos.shape != (self.task.nq,) or qvel.shape != (self.task.nv,):
            raise UserError(
                f"{self.task.name} has qpos of shape ({self.task.nq},) and qvel of shape ({self.task.nv},),"
                f" not {qpos.shape} and {qvel.shape}."
            )
        self.data.qpos[:] = qpos
        self.data.qvel[:] = qvel
        self._mujoco.mj_forward(self.model, self.data)

    def state_vector(self) -> Array:
        """(qpos, qvel) as one fresh vector."""
        return np.concatenate([self.data.qpos, self.data.qvel])

    def _get_obs(self) -> Array:
        return self.task.observe(self.state_vector()[None])[0]

    def render(self) -> Any:
        """A picture in the render mode, with the forbidden ground in red."""
        if self.render_mode is None:
            gym.logger.warn(
                'render() does nothing without a render mode: gymnasium.make(..., render_mode="rgb_array").'
            )
            return None
        if self._renderer is None:
            if self.render_mode == "human":
                if not has_display():
                    raise UserError('there is no display for render_mode="human": use "rgb_array".')
                from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

                self._renderer = MujocoRenderer(self.model, self.data, {"distance": self.task.camera["distance"]})
            else:
                self._renderer = RobotRenderer(self.task, self.model, self.data, self.width, self.height)
        return self._renderer.render(self.render_mode)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


FAMILY = Family(
    tuple(
        EnvInfo(
            id=f"tacit/{task.name}-v0",
            constraint=f"stay out of {str(task.constraint).replace('x_position', 'x')}",
            horizon=task.horizon,
            observation=f"Box({len(task.feature_names)}): qpos{' without the place' if task.unobserved else ''}, qvel",
            action=f"Box({task.nu}): [-{task.action_high:g}, {task.action_high:g}]",
            entry_point="tacit.envs.robots:RobotEnv",
            vector_entry_point="tacit.envs.mujoco_vector:RobotVectorEnv",
            extra="robots",
            kwargs={"task": task.name},
        )
        for task in TASKS.values()
    )
)
