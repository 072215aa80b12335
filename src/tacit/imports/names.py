"""What people call observations, actions, rewards, ...: from a name in a file to its role in an episode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tacit.errors import UserError, listed


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ROLES: dict[str, tuple[str, ...]] = {
    "observations": _words("observations observation obs obss ob states state s features observation_state"),
    "original": tuple(
        f"{word}_{what}"
        for word in ("original", "orig", "raw", "unnormalized", "unnormalised", "real", "true")
        for what in ("observations", "observation", "obs", "states", "state")
    ),
    "next": _words(
        "next_observations next_observation next_obs next_states next_state new_obs new_observations new_observation "
        "obs_next observations_next observation_next next_s s_next s_prime obs2 o2 s2 next_ob successors"
    ),
    "actions": _words("actions action acts act acs ac a u control controls commands"),
    "rewards": _words("rewards reward rews rew r next_reward"),
    "sums": _words(
        "reward_sum rewards_sum sum_rewards total_reward total_rewards episode_reward episode_rewards episode_return "
        "episode_returns ep_return ep_returns ep_reward ep_rewards return"
    ),
    "costs": _words("costs cost constraint_cost constraint_costs safety_cost safety_costs true_cost"),
    "terminated": _words("terminated terminal terminals termination terminations is_terminal terminateds"),
    "truncated": _words(
        "truncated truncation truncations truncateds timeouts timeout time_limit is_truncated time_out"
    ),
    "dones": _words("dones done d is_last last is_done ends end next_done episode_end"),
    "starts": _words("episode_starts episode_start is_first starts first"),
    "lengths": _words(
        "lengths length episode_lengths episode_length ep_lengths ep_len ep_lens traj_lengths traj_lens "
        "trajectory_lengths path_lengths lens"
    ),
    "splits": ("indices",),
    "mask": ("mask", "masks", "valid", "valid_mask"),
    "episode": _words(
        "episode episodes episode_id episode_ids episode_index episode_idx episode_num ep ep_id eps traj traj_id "
        "traj_ids traj_index trajectory trajectory_id trajectory_index rollout rollout_id lap demo demo_id run run_id "
        "track_id trial trial_id"
    ),
    "step": _words("step steps t timestep timesteps time_step frame frame_index step_index index time_idx"),
}
"""Role: names, in small letters with underscores."""
IGNORED = ("time", "timestamp", "timestamps", "date", "datetime", "unnamed_0", "id", "task_index")
"""Columns of tables that are no part of an observation."""
PREFIXES = {
    "observations": ("obs", "observation", "observations", "state", "states", "s", "o", "observation_state"),
    "next": ("next_obs", "next_observation", "next_observations", "next_state", "next_s", "obs_next"),
    "actions": ("act", "action", "actions", "a", "u", "acts", "control"),
}
"""How columns of a table begin that are entries of one array, such as obs_x or action_0."""
WRAPPERS = _words(
    "data dataset episodes trajectories rollouts demos demonstrations transitions experience paths trajs steps expert "
    "buffer replay_buffer"
)
"""Names of dicts around the data."""
WHAT = {name: role for role, names in ROLES.items() for name in (role, *names)}


def plain(name: str) -> str:
    """nextObs, Next-Obs and next.obs are next_obs."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def role_of(name: str) -> str | None:
    return WHAT.get(plain(name))


def roles_of(content: Mapping[str, Any], columns: Mapping[str, str], where: str) -> dict[str, Any]:
    """{role: value} of a dict, by the names of its entries, or as the user chose with `--columns ROLE=NAME`.

    Two entries of one role are ambiguous unless they are equal. Normalised observations beside original ones are not
    taken.
    """
    by_role: dict[str, dict[str, Any]] = {}
    for name, value in content.items():
        role = role_of(name)
        if role is not None and value is not None:
            by_role.setdefault(role, {})[name] = value
    for role, chosen in columns.items():
        name, _, selection = chosen.partition("[")
        if name not in content:
            raise UserError(f"{where} has no entry {name!r} for --columns {role}={chosen}; it has {listed(content)}")
        by_role[role] = {chosen: selected(content[name], f"[{selection}" if selection else "", where)}
        if role == "observations":
            by_role.pop("original", None)
    for role, entries in by_role.items():
        values = list(entries.values())
        if len(values) > 1 and not all(same(values[0], other) for other in values[1:]):
            raise UserError(
                f"{where} has more than one reading of its {role}: {' or '.join(entries)}; "
                f"choose with --columns {role}={next(iter(entries))}"
            )
    return {role: next(iter(entries.values())) for role, entries in by_role.items()}


def selected(value: Any, selection: str, where: str) -> Any:
    """Entries of an observation or action: "[:29]", "[0,3,5]" on the last axis of every array; "" for all."""
    if not selection:
        return value
    text = selection.strip("[]")
    if not re.fullmatch(r"[\d:,\- ]+", text):
        raise UserError(f"entries are chosen as [:29], [2:5] or [0,3,5], not {selection!r}")
    if isinstance(value, list):
        return [selected(part, selection, where) for part in value]
    array = np.asarray(value)
    size = array.shape[-1] if array.ndim else 0
    chosen: list[int] = []
    for part in text.split(","):
        if ":" in part:
            ends = [int(end) if end.strip() else None for end in part.split(":")]
            chosen += range(size)[slice(*ends[:3])]
        else:
            chosen.append(int(part))
    if not chosen or max(chosen) >= size or min(chosen) < -size:
        raise UserError(f"{where} has {size} entries, numbered from 0: there is no {selection}")
    return array[..., chosen]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return False


def parsed(columns: Iterable[str]) -> dict[str, str]:
    """{"observations": "x,v"} from ["observations=x,v"]; short names of roles are understood."""
    chosen: dict[str, str] = {}
    for pair in columns:
        name, equals, value = pair.partition("=")
        role = role_of(name)
        role = "observations" if role == "original" else role
        if not equals or role is None or not value:
            raise UserError(
                f"--columns takes ROLE=NAME such as observations=x,v or actions=throttle, not {pair!r}; "
                "roles are observations, actions, rewards, costs, terminated, truncated, dones, next, episode, step"
            )
        if role in chosen:
            raise UserError(f"--columns gives {role} twice")
        chosen[role] = value
    return chosen
