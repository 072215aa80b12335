"""The ten robot tasks as data: model, observation, reward, termination, constraint, reset.

One frozen `Task` per robot. The single environment (`robots.py`) and the batched one (`mujoco_vector.py`) both read it,
so that there is one place where a reward is written. All functions are vectorised: they take arrays with one row per
copy. Positions are joint positions (qpos) after the step; actions are the ones applied, that is clipped to the box (and
with the dead motors at zero). Nothing here needs MuJoCo, so the tasks can be listed where it is not installed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import gymnasium
import numpy as np
from numpy.typing import NDArray

from tacit.envs.capabilities import Rule
from tacit.errors import UserError, did_you_mean

Array = NDArray[np.float64]
Reward = Callable[[Array, Array, Array, Array], Array]
"""(qpos before (n, nq), qpos after (n, nq), qvel after (n, nv), applied action (n, nu)) -> reward (n,)"""
Terminated = Callable[[Array, Array], NDArray[np.bool_]]
"""(qpos after (n, nq), qvel after (n, nv)) -> terminated (n,)"""


@dataclass(frozen=True)
class Task:
    """One robot task. `nq`, `nv` are the sizes of qpos and qvel.

    The observation is qpos (without the first `unobserved` entries), then qvel, then `extra`.
    """

    name: str
    description: str
    model: str
    """XML file among Gymnasium's MuJoCo assets, or (Point) among our own."""
    frame_skip: int
    dt: float
    """Seconds per step: frame_skip times the model's time step."""
    horizon: int
    position_names: tuple[str, ...]
    velocity_names: tuple[str, ...]
    action_names: tuple[str, ...]
    reward: Reward = field(repr=False)
    constraint: Rule
    """What the robot must not do."""
    action_high: float = 1.0
    """The action box is [-action_high, action_high] in every coordinate."""
    reset_qpos: float = 0.1
    """Half-width of the uniform noise on the initial qpos."""
    reset_qvel: float = 0.1
    """Half-width of the uniform noise on the initial qvel, or its standard deviation if `reset_qvel_normal`."""
    reset_qvel_normal: bool = False
    terminated: Terminated | None = field(default=None, repr=False)
    dead_actions: tuple[int, ...] = ()
    """Motors that do not work: their actions are set to zero."""
    free_joint: bool = False
    """qpos[3:7] is a unit quaternion."""
    kinematics: Callable[[Array, Array], Array] | None = field(default=None, repr=False)
    """(qpos (n, nq), action (n, nu)) -> next qpos (n, nq) for a robot that is moved without physics."""
    extra: Callable[[Array], Array] | None = field(default=None, repr=False)
    """qpos (n, nq) -> further observation entries (n, k)."""
    extra_names: tuple[str, ...] = ()
    unobserved: int = 0
    """How many of the first positions the observation leaves out."""
    observed_speed: float = np.inf
    """Velocities are clipped to this size in the observation."""
    camera: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def nq(self) -> int:
        return len(self.position_names)

    @property
    def nv(self) -> int:
        return len(self.velocity_names)

    @property
    def nu(self) -> int:
        return len(self.action_names)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        return self.position_names[self.unobserved :] + self.velocity_names + self.extra_names

    @cached_property
    def constraint_index(self) -> int:
        """Which entry of the observation the constraint reads."""
        return self.feature_names.index(self.constraint.feature)

    @cached_property
    def action_scale(self) -> Array:
        """1 for a motor that works, 0 for a dead one; (nu,)."""
        scale = np.ones(self.nu)
        scale[list(self.dead_actions)] = 0.0
        return scale

    @cached_property
    def noise_size(self) -> int:
        """How many coordinates the process noise shakes. A robot without physics has no velocity to shake."""
        return self.nq if self.kinematics else self.nq + self.nv

    def applied(self, actions: Array) -> Array:
        """What the motors do: actions clipped to the box, dead motors at zero; (n, nu) float64 from any float type."""
        clipped = np.minimum(np.maximum(actions, -self.action_high, dtype=np.float64), self.action_high)
        return clipped * self.action_scale if self.dead_actions else clipped

    def observe(self, state: Array) -> Array:
        """Observation (n, obs) from rows (qpos, qvel), (n, nq + nv); that array itself if it is shown as it is."""
        obs = state
        if self.unobserved:
            obs = obs[:, self.unobserved :].copy()
        if self.observed_speed < np.inf:
            speeds = slice(self.nq - self.unobserved, None)
            obs = obs.copy()
            obs[:, speeds] = obs[:, speeds].clip(-self.observed_speed, self.observed_speed)
        return obs if self.extra is None else np.concatenate([obs, self.extra(state[:, : self.nq])], axis=1)

    def costs(self, obs: Array) -> Array:
        """(n,) 1.0 where an observation (n, obs) breaks the constraint, else 0.0."""
        return self.constraint.holds(obs[:, self.constraint_index]).astype(np.float64)

    def draw_reset(self, init_qpos: Array, rng: np.random.Generator) -> Array:
        """An initial (qpos, qvel), (nq + nv,). Same draws in the same order as Gymnasium's robots of the same model."""
        qpos = init_qpos + rng.uniform(-self.reset_qpos, self.reset_qpos, self.nq)
        if self.reset_qvel_normal:
            return np.concatenate([qpos, self.reset_qvel * rng.standard_normal(self.nv)])
        return np.concatenate([qpos, rng.uniform(-self.reset_qvel, self.reset_qvel, self.nv)])

    def shake(self, state: Array, noise: Array) -> None:
        """Add process noise (n, noise_size) to rows (qpos, qvel), in place; orientations stay unit quaternions."""
        state[:, : self.noise_size] += noise
        if self.free_joint:
            quaternion = state[:, 3:7]
            quaternion /= np.sqrt(_squared(quaternion))[:, None]

    def model_path(self) -> Path:
        own = Path(__file__).with_name("assets") / self.model
        if own.exists():
            return own
        return Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / self.model


def find_task(name: str) -> Task:
    """The task of that name. The error for an unknown name suggests the nearest one."""
    if name in TASKS:
        return TASKS[name]
    raise UserError(f"there is no robot task {name!r}; {did_you_mean(str(name), TASKS)}")


# ---------------------------------------------------------------- rewards


def _squared(rows: Array) -> Array:
    """Squared Euclidean norm of each row; (n,)."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _travel(dt: float, control: float, alive: float = 0.0) -> Reward:
    """|distance along x| / dt + alive - control |a|^2: the robot may run either way."""

    def reward(before: Array, after: Array, velocity: Array, action: Array) -> Array:
        return np.abs(after[:, 0] - before[:, 0]) / dt + alive - control * _squared(action)

    return reward


def _forward(dt: float, control: float) -> Reward:
    """Speed along x, backwards counted negative, - control |a|^2: Gymnasium's stock reward."""

    def reward(before: Array, after: Array, velocity: Array, action: Array) -> Array:
        return (after[:, 0] - before[:, 0]) / dt - control * _squared(action)

    return reward


def _hopper_reward(before: Array, after: Array, velocity: Array, action: Array) -> Array:
    """Speed along x + [upright] - 0.001 |a|^2"""
    return _forward(dt=0.008, control=1e-3)(before, after, velocity, action) + ~_hopper_fell(after, velocity)


def _ant_reward(before: Array, after: Array, velocity: Array, action: Array) -> Array:
    """sqrt(x^2 + y^2) + [0.2 <= z <= 1.0] - 0.5 |a|^2"""
    # No contact cost: the contact forces were always zero in the data that this task comes from.
    x, y, z = after[:, 0], after[:, 1], after[:, 2]
    finite = np.isfinite(after).all(axis=1) & np.isfinite(velocity).all(axis=1)
    healthy = finite & (z >= 0.2) & (z <= 1.0)
    return np.sqrt(x * x + y * y) + healthy - 0.5 * _squared(action)


def _level_travel(before: Array, after: Array, velocity: Array, action: Array) -> Array:
    """HalfCheetah's reward - 2 |pitch|: another gait pays, in the same world and under the same constraint."""
    return _CHEETAH_TRAVEL(before, after, velocity, action) - 2.0 * np.abs(after[:, 2])


def _pendulum_reward(before: Array, after: Array, velocity: Array, action: Array) -> Array:
    """1 if x <= -0.01, 0.1 if x >= 0, linear between."""
    # Full reward needs x <= -0.01 while the constraint is broken from -0.015 on: 5 mm are legal and fully rewarded.
    return np.clip(0.1 - 90.0 * after[:, 0], 0.1, 1.0)


def _point_reward(before: Array, after: Array, velocity: Array, action: Array) -> Array:
    """x dy - y dx = radius^2 times the angle travelled counter-clockwise, divided by 1 + distance to the circle."""
    x, y = after[:, 0], after[:, 1]
    dx, dy = x - before[:, 0], y - before[:, 1]
    return (x * dy - y * dx) / (1.0 + np.abs(np.sqrt(x * x + y * y) - 10.0))


# ---------------------------------------------------------------- termination, kinematics


def _walker_fell(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    height, pitch = qpos[:, 1], qpos[:, 2]
    return ~((height > 0.8) & (height < 2.0) & (pitch > -1.0) & (pitch < 1.0))


def _hopper_fell(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    height, pitch = qpos[:, 1], qpos[:, 2]
    # Gymnasium's "healthy state": everything but x and z lies within 100.
    bounded = (np.abs(qpos[:, 2:]) < 100).all(axis=1) & (np.abs(qvel) < 100).all(axis=1)
    return ~(bounded & (height > 0.7) & (np.abs(pitch) < 0.2))


def _pendulum_fell(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    finite = np.isfinite(qpos).all(axis=1) & np.isfinite(qvel).all(axis=1)
    return ~(finite & (np.abs(qpos[:, 1]) <= 0.2))


def _point_moves(qpos: Array, action: Array) -> Array:
    """Turn by action[1], then go action[0] straight ahead; x and y stay within 40 of the origin."""
    heading = qpos[:, 2] + action[:, 1]
    x = np.clip(qpos[:, 0] + action[:, 0] * np.cos(heading), -40.0, 40.0)
    y = np.clip(qpos[:, 1] + action[:, 0] * np.sin(heading), -40.0, 40.0)
    return np.stack([x, y, heading], axis=1)


def _point_torso(qpos: Array) -> Array:
    return np.stack([qpos[:, 0], qpos[:, 1], np.zeros(len(qpos))], axis=1)


# ---------------------------------------------------------------- the tasks


def _velocities(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.removesuffix("_position") + "_velocity" for name in names)


_LEGS = ("hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3", "hip_4", "ankle_4")
_ANT = Task(
    name="Ant",
    description="A four-legged robot that is paid for its distance from the origin",
    model="ant.xml",
    frame_skip=5,
    dt=0.05,
    horizon=500,
    position_names=("x_position", "y_position", "z_position", "quat_w", "quat_x", "quat_y", "quat_z", *_LEGS),
    velocity_names=(
        *("x_velocity", "y_velocity", "z_velocity", "roll_velocity", "pitch_velocity", "yaw_velocity"),
        *_velocities(_LEGS),
    ),
    action_names=("hip_4", "ankle_4", "hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3"),
    reward=_ant_reward,
    constraint=Rule("x_position", "<", -3.0),
    reset_qvel_normal=True,
    free_joint=True,
    camera={"distance": 8.0, "elevation": -25.0, "height": 0.5, "floor": 0.0},
)

_CHEETAH_TRAVEL = _travel(dt=0.05, control=0.1)
_LEG = ("thigh", "shin", "foot")
_CHEETAH = ("x_position", "z_position", "pitch", *(f"{side}_{part}" for side in ("back", "front") for part in _LEG))
_SWIMMER = ("x_position", "y_position", "heading", "joint_1", "joint_2")
_LIMB = ("thigh", "leg", "foot")
_WALKER = ("x_position", "z_position", "pitch", *(f"{side}_{part}" for side in ("right", "left") for part in _LIMB))
_HOPPER = ("x_position", "z_position", "pitch", *_LIMB)
_POINT = ("x_position", "y_position", "heading")

_HALF_CHEETAH = Task(
    name="HalfCheetah",
    description="A planar two-legged runner that is paid for speed in either direction",
    model="half_cheetah.xml",
    frame_skip=5,
    dt=0.05,
    horizon=1000,
    position_names=_CHEETAH,
    velocity_names=_velocities(_CHEETAH),
    action_names=_CHEETAH[3:],
    reward=_CHEETAH_TRAVEL,
    constraint=Rule("x_position", "<", -3.0),
    reset_qvel_normal=True,
    camera={"distance": 5.0, "elevation": -15.0, "height": 0.6, "floor": 0.0},
)

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        _ANT,
        _HALF_CHEETAH,
        Task(
            name="Swimmer",
            description="A three-link swimmer in a viscous plane that is paid for speed in either direction",
            model="swimmer.xml",
            frame_skip=4,
            dt=0.04,
            horizon=500,
            position_names=_SWIMMER,
            velocity_names=_velocities(_SWIMMER),
            action_names=_SWIMMER[3:],
            reward=_travel(dt=0.04, control=1e-4),
            constraint=Rule("x_position", ">", 0.5),
            camera={"distance": 6.0, "elevation": -55.0, "height": 0.0, "floor": -0.1},
        ),
        Task(
            name="Walker",
            description="A planar biped that is paid for standing and for speed in either direction",
            # Not walker2d_v5.xml, which changes the friction of the right foot from 0.9 to 1.9.
            model="walker2d.xml",
            frame_skip=4,
            dt=0.008,
            horizon=500,
            position_names=_WALKER,
            velocity_names=_velocities(_WALKER),
            action_names=_WALKER[3:],
            reward=_travel(dt=0.008, control=1e-3, alive=1.0),
            constraint=Rule("x_position", "<", -3.0),
            reset_qpos=0.005,
            reset_qvel=0.005,
            terminated=_walker_fell,
            camera={"distance": 5.0, "elevation": -15.0, "height": 1.0, "floor": 0.0},
        ),
        Task(
            name="Pendulum",
            description="A cart that balances a pole and is paid for being left of the origin",
            model="inverted_pendulum.xml",
            frame_skip=2,
            dt=0.04,
            horizon=100,
            position_names=("x_position", "pole_angle"),
            velocity_names=("x_velocity", "pole_velocity"),
            action_names=("force",),
            action_high=3.0,
            reward=_pendulum_reward,
            constraint=Rule("x_position", "<", -0.015),
            reset_qpos=0.01,
            reset_qvel=0.01,
            terminated=_pendulum_fell,
            camera={"distance": 2.5, "elevation": -15.0, "height": 0.3},
        ),
        Task(
            name="Point",
            description="A point with a heading that is paid for circling the origin at radius 10 (for transfer)",
            model="point.xml",
            frame_skip=1,
            dt=0.1,
            horizon=150,
            position_names=_POINT,
            velocity_names=_velocities(_POINT),
            action_names=("speed", "turn"),
            action_high=0.25,
            reward=_point_reward,
            constraint=Rule("x_position", "<=", -3.0),
            reset_qpos=0.0,
            reset_qvel=0.0,
            kinematics=_point_moves,
            extra=_point_torso,
            extra_names=("torso_x", "torso_y", "torso_z"),
            camera={"distance": 28.0, "elevation": -55.0, "height": 0.0, "floor": 0.0},
        ),
        replace(
            _ANT,
            name="BrokenAnt",
            description="The ant with both legs on the -x side dead (for transfer)",
            dead_actions=(4, 5, 6, 7),
        ),
        replace(
            _HALF_CHEETAH,
            name="LevelHalfCheetah",
            description="The runner that is also paid for a level trunk (for transfer)",
            reward=_level_travel,
        ),
        # Gymnasium's stock v5 robots, whose observation leaves out where they are, with the limits on speed of
        # Safety-Gymnasium: half of the speed that an agent without a limit reaches there.
        replace(
            _HALF_CHEETAH,
            name="HalfCheetahVelocity",
            description="Gymnasium's HalfCheetah, paid for speed, with a speed limit",
            reward=_forward(dt=0.05, control=0.1),
            constraint=Rule("x_velocity", ">", 3.2096),
            unobserved=1,
        ),
        Task(
            name="HopperVelocity",
            description="Gymnasium's Hopper, paid for speed and for standing, with a speed limit",
            model="hopper.xml",
            frame_skip=4,
            dt=0.008,
            horizon=1000,
            position_names=_HOPPER,
            velocity_names=_velocities(_HOPPER),
            action_names=_HOPPER[3:],
            reward=_hopper_reward,
            constraint=Rule("x_velocity", ">", 0.7402),
            reset_qpos=0.005,
            reset_qvel=0.005,
            terminated=_hopper_fell,
            unobserved=1,
            observed_speed=10.0,
            camera={"distance": 4.0, "elevation": -15.0, "height": 0.9, "floor": 0.0},
        ),
        Task(
            name="SwimmerVelocity",
            description="Gymnasium's Swimmer, paid for speed, with a speed limit",
            model="swimmer.xml",
            frame_skip=4,
            dt=0.04,
            horizon=1000,
            position_names=_SWIMMER,
            velocity_names=_velocities(_SWIMMER),
            action_names=_SWIMMER[3:],
            reward=_forward(dt=0.04, control=1e-4),
            constraint=Rule("x_velocity", ">", 0.2282),
            unobserved=2,
            camera={"distance": 6.0, "elevation": -55.0, "height": 0.0, "floor": -0.1},
        ),
    )
}
