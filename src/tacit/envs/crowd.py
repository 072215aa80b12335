"""Moving objects of two kinds, one of which must be left alone: `tacit/Crowd-v0`.

A point mass goes to a goal, as in `nav`, among 3 to 8 objects that move straight and bounce off the borders. Their
number differs between episodes. Hidden: keep 0.8 away from every object of the kind "shy". Objects of the kind
"harmless" may be passed through.

There are eight slots, in no order. Of each is observed: the relative position and velocity, the kind (one-hot), and
whether there is an object (`present`). Slots without one are zeros. Observations are multiples of 1/256.

    env = gymnasium.make("tacit/Crowd-v0", objects=[6, 8])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost.objects import Slots
from tacit.envs.batched import whole_number
from tacit.envs.capabilities import Rule
from tacit.envs.drawing import AGENT, FORBIDDEN, GOAL, GREY, Plane
from tacit.envs.nav import DT, GOAL_RADIUS, TOP_SPEED, actions_towards, move_point, progress
from tacit.envs.rng_state import pack_rng
from tacit.envs.tasks import Moved, Style, Task, TaskEnv, TaskVectorEnv, completed, task_family
from tacit.errors import UserError

Array = NDArray[Any]
Flags = NDArray[np.bool_]
ENV_ID = "tacit/Crowd-v0"
HORIZON, SLOTS = 200, 8
HALF_WIDTH, FAR, DISTANCE, START_DISTANCE = 3.5, 4.0, 0.8, 1.5
"""Half the arena; least distance of start and goal; the hidden distance; distance of shy objects at the start."""
OBJECT_SPEED = (0.1, 0.4)
RESOLUTION = 1 / 256
"""Resolution of observations and of the expert's actions. It keeps files of demonstrations small."""
OWN = ("x", "y", "vx", "vy", "goal_dx", "goal_dy")
OF_OBJECT = ("dx", "dy", "dvx", "dvy", "shy", "harmless", "present")
SHY, PRESENT = 4, 6
"""Columns of a slot."""
FAMILY = task_family(
    __name__,
    "Crowd",
    HORIZON,
    constraint="keep 0.8 away from the nearest moving object of one kind; the other kind is harmless",
    observation="Box(62): own position, velocity and goal; eight slots of objects",
    action="Box(2): accelerations",
)


def slots_of(obs: Array) -> Array:
    """(n, 8, 7) the slots of observations (n, 62)."""
    return obs[:, len(OWN) :].reshape(len(obs), SLOTS, len(OF_OBJECT))


def too_close(obs: Array) -> Flags:
    """(n,) in which observations (n, 62) a shy object is nearer than the hidden distance."""
    slots = slots_of(obs)
    shy = (slots[..., PRESENT] > 0.5) & (slots[..., SHY] > 0.5)
    return np.asarray((shy & (slots[..., 0] ** 2 + slots[..., 1] ** 2 < DISTANCE**2)).any(axis=1))


def move_objects(position: Array, velocity: Array) -> tuple[Array, Array]:
    """(positions, velocities) of objects (..., 2) after one step; they bounce off the borders."""
    free = position + DT * velocity
    velocity = np.where(np.abs(free) > HALF_WIDTH, -velocity, velocity)
    return np.where(
        free > HALF_WIDTH, 2 * HALF_WIDTH - free, np.where(free < -HALF_WIDTH, -2 * HALF_WIDTH - free, free)
    ), velocity


class Crowd(Task):
    """The task. A state is x, y, vx, vy, goal x, goal y, then x, y, vx, vy, shy, harmless, present of eight slots."""

    name = ENV_ID
    feature_names = (*OWN, *(f"{entry}_{slot}" for slot in range(1, SLOTS + 1) for entry in OF_OBJECT))
    rule = Rule(text=f"nearer than {DISTANCE:g} to a shy object", predicate=too_close)
    objects = Slots(("dx_*", "dy_*"), kinds=("shy_*", "harmless_*"), present="present_*")
    dt = DT
    action_size = 2
    high = (
        np.concatenate(
            [
                np.array([HALF_WIDTH, HALF_WIDTH, TOP_SPEED, TOP_SPEED, 2 * HALF_WIDTH, 2 * HALF_WIDTH]),
                np.tile([2 * HALF_WIDTH, 2 * HALF_WIDTH, 2.0, 2.0, 1.0, 1.0, 1.0], SLOTS),
            ]
        )
        + 1e-6
    )
    low = -high

    def __init__(self, objects: Sequence[int] | int = (3, 8), horizon: int = HORIZON) -> None:
        ends = [objects, objects] if isinstance(objects, int) else objects
        if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
            raise UserError(f"objects is a number or the least and the largest one, such as [3, 5], not {objects!r}")
        self.fewest, self.most = (whole_number("objects", end) for end in ends)
        if not self.fewest <= self.most <= SLOTS:
            raise UserError(f"there are 1 to {SLOTS} objects, the least number first, not {objects!r}")
        self.horizon = whole_number("horizon", horizon)

    def draw(self, rng: np.random.Generator) -> Array:
        """A start and a goal that are far apart; at least one shy object; none of them near the start."""
        while True:
            both = rng.uniform(-0.95 * HALF_WIDTH, 0.95 * HALF_WIDTH, size=(2, 2))
            if np.hypot(*(both[1] - both[0])) > FAR:
                break
        slots = np.zeros((SLOTS, len(OF_OBJECT)))
        used = rng.permutation(SLOTS)[: rng.integers(self.fewest, self.most + 1)]
        for i, slot in enumerate(used):
            place = both[0]
            while np.hypot(*(place - both[0])) < START_DISTANCE:
                place = rng.uniform(-0.8 * HALF_WIDTH, 0.8 * HALF_WIDTH, size=2)
            angle, speed = rng.uniform(0.0, 2 * np.pi), rng.uniform(*OBJECT_SPEED)
            shy = i == 0 or rng.random() < 0.5
            slots[slot] = *place, speed * np.cos(angle), speed * np.sin(angle), shy, not shy, 1.0
        return np.concatenate([both[0], np.zeros(2), both[1], slots.ravel()])

    def advance(self, state: Array, actions: Array) -> Moved:
        """Move everybody, and pay for the progress."""
        goal, slots = state[:, 4:6], slots_of(state)
        position, velocity = move_point(state[:, :2], state[:, 2:4], actions, HALF_WIDTH)
        place, speed = move_objects(slots[..., :2], slots[..., 2:4])
        moved = np.concatenate([place, speed, slots[..., 4:]], axis=2).reshape(len(state), -1)
        return Moved(np.concatenate([position, velocity, goal, moved], axis=1), *progress(goal, state, position))

    def observe(self, state: Array) -> Array:
        """The whole state, relative to the point mass, with the resolution of the sensors."""
        slots = slots_of(state).copy()
        slots[..., :4] -= state[:, None, :4]
        slots[..., :4] *= slots[..., PRESENT:]
        own = [state[:, :4], state[:, 4:6] - state[:, :2], slots.reshape(len(state), -1)]
        return (np.round(np.concatenate(own, axis=1) / RESOLUTION) * RESOLUTION).astype(np.float32)

    def state_of(self, obs: Array) -> Array:
        """(state,) what an observation (62,) shows, up to the resolution of the sensors."""
        state = np.array(obs, np.float64)
        slots = slots_of(state[None])[0].copy()
        slots[:, :4] += slots[:, PRESENT:] * state[:4]
        return np.concatenate([state[:4], state[4:6] + state[:2], slots.ravel()])

    def succeeded(self, final_obs: Array) -> Flags:
        """(N,) whether the goal is reached."""
        return np.asarray(np.hypot(final_obs[:, 4], final_obs[:, 5]) < GOAL_RADIUS + RESOLUTION)

    def draw_picture(self, state: Array) -> Array:
        """The arena from above; shy objects with the distance to keep."""
        plane = Plane(-HALF_WIDTH, HALF_WIDTH, -HALF_WIDTH, HALF_WIDTH)
        slots = slots_of(state[None])[0]
        for x, y, _, _, shy, _, present in slots:
            if present and shy:
                plane.disc(x, y, DISTANCE, FORBIDDEN)
        for x, y, vx, vy, shy, _, present in slots:
            if present:
                plane.line([(x, y), (x + vx, y + vy)], GREY)
                plane.disc(x, y, 0.1, (190, 40, 40) if shy else GREY)
        plane.disc(state[4], state[5], GOAL_RADIUS, GOAL)
        plane.line([state[:2], state[:2] + 0.5 * state[2:4]], AGENT)
        plane.disc(state[0], state[1], 0.1, AGENT)
        return plane.pixels()


complete_options = partial(completed, Crowd)


class CrowdEnv(TaskEnv, task=Crowd):
    """One point mass among objects."""

    task: Crowd

    def state_of(self, obs: Array) -> dict[str, Array]:
        """The state that an observation shows, for `set_state`; the generator is a new one."""
        rng = pack_rng(np.random.default_rng(0))
        return {"world": self.task.state_of(obs), "steps": np.array(0), "rng": rng}


class CrowdVectorEnv(TaskVectorEnv, task=Crowd):
    """`num_envs` point masses, each among objects of its own."""


class CrowdExpert:
    """Looks ahead: tries many velocities, one after the other, and takes the best that stays clear of shy objects.

    A plan is a velocity for a few steps, and then straight to the goal, aside, or standing still. The objects' ways are
    known, bounces included.
    """

    LENGTHS = (5, 15)
    """Steps with the first and with the second velocity."""
    LATER = (0, 2, 10, 12)
    """The second velocities, out of the first ones: ahead, 60 degrees to either side, none."""
    CLEARANCE = 0.06
    """How much further away than necessary it plans to stay."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.angles = np.linspace(0.0, 2 * np.pi, 12, endpoint=False)
        self.style = Style(3)

    def __call__(self, obs: Array, rng: np.random.Generator) -> Array:
        """(N, 2) actions."""
        state = np.asarray(obs, np.float64)
        n, style = len(state), self.style.draw(len(obs), rng)
        position, velocity, goal = state[:, :2], state[:, 2:4], state[:, :2] + state[:, 4:6]
        ahead = np.arctan2(state[:, 5], state[:, 4]) + 0.05 * style[:, 0]
        angle = ahead[:, None] + self.angles
        speed = TOP_SPEED * (0.96 + 0.03 * style[:, 1])
        moves = speed[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=2)
        moves = np.concatenate([moves, np.zeros((n, 1, 2))], axis=1)  # or stand still
        m = moves.shape[1]
        first = np.repeat(moves, len(self.LATER), axis=1)
        second = np.tile(moves[:, self.LATER], (1, m, 1))
        slots = slots_of(state)
        place, drift = slots[..., :2] + position[:, None], slots[..., 2:4] + velocity[:, None]
        shy = (slots[..., PRESENT] > 0.5) & (slots[..., SHY] > 0.5)
        place = np.where(shy[..., None], place, 1e3)
        keep = DISTANCE + self.CLEARANCE * (1.0 + 0.5 * style[:, 2:3])
        at, moving = (np.broadcast_to(one[:, None], first.shape) for one in (position, velocity))
        loss, on_the_way = np.zeros(first.shape[:2]), np.ones(first.shape[:2], np.bool_)
        for t in range(sum(self.LENGTHS)):
            wanted = first if t < self.LENGTHS[0] else second
            at, moving = move_point(at, moving, actions_towards(moving, wanted), HALF_WIDTH)
            bounced, drift = move_objects(place, drift)
            place = np.where(shy[..., None], bounced, 1e3)
            nearest = ((at[:, :, None] - place[:, None]) ** 2).sum(axis=-1).min(axis=2)
            away = np.sqrt(((at - goal[:, None]) ** 2).sum(axis=-1))
            # Sooner is worse: there is less time to find a better plan.
            loss += on_the_way * (np.maximum(keep**2 - nearest, 0.0) * 1e3 * 0.9**t + away)
            on_the_way &= away > 0.9 * GOAL_RADIUS  # the episode ends there
        best = loss.argmin(axis=1)
        action = actions_towards(velocity, first[np.arange(n), best])
        action = np.clip(action + 0.02 * rng.normal(size=action.shape), -1.0, 1.0)
        return (np.round(action / RESOLUTION) * RESOLUTION).astype(np.float32)
