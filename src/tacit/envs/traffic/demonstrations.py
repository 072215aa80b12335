"""Demonstrations as problem and actions: small files from which the trajectories are replayed when they are loaded.

The environment is deterministic: which problem was driven, and what the driver did, says everything. A trajectory of
200 steps takes 1.6 kB instead of 60. Replaying checks that every episode ends when, and earns what, it did when it was
recorded, so that other recordings or a changed simulator are noticed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demos.data import Demonstrations, Trajectory, from_trajectories, make_card
from tacit.envs.traffic.env import TrafficVectorEnv, problems_at
from tacit.envs.traffic.layout import Traffic
from tacit.envs.traffic.observation import FEATURES
from tacit.errors import UserError
from tacit.run.storage import load_arrays, save_arrays, sha256_of_arrays

SUFFIX = ".replay.safetensors"
MOST_ROWS = 1 << 21
"""Trajectories times steps of the longest; an observation has 74 numbers."""
IDS = {"tacit/HighwayDistance-v0": "distance", "tacit/HighwayVelocity-v0": "velocity"}


def fingerprint(traffic: Traffic) -> str:
    """Identifies the problems and the traffic around them."""
    return sha256_of_arrays({"table": traffic.table, "starts": traffic.starts, **vars(traffic.problems)})


def save_replay(demos: Demonstrations, path: str | os.PathLike[str]) -> None:
    """Write demonstrations driven in a highway environment, which their card names, as problem and actions."""
    if not os.fspath(path).endswith(SUFFIX):
        raise UserError(f"demonstrations to be replayed are called something{SUFFIX}, not {os.fspath(path)!r}")
    env = _make(demos.card, 1)
    problems = problems_at(env.traffic, demos.observations[demos.row_offsets])
    if (problems < 0).any():
        raise UserError(f"trajectory {np.argmax(problems < 0)} does not start as any problem of these recordings does")
    card = dict(demos.card) | {"fingerprint": fingerprint(env.traffic)}
    arrays: dict[str, np.ndarray] = {
        "problem": problems,
        "actions": demos.actions.astype(np.float32),
        "lengths": demos.lengths,
        "returns": demos.returns,
    }
    replay_demonstrations(arrays, card)
    save_arrays(path, arrays, card)


def load_replay(path: str | os.PathLike[str]) -> Demonstrations:
    """Read such a file and replay it; UserError if the trajectories do not come out as they were."""
    arrays, card = load_arrays(path)
    try:
        return replay_demonstrations(arrays, card)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def replay_demonstrations(arrays: Mapping[str, np.ndarray], card: Mapping[str, Any]) -> Demonstrations:
    """Trajectories from problem (n,), lengths (n,), returns (n,), actions (sum of lengths, 2) and a card."""
    missing = [name for name in ("problem", "actions", "lengths", "returns") if name not in arrays]
    if missing:
        raise UserError(f"demonstrations to be replayed need {', '.join(missing)}")
    problem, lengths, actions = (np.asarray(arrays[name]) for name in ("problem", "lengths", "actions"))
    if lengths.ndim != 1 or lengths.size == 0 or lengths.dtype.kind not in "iu" or actions.dtype.kind != "f":
        raise UserError("lengths are integers, one per trajectory, and actions are floats")
    total = sum(map(int, lengths))  # of Python's integers, which do not overflow
    if lengths.min() < 1 or actions.shape != (total, 2) or not np.isfinite(actions).all():
        raise UserError("the lengths of the trajectories do not fit the actions")
    if len(lengths) * int(lengths.max()) > MOST_ROWS:  # all are driven side by side, as long as the longest
        raise UserError(f"{len(lengths)} trajectories of up to {int(lengths.max())} steps are too many for one file")
    returns = np.asarray(arrays["returns"])
    if problem.shape != lengths.shape or returns.shape != lengths.shape or returns.dtype.kind not in "iuf":
        raise UserError("there must be one problem and one return per trajectory")
    env = _make(card, len(lengths))
    if card.get("fingerprint") not in (None, fingerprint(env.traffic)):
        raise UserError("they were driven on other recordings: give the same recordings and options, or record anew")
    actions = actions.astype(np.float32)
    driven = env.drive(problem, actions, lengths)
    trajectories = []
    for i, (end, length) in enumerate(zip(np.cumsum(lengths), lengths, strict=True)):
        steps = slice(end - length, end)
        seen = np.concatenate([driven.first[i : i + 1], driven.observations[steps]])
        rewards = driven.rewards[steps]
        if not driven.ended[i] or not np.isclose(rewards.sum(), returns[i]):
            raise UserError(f"trajectory {i} does not end as it did when it was recorded: the simulator has changed")
        trajectories.append(Trajectory(seen, actions[steps], rewards, driven.costs[steps], terminated=True))
    basis = make_card(env=card.get("env"), env_kwargs=card.get("env_kwargs"), feature_names=FEATURES)
    return from_trajectories(trajectories, {**basis, **card})


def _make(card: Mapping[str, Any], n: int) -> TrafficVectorEnv:
    env_id = card.get("env")
    if isinstance(env_id, str):
        env_id = env_id.rpartition(":")[2]  # tacit:tacit/..., as Gymnasium also has it
    if not isinstance(env_id, str) or env_id not in IDS:
        raise UserError(f"only {' and '.join(IDS)} can be replayed, not {env_id!r}")
    options = card.get("env_kwargs") or {}
    if not isinstance(options, Mapping):
        raise UserError(f"the card's env_kwargs must be a mapping, not a {type(options).__name__}")
    try:
        return TrafficVectorEnv(n, IDS[env_id], **options)
    except TypeError as error:
        raise UserError(f"the card's env_kwargs are not options of {env_id}: {error}") from None


def shipped(env_id: str) -> Path | None:
    """The demonstrations that come with the package for a highway environment, if there are any."""
    name = env_id.rpartition("/")[2].rpartition("-v")[0].lower()
    file = Path(__file__).parent / "data" / f"{name}{SUFFIX}"
    return file if file.is_file() else None
