"""Films of an agent at work, drawn off screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import UserError

SUFFIXES = (".mp4", ".gif")
LARGEST_STEPS = 2000


def record(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    policy: Callable[[Any, np.random.Generator], Any],
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    max_steps: int = LARGEST_STEPS,
) -> int:
    """Write one episode as a film (.mp4 or .gif), atomically; returns the number of frames."""
    import gymnasium
    import imageio.v2 as imageio

    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise UserError(f"a film is written as {' or '.join(SUFFIXES)}, not {target.name!r}")
    if not target.parent.is_dir():
        raise UserError(f"there is no folder {target.parent} for the film {target.name}")
    env = gymnasium.make(env_id, render_mode="rgb_array", disable_env_checker=True, **env_kwargs)
    rng = np.random.default_rng([seed, 1])
    draft = target.with_name(f".{target.stem}.part{target.suffix}")
    frames = 0
    try:
        obs, _ = env.reset(seed=seed)
        speed = (
            {"fps": frames_per_second(env)} if target.suffix == ".mp4" else {"duration": 1000 / frames_per_second(env)}
        )
        # Macro blocks of 16 pixels would make ffmpeg rescale the picture; even sides are all that the codec asks for.
        options: dict[str, Any] = {**speed, "macro_block_size": 2} if target.suffix == ".mp4" else speed
        writer: Any = imageio.get_writer(draft, **options)
        with writer as film:
            for _ in range(max_steps):
                film.append_data(_even(np.asarray(env.render())))
                frames += 1
                obs, _, terminated, truncated, _ = env.step(np.asarray(policy(obs[None], rng))[0])
                if terminated or truncated:
                    film.append_data(_even(np.asarray(env.render())))
                    frames += 1
                    break
        os.replace(draft, target)
    finally:
        env.close()
        draft.unlink(missing_ok=True)
    return frames


def frames_per_second(env: Any) -> float:
    """Real time where the environment says how long a step lasts, else its own rate."""
    dt = getattr(env.unwrapped, "dt", None)
    return 1.0 / float(dt) if dt else float(env.metadata.get("render_fps", 10))


def _even(frame: np.ndarray) -> np.ndarray:
    """(H, W, 3) with even sides."""
    return frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]
