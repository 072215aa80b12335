"""Read and write demonstrations as Minari datasets. True costs are the entry `cost` of the infos.

    data = from_minari("D4RL/pen/expert-v2")                   a dataset on this machine (`download=True` fetches it)
    to_minari(data, "mine/tank/operators-v0")                  `minari.load_dataset` finds it

Minari keeps the information of the reset too: its infos have one entry more than there are steps. The cost of the
first state is not known and stands there as NaN; on reading it is left out. Demonstrations with structured observations
are read flattened, with named entries. Our card travels in the dataset's metadata as `tacit_card`.
"""

from __future__ import annotations

import shutil
import warnings
from copy import deepcopy
from typing import Any

import gymnasium as gym
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer
from minari.storage import get_dataset_path

from tacit.demos.data import Card, Demonstrations, Trajectory, from_trajectories, make_card
from tacit.envs.options import check_standalone
from tacit.envs.registry import entry_names, flat_space, flatten, is_flat
from tacit.errors import UserError, readable
from tacit.interop.hdf5 import check_file
from tacit.run.storage import from_json, to_json

PREFIX = "minari:"
"""Prefix of a dataset's id on the command line."""
CARD = "tacit_card"


def from_minari(dataset: str | Any, *, download: bool = False) -> Demonstrations:
    """Read a dataset (its id, or a `MinariDataset`). Episodes without a step are left out."""
    if isinstance(dataset, str):
        dataset = _load(dataset, download)
    with readable(f"cannot read the Minari dataset {dataset.id}"):
        space = dataset.observation_space
        flat_space(space)  # UserError for pictures and words
        trajectories = [_trajectory(dataset, space, episode) for episode in dataset.iterate_episodes() if len(episode)]
        if not trajectories:
            raise UserError(f"the Minari dataset {dataset.id} has no episodes")
        return from_trajectories(trajectories, _card(dataset))


def _load(name: str, download: bool) -> Any:
    name = name.removeprefix(PREFIX)
    with readable(f"cannot read the Minari dataset {name!r}"):
        try:
            for file in sorted(get_dataset_path(name).glob("data/*.hdf5")):
                check_file(file)
            return minari.load_dataset(name, download=download)
        except FileNotFoundError:
            there = ", ".join(sorted(minari.list_local_datasets())) or "none"
            raise UserError(
                f"there is no Minari dataset {name!r} on this machine (there are: {there}); "
                f"`minari download {name}` fetches a public one"
            ) from None


def _trajectory(dataset: Any, space: gym.Space[Any], episode: Any) -> Trajectory:
    n, where = len(episode), f"episode {episode.id} of {dataset.id}"
    if is_flat(space):
        observations = np.asarray(episode.observations)
    else:
        observations = np.stack([flatten(space, _at(episode.observations, t)) for t in range(n + 1)])
    actions = episode.actions
    if not isinstance(actions, np.ndarray):
        raise UserError(f"the actions of {dataset.id} are {dataset.action_space}; only Box and Discrete ones are read")
    if len(observations) != n + 1 or len(actions) != n:
        raise UserError(f"{where} has {len(observations)} observations and {len(actions)} actions for {n} rewards")
    costs = (episode.infos or {}).get("cost")
    if costs is not None:
        costs = np.asarray(costs, dtype=np.float64)
        if costs.shape not in ((n,), (n + 1,)):
            raise UserError(f"{where} has costs of shape {costs.shape} for {n} steps")
        costs = costs[-n:]
        costs = None if np.isnan(costs).any() else costs
    return Trajectory(observations, actions, np.asarray(episode.rewards), costs, bool(episode.terminations[-1]))


def _at(observations: Any, t: int) -> Any:
    """Observation t of a nest of arrays."""
    if isinstance(observations, dict):
        return {key: _at(value, t) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_at(value, t) for value in observations)
    return observations[t]


def _card(dataset: Any) -> Card:
    stored = dataset.storage.metadata.get(CARD)
    if stored is not None:
        try:
            return dict(from_json(stored))
        except (ValueError, TypeError, RecursionError):
            pass  # somebody else's entry of that name
    spec, space = dataset.env_spec, dataset.observation_space
    return make_card(
        env=None if spec is None else spec.id,
        env_kwargs=None if spec is None else from_json(to_json(spec.kwargs)),
        feature_names=None if is_flat(space) else entry_names(space),
        source=f"Minari dataset {dataset.id}",
    )


def to_minari(demos: Demonstrations, dataset_id: str, *, description: str | None = None) -> Any:
    """Write a dataset and return it. UserError if the name is taken. Nothing half-written stays."""
    dataset_id = dataset_id.removeprefix(PREFIX)
    try:
        path = get_dataset_path(dataset_id)
        minari.dataset.minari_dataset.parse_dataset_id(dataset_id)
    except ValueError as error:
        raise UserError(
            f"{dataset_id!r} is not a name of a Minari dataset, such as mine/tank/operators-v0: {error}"
        ) from None
    if path.exists():
        raise UserError(
            f"the Minari dataset {dataset_id!r} exists: use `minari delete {dataset_id}`, or choose another name"
        )
    spec, spaces = _environment(demos)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about fields that are left out on purpose
            dataset = minari.create_dataset_from_buffers(
                dataset_id,
                [_buffer(trajectory, i) for i, trajectory in enumerate(demos)],
                env=spec,
                observation_space=spaces[0],
                action_space=spaces[1],
                algorithm_name=demos.card.get("source") or "unknown",
                author="unknown",
                author_email="unknown",
                code_permalink="unknown",
                description=description or "Demonstrations written by Tacit.",
            )
        dataset.storage.update_metadata({CARD: to_json(demos.full_card(), sort_keys=True)})
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return dataset


def _buffer(trajectory: Trajectory, i: int) -> EpisodeBuffer:
    ended = np.zeros(len(trajectory), dtype=bool)
    ended[-1] = True
    return EpisodeBuffer(
        id=i,
        observations=trajectory.observations,  # type: ignore[arg-type,unused-ignore]
        actions=trajectory.actions,  # type: ignore[arg-type,unused-ignore]
        rewards=trajectory.rewards,  # type: ignore[arg-type,unused-ignore]
        terminations=ended & trajectory.terminated,  # type: ignore[arg-type,unused-ignore]
        truncations=ended & (not trajectory.terminated),  # type: ignore[arg-type,unused-ignore]
        infos=None if trajectory.costs is None else {"cost": np.concatenate([[np.nan], trajectory.costs])},
    )


def _environment(demos: Demonstrations) -> tuple[Any, tuple[gym.Space[Any], gym.Space[Any]]]:
    """(EnvSpec or None, (observation space, action space)): the environment's where it is known, else the data's."""
    env_id = demos.card.get("env")
    spec = None if env_id is None else gym.registry.get(env_id.rpartition(":")[2])
    if spec is None or spec.entry_point is None:
        return None, (_space(demos.observations), _space(demos.actions))
    check_standalone(env_id, demos.card.get("env_kwargs"), "the card of the demonstrations")
    spec = deepcopy(spec)
    spec.kwargs = {**spec.kwargs, **(demos.card.get("env_kwargs") or {})}
    env = gym.make(spec, disable_env_checker=True)
    try:
        # One that is registered with a class, not with the class's name, cannot be written down.
        written = spec if isinstance(spec.entry_point, str) and not spec.additional_wrappers else None
        return written, (flat_space(env.observation_space), env.action_space)
    finally:
        env.close()


def _space(array: np.ndarray) -> gym.Space[Any]:
    """The widest space of such numbers: the data do not say more."""
    if array.ndim == 1 and array.dtype.kind in "iu":
        return gym.spaces.Discrete(int(array.max()) + 1)
    if array.dtype.kind == "f":
        return gym.spaces.Box(-np.inf, np.inf, array.shape[1:], array.dtype.type)
    return gym.spaces.Box(np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, array.shape[1:], array.dtype.type)
