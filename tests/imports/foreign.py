"""Files as other people write them, made from our own demonstrations: one function per layout."""

from __future__ import annotations

import csv
import json
import pickle
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demos import Demonstrations


def dicts(demos: Demonstrations, **names: str) -> list[dict[str, Any]]:
    """Episodes with T + 1 observations."""
    called = {"observations": "obs", "actions": "acts", "rewards": "rews", "terminal": "terminal", **names}
    return [
        {
            called["observations"]: t.observations,
            called["actions"]: t.actions,
            called["rewards"]: t.rewards,
            called["terminal"]: t.terminated,
        }
        for t in demos
    ]


def malik(folder: Path, demos: Demonstrations, zeros: int = 0, scheme: bool = True) -> Path:
    """One pickle per episode: (s_{t+1}, a_t), the last row the next reset, the sum of rewards, and further zeros."""
    folder.mkdir()
    episodes = list(demos)
    for i, t in enumerate(episodes):
        following = episodes[(i + 1) % len(episodes)].observations[:1]
        rows = np.concatenate([t.observations[1:-1], following]).astype(np.float64)
        rows = np.concatenate([rows, np.zeros((len(rows), zeros))], axis=1)
        content = {"observations": rows, "actions": t.actions, "rewards": np.array([t.rewards.sum()])}
        content |= {"lengths": np.array([len(t)])} | ({"save_scheme": "not_airl"} if scheme else {})
        (folder / f"{i}.pkl").write_bytes(pickle.dumps(content))
    return folder


def liu(folder: Path, demos: Demonstrations) -> Path:
    """One pickle per episode: normalised observations beside the original ones."""
    folder.mkdir()
    mean, spread = demos.observations.mean(axis=0), demos.observations.std(axis=0) + 1e-3
    for i, t in enumerate(demos):
        content = {
            "observations": (t.observations[:-1] - mean) / spread,
            "actions": t.actions,
            "original_observations": t.observations[:-1],
            "reward": t.rewards,
            "reward_sum": float(t.rewards.sum()),
        }
        (folder / f"scene-{i}_len-{len(t)}.pkl").write_bytes(pickle.dumps(content))
    return folder


def flat(demos: Demonstrations, *, successors: bool = True) -> dict[str, np.ndarray]:
    """D4RL: all steps end to end, with terminals and timeouts."""
    last = np.zeros(demos.n_steps, bool)
    last[demos.step_offsets + demos.lengths - 1] = True
    ended = np.repeat(demos.terminated, demos.lengths)
    arrays = {
        "observations": demos.observations[demos.rows_before],
        "actions": demos.actions,
        "rewards": demos.rewards.astype(np.float32),
        "terminals": last & ended,
        "timeouts": last & ~ended,
    }
    return arrays | ({"next_observations": demos.observations[demos.rows_before + 1]} if successors else {})


def with_lengths(demos: Demonstrations) -> dict[str, np.ndarray]:
    arrays = flat(demos, successors=False)
    return {
        "states": arrays["observations"],
        "actions": arrays["actions"],
        "rewards": arrays["rewards"][:, None],
        "episode_lengths": demos.lengths,
        "terminated": demos.terminated,
    }


def minari(demos: Demonstrations) -> dict[str, dict[str, np.ndarray]]:
    """A group per episode, as in Minari's files."""
    groups = {}
    for i, t in enumerate(demos):
        last = np.arange(len(t)) == len(t) - 1
        groups[f"episode_{i}"] = {
            "observations": t.observations,
            "actions": t.actions,
            "rewards": t.rewards,
            "terminations": last & t.terminated,
            "truncations": last & (not t.terminated),
        }
    return groups


def hdf5(path: Path, content: dict[str, Any]) -> Path:
    """An HDF5 file of arrays, or of groups of arrays."""
    import h5py

    with h5py.File(path, "w") as file:
        for key, value in content.items():
            if isinstance(value, dict):
                for inner, array in value.items():
                    file[f"{key}/{inner}"] = array
            else:
                file[key] = value
    return path


def imitation_npz(path: Path, demos: Demonstrations) -> Path:
    """The arrays of imitation before version 1."""
    infos = np.empty(demos.n_steps, object)
    infos[:] = [{} for _ in range(demos.n_steps)]
    np.savez(
        path,
        obs=demos.observations,
        acts=demos.actions,
        rews=demos.rewards,
        infos=infos,
        terminal=demos.terminated,
        indices=np.cumsum(demos.lengths)[:-1],
    )
    return path


def imitation_pickle(path: Path, demos: Demonstrations) -> Path:
    """A list of its TrajectoryWithRew objects."""
    module = types.ModuleType("imitation.data.types")

    class TrajectoryWithRew:
        pass

    TrajectoryWithRew.__module__, TrajectoryWithRew.__qualname__ = module.__name__, "TrajectoryWithRew"
    module.TrajectoryWithRew = TrajectoryWithRew  # type: ignore[attr-defined]
    parents = {name: types.ModuleType(name) for name in ("imitation", "imitation.data")}
    sys.modules.update(parents | {module.__name__: module})
    try:
        objects = []
        for t in demos:
            one = TrajectoryWithRew()
            one.__dict__.update(obs=t.observations, acts=t.actions, infos=None, terminal=t.terminated, rews=t.rewards)
            objects.append(one)
        path.write_bytes(pickle.dumps(objects, 4))
    finally:
        for name in (*parents, module.__name__):
            del sys.modules[name]
    return path


def copies(demos: Demonstrations, n: int = 2) -> dict[str, np.ndarray]:
    """SB3's rollout buffer: (steps, copies, ...), one column after the other filled with episodes, cut at the end."""
    arrays = flat(demos, successors=False)
    starts = np.zeros(demos.n_steps, np.float32)
    starts[demos.step_offsets] = 1
    half = demos.n_steps // n

    def columns(array: np.ndarray) -> np.ndarray:
        return np.stack([array[i * half : (i + 1) * half] for i in range(n)], axis=1)

    starts[half] = 1
    return {
        "observations": columns(arrays["observations"]),
        "actions": columns(arrays["actions"]),
        "rewards": columns(arrays["rewards"]),
        "episode_starts": columns(starts),
        "returns": columns(arrays["rewards"]),
    }


def padded(demos: Demonstrations, *, mask: bool = True) -> dict[str, np.ndarray]:
    """(episodes, steps, ...) with zeros behind shorter ones."""
    longest = int(demos.lengths.max())

    def pad(parts: list[np.ndarray], size: int) -> np.ndarray:
        out = np.zeros((len(parts), size, *parts[0].shape[1:]), parts[0].dtype)
        for i, part in enumerate(parts):
            out[i, : len(part)] = part
        return out

    arrays = {
        "obs": pad([t.observations for t in demos], longest + 1),
        "actions": pad([t.actions for t in demos], longest),
        "rewards": pad([t.rewards for t in demos], longest),
        "terminated": demos.terminated,
    }
    valid = np.arange(longest)[None] < demos.lengths[:, None]
    return arrays | ({"mask": valid} if mask else {"lengths": demos.lengths})


def table(path: Path, demos: Demonstrations, *, separator: str = ",", decimal: str = ".", episode: bool = True) -> Path:
    """One row per step and one more for the last observation; names without prefixes."""
    names = list(demos.card["feature_names"])
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        acts = [f"action_{i}" for i in range(demos.actions.shape[1])]
        writer.writerow([*(["lap"] if episode else []), "time", *names, *acts, "reward", "done"])
        for i, t in enumerate(demos):
            for step, row in enumerate(t.observations):
                inside = step < len(t)
                cells = [*row.tolist(), *(t.actions[step].tolist() if inside else [""] * len(acts))]
                cells += [t.rewards[step] if inside else "", int(t.terminated and step >= len(t) - 1)]
                words = [repr(float(c)).replace(".", decimal) if c != "" else "" for c in cells]
                writer.writerow([*([f"lap {i}"] if episode else []), f"0:{step:02d}", *words])
    return path


def steps_json(path: Path, demos: Demonstrations) -> Path:
    """JSON lines, one step each, with the successor."""
    lines = []
    for t in demos:
        for k in range(len(t)):
            lines.append(
                {
                    "state": t.observations[k].tolist(),
                    "action": t.actions[k].tolist(),
                    "reward": float(t.rewards[k]),
                    "next_state": t.observations[k + 1].tolist(),
                    "terminated": bool(t.terminated and k == len(t) - 1),
                    "truncated": bool(not t.terminated and k == len(t) - 1),
                }
            )
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def tensors(path: Path, content: Any) -> Path:
    """What torch.save writes, without torch: arrays of 32-bit floats and 64-bit integers as tensors."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2(*args: Any) -> None:
        raise AssertionError("nobody calls it")

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]
    kinds = {}
    for name, code in (("FloatStorage", "f4"), ("LongStorage", "i8"), ("DoubleStorage", "f8")):
        kinds[code] = type(name, (), {"__module__": "torch"})
        setattr(torch, name, kinds[code])
    storages: list[bytes] = []

    class Storage:
        def __init__(self, array: np.ndarray) -> None:
            self.key = ("storage", kinds[array.dtype.str[1:]], str(len(storages)), "cpu", array.size)
            storages.append(array.tobytes())

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return obj.key if isinstance(obj, Storage) else None

        def reducer_override(self, obj: Any) -> Any:
            if not isinstance(obj, np.ndarray):
                return NotImplemented
            array = np.ascontiguousarray(obj)
            stride = tuple(step // array.itemsize for step in array.strides)
            return _rebuild_tensor_v2, (Storage(array), 0, array.shape, stride, False, {})

    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open("archive/data.pkl", "w") as file:
                Pickler(file, 2).dump(content)
            for i, data in enumerate(storages):
                archive.writestr(f"archive/data/{i}", data)
            archive.writestr("archive/version", "3\n")
    finally:
        del sys.modules["torch"], sys.modules["torch._utils"]
    return path
