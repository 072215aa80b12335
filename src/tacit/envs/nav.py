"""Navigation around a hidden region: `tacit/Nav-v0`.

A point mass in [-3, 3]^2 with two accelerations starts at rest and goes to a goal more than 3 away. The reward is the
progress to the goal, -0.01 per step and +1 at the goal, which ends the episode. Hidden: a set of discs and boxes that
must not be entered.

    env = gymnasium.make("tacit/Nav-v0", shape="ell")
    env = gymnasium.make("tacit/Nav-v0", shape=[{"disc": [1, 0, 0.5]}, {"box": [-2, -1, -1, 1]}])
    env = gymnasium.make("tacit/Nav-v0", starts=[-3, -3, -1, 3], goals=[1, -3, 3, 3], top_speed=2.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.envs.batched import whole_number
from tacit.envs.capabilities import Rule
from tacit.envs.drawing import AGENT, FORBIDDEN, GOAL, Plane
from tacit.envs.shapes import Shape, Shapes, ShortestWay, read_shapes
from tacit.envs.tasks import Moved, Style, Task, TaskEnv, TaskVectorEnv, completed, task_family
from tacit.errors import UserError

Array = NDArray[Any]
Flags = NDArray[np.bool_]
ENV_ID = "tacit/Nav-v0"
SHAPES: dict[str, list[Shape]] = {
    "disc": [{"disc": [0.0, 0.0, 1.0]}],
    "discs": [{"disc": [-1.1, 0.7, 0.8]}, {"disc": [1.1, -0.7, 0.8]}],
    "ell": [{"box": [-1.4, -1.2, -0.8, 1.4]}, {"box": [-1.4, -1.2, 1.2, -0.6]}],
    "wall": [{"box": [-0.3, -4.0, 0.3, 1.0]}],  # beyond the border, along which one could slip past
}
"""Built-in hidden regions."""
HALF_WIDTH, TOP_SPEED, ACCELERATION, DT = 3.0, 1.0, 2.0, 0.1
GOAL_RADIUS, FAR, CLEARANCE = 0.25, 3.0, 0.25
"""Distance at which the goal is reached; least distance of start and goal; their least distance from the shapes."""
DRAWS = 10_000
FAMILY = task_family(
    __name__,
    "Nav",
    200,
    constraint="stay out of a region (shape = disc, discs, ell, wall or a list of discs and boxes)",
    observation="Box(6): x, y, vx, vy, goal_dx, goal_dy",
    action="Box(2): accelerations",
)


def move_point(
    position: Array, velocity: Array, actions: Array, half_width: float, top_speed: float = TOP_SPEED
) -> tuple[Array, Array]:
    """(positions, velocities) of point masses (..., 2) after one step; a border stops the speed towards it."""
    velocity = velocity + DT * ACCELERATION * actions
    speed = np.sqrt((velocity**2).sum(axis=-1, keepdims=True))
    velocity = velocity * np.minimum(1.0, top_speed / np.maximum(speed, 1e-12))
    free = position + DT * velocity
    reached = np.clip(free, -half_width, half_width)
    return reached, np.where(reached == free, velocity, 0.0)


def progress(goal: Array, before: Array, after: Array) -> tuple[Array, Flags]:
    """((N,) reward of moving towards the goal, with a small price per step and +1 for arriving; (N,) arrived?)."""
    left, was = (np.hypot(goal[:, 0] - place[:, 0], goal[:, 1] - place[:, 1]) for place in (after, before))
    arrived = left < GOAL_RADIUS
    return was - left - 0.01 + arrived, arrived


def actions_towards(velocity: Array, wanted: Array) -> Array:
    """Actions (..., 2) that change the velocity to the wanted one as fast as possible, without turning the change."""
    change = (wanted - velocity) / (DT * ACCELERATION)
    return np.asarray(change / np.maximum(1.0, np.abs(change).max(axis=-1, keepdims=True)))


class Nav(Task):
    """The task. A state is x, y, vx, vy, goal x, goal y."""

    name = ENV_ID
    feature_names = ("x", "y", "vx", "vy", "goal_dx", "goal_dy")
    dt = DT
    action_size = 2

    def __init__(
        self,
        shape: str | Sequence[Shape] = "disc",
        horizon: int = 200,
        *,
        starts: Sequence[float] | None = None,
        goals: Sequence[float] | None = None,
        top_speed: float = TOP_SPEED,
    ) -> None:
        if isinstance(shape, str) and shape not in SHAPES:
            raise UserError(f"shape is one of {', '.join(SHAPES)} or a list of shapes, not {shape!r}")
        self.shapes = read_shapes(SHAPES[shape] if isinstance(shape, str) else shape)
        self.horizon = whole_number("horizon", horizon)
        self.starts, self.goals = _area("starts", starts), _area("goals", goals)
        self.top_speed = float(top_speed)
        if not 0 < self.top_speed < np.inf:
            raise UserError(f"top_speed must be a positive number, not {top_speed!r}")
        ends = [HALF_WIDTH, HALF_WIDTH, self.top_speed, self.top_speed, 2 * HALF_WIDTH, 2 * HALF_WIDTH]
        self.high = np.array(ends) + 1e-6
        self.low = -self.high
        self.rule = Rule(text=f"inside {_described(self.shapes)}", predicate=lambda obs: self.shapes.inside(obs[:, :2]))

    def draw(self, rng: np.random.Generator) -> Array:
        """A start and a goal that are far apart and clear of the shapes."""
        for _ in range(DRAWS):
            both = rng.uniform((self.starts[:2], self.goals[:2]), (self.starts[2:], self.goals[2:]))
            if np.hypot(*(both[1] - both[0])) > FAR and not self.shapes.inside(both, CLEARANCE).any():
                return np.concatenate([both[0], np.zeros(2), both[1]])
        raise UserError(f"{ENV_ID}: the shapes leave no room for a start and a goal that are {FAR:g} apart")

    def advance(self, state: Array, actions: Array) -> Moved:
        """Move, and pay for the progress."""
        goal = state[:, 4:]
        position, velocity = move_point(state[:, :2], state[:, 2:4], actions, HALF_WIDTH, self.top_speed)
        return Moved(np.concatenate([position, velocity, goal], axis=1), *progress(goal, state, position))

    def observe(self, state: Array) -> Array:
        """Position, velocity and the way to the goal."""
        return np.concatenate([state[:, :4], state[:, 4:] - state[:, :2]], axis=1, dtype=np.float32)

    def succeeded(self, final_obs: Array) -> Flags:
        """(N,) whether the goal is reached."""
        return np.asarray(np.hypot(final_obs[:, 4], final_obs[:, 5]) < GOAL_RADIUS + 1e-5)

    def draw_picture(self, state: Array) -> Array:
        """The arena from above."""
        plane = Plane(-HALF_WIDTH, HALF_WIDTH, -HALF_WIDTH, HALF_WIDTH)
        for disc in self.shapes.discs:
            plane.disc(disc[0], disc[1], disc[2], FORBIDDEN)
        for box in self.shapes.boxes:
            plane.box(box[0], box[1], box[2], box[3], FORBIDDEN)
        plane.disc(state[4], state[5], GOAL_RADIUS, GOAL)
        plane.line([state[:2], state[:2] + 0.5 * state[2:4]], AGENT)
        plane.disc(state[0], state[1], 0.08, AGENT)
        return plane.pixels()


def _area(name: str, corners: Sequence[float] | None) -> Array:
    """(x0, y0, x1, y1) in which starts or goals are drawn; by default nearly the whole arena."""
    inner = 0.95 * HALF_WIDTH
    if corners is None:
        return np.array([-inner, -inner, inner, inner])
    area = np.asarray(corners, np.float64)
    if area.shape != (4,) or not np.isfinite(area).all() or not (area[:2] < area[2:]).all():
        raise UserError(f"{name} is a box [x0, y0, x1, y1] with x0 < x1 and y0 < y1, not {corners!r}")
    return np.clip(area, -inner, inner)


def _described(shapes: Shapes) -> str:
    discs = [f"the disc around ({x:g}, {y:g}) of radius {radius:g}" for x, y, radius in shapes.discs]
    boxes = [f"the box {x0:g} < x < {x1:g}, {y0:g} < y < {y1:g}" for x0, y0, x1, y1 in shapes.boxes]
    return " or ".join(discs + boxes)


complete_options = partial(completed, Nav)


class NavEnv(TaskEnv, task=Nav):
    """One point mass."""


class NavVectorEnv(TaskVectorEnv, task=Nav):
    """`num_envs` point masses."""


class NavExpert:
    """Steers along the shortest way around the shapes, near the top speed, and can always brake in time.

    The action is the one that it wants, or the nearest of a few candidates after which full braking stays outside of
    the shapes. So it never enters them, whatever its style.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.shapes = Nav(options.get("shape", "disc")).shapes
        self.top_speed = float(options.get("top_speed", TOP_SPEED))
        # Until the mass stands still from the top speed, and one more.
        self.braking_steps = 1 + math.ceil(self.top_speed / (DT * ACCELERATION) - 1e-9)
        self.way = ShortestWay(self.shapes, HALF_WIDTH, CLEARANCE)
        angles = np.linspace(0.0, 2 * np.pi, 16, endpoint=False)
        self.others = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        self.style = Style(3)

    def __call__(self, obs: Array, rng: np.random.Generator) -> Array:
        """(N, 2) actions."""
        state = np.asarray(obs, np.float64)
        position, velocity, goal = state[:, :2], state[:, 2:4], state[:, :2] + state[:, 4:]
        style = self.style.draw(len(state), rng)
        heading = self.way.next_point(position, goal) - position
        angle = np.arctan2(heading[:, 1], heading[:, 0]) + 0.08 * style[:, 0]
        speed = self.top_speed * (0.96 + 0.03 * style[:, 1])
        wanted = actions_towards(velocity, speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
        wanted = np.clip(wanted + 0.03 * rng.normal(size=wanted.shape), -1.0, 1.0)
        return self._safe(position, velocity, wanted).astype(np.float32)

    def _safe(self, position: Array, velocity: Array, wanted: Array) -> Array:
        """(N, 2) the wanted actions, or the nearest ones after which braking keeps outside of the shapes."""
        brake = actions_towards(velocity, np.zeros_like(velocity))
        n, others = len(wanted), len(self.others)
        tried = np.concatenate([wanted[:, None], brake[:, None], np.broadcast_to(self.others, (n, others, 2))], axis=1)
        at, moving = move_point(position[:, None], velocity[:, None], tried, HALF_WIDTH, self.top_speed)
        # Actions are given as 32-bit floats, and so are observations: a hair more than the shapes.
        hit = self.shapes.inside(at, 1e-3)
        for _ in range(self.braking_steps):
            brakes = actions_towards(moving, np.zeros_like(moving))
            at, moving = move_point(at, moving, brakes, HALF_WIDTH, self.top_speed)
            hit |= self.shapes.inside(at, 1e-3)
        unlike = ((tried - wanted[:, None]) ** 2).sum(axis=-1) + np.where(hit, 1e3, 0.0)
        return np.asarray(tried[np.arange(n), unlike.argmin(axis=1)])
