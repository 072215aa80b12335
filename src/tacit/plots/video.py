"""Films of an agent, rendered off screen, as a file to play or as a few pictures of one episode."""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.envs.capabilities import capabilities
from tacit.envs.registry import make
from tacit.errors import UserError, install_command
from tacit.run import disk

SUFFIXES = (".mp4", ".gif")
LARGEST_STEPS = 2000
Actor = Callable[[Any, np.random.Generator], Any]
"""(observations (1, ...), generator) -> actions (1, ...)"""


def checked(path: str | os.PathLike[str]) -> Path:
    """The path of a film; UserError if a film cannot be written there."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise UserError(f"a film is written as {' or '.join(SUFFIXES)}, not {target.name!r}")
    if not target.parent.is_dir():
        raise UserError(f"there is no folder {target.parent} for the film {target.name}")
    return target


def record(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    policy: Actor,
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    max_steps: int = LARGEST_STEPS,
) -> int:
    """Write one episode as a film (.mp4 or .gif), atomically; returns the number of frames."""
    import imageio.v2 as imageio

    target = checked(path)
    mp4 = target.suffix.lower() == ".mp4"
    rng = np.random.default_rng([seed, 1])
    frames = 0
    with _drawing(env_id, env_kwargs) as env:
        obs, _ = env.reset(seed=seed)
        rate = frames_per_second(env)
        # With the default blocks of 16 pixels, ffmpeg would rescale the picture. The codec only needs even sides.
        options: dict[str, Any] = {"fps": rate, "macro_block_size": 2} if mp4 else {"duration": 1000 / rate}
        get_writer: Any = imageio.get_writer
        with disk.written_elsewhere(target) as draft, get_writer(draft, **options) as film:
            for _ in range(max_steps):
                film.append_data(_even(_picture(env)))
                frames += 1
                obs, _, terminated, truncated, _ = env.step(np.asarray(policy(obs[None], rng))[0])
                if terminated or truncated:
                    film.append_data(_even(_picture(env)))
                    frames += 1
                    break
    return frames


@dataclass(frozen=True)
class Filmstrip:
    """Pictures of one episode at equal time intervals, including the first and the last state."""

    pictures: tuple[np.ndarray, ...]
    """Pictures (H, W, 3), uint8."""
    steps: tuple[int, ...]
    """Number of steps before each picture."""
    length: int
    """Length of the episode in steps."""
    seconds: float | None
    """Duration of a step in seconds; None if the environment does not state it."""
    total: float
    """Total reward of the episode."""
    costs: tuple[float, ...] | None
    """True cost of each step; None if the environment does not report it."""


def filmstrip(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    policy: Actor,
    *,
    seed: int = 0,
    pictures: int = 8,
    max_steps: int = LARGEST_STEPS,
) -> Filmstrip:
    """Pictures of one episode. UserError if the environment draws none; it may also raise exceptions of its own."""
    with warnings.catch_warnings(), _drawing(env_id, env_kwargs) as env:
        warnings.simplefilter("ignore")  # such as those about missing render modes
        # Run the episode twice: first to count its steps, then to take the pictures, which is slow.
        rewards, costs, _ = _episode(env, policy, seed, max_steps, ())
        steps = tuple(np.unique(np.linspace(0, len(rewards), pictures).round().astype(int)).tolist())
        taken = _episode(env, policy, seed, max_steps, steps)[2]
        seconds = capabilities(env).step_seconds
    reported = None if any(cost is None for cost in costs) else tuple(float(cost) for cost in costs)
    return Filmstrip(tuple(taken), steps[: len(taken)], len(rewards), seconds, float(sum(rewards)), reported)


def jpeg(picture: np.ndarray, largest_side: int, quality: int) -> str:
    """A picture (H, W, 3), shrunk, as a JPEG file in base64."""
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((largest_side, largest_side))
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=quality)
    return base64.b64encode(buffer.getvalue()).decode()


@contextmanager
def _drawing(env_id: str, env_kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """A context with the environment in its picture mode; it is closed afterwards.

    Environments that draw with pygame need no screen for pictures. Without one, SDL would print "XDG_RUNTIME_DIR is
    invalid", which looks like a failure. So SDL is told to use no screen, unless the user has chosen a driver.
    """
    quiet = {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    added = [name for name in quiet if name not in os.environ]
    os.environ.update({name: quiet[name] for name in added})
    try:
        env = _made_to_draw(env_id, env_kwargs)
        try:
            yield env
        finally:
            env.close()
    finally:
        for name in added:
            os.environ.pop(name, None)


def _made_to_draw(env_id: str, env_kwargs: Mapping[str, Any]) -> Any:
    """The environment in its picture mode; UserError if it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return make(env_id, **{**env_kwargs, "render_mode": "rgb_array"})
        except UserError as error:
            if isinstance(error.__cause__, TypeError):
                raise UserError(f'{env_id} cannot be made with render_mode="rgb_array"') from None
            raise


def _picture(env: Any) -> np.ndarray:
    picture = np.asarray(env.render())
    if picture.ndim != 3 or picture.shape[-1] != 3 or picture.dtype != np.uint8:
        raise UserError("the environment draws no pictures")
    return picture


def _episode(
    env: Any, policy: Actor, seed: int, max_steps: int, wanted: tuple[int, ...]
) -> tuple[list[float], list[Any], list[np.ndarray]]:
    """(rewards, true costs, pictures after the wanted numbers of steps) of the episode with this seed."""
    rng = np.random.default_rng([seed, 1])
    rewards: list[float] = []
    costs: list[Any] = []
    pictures = []
    obs, _ = env.reset(seed=seed)
    over = False
    while True:
        if len(rewards) in wanted:
            pictures.append(_picture(env))
        if over or len(rewards) == max_steps:
            return rewards, costs, pictures
        obs, reward, terminated, truncated, info = env.step(np.asarray(policy(np.asarray(obs)[None], rng))[0])
        rewards.append(float(reward))
        costs.append(info.get("cost"))
        over = bool(terminated or truncated)


def frames_per_second(env: Any) -> float:
    """Frames per second: real time if the environment states the duration of a step, else its own rate."""
    seconds = capabilities(env).step_seconds
    return 1.0 / seconds if seconds else float(env.metadata.get("render_fps", 10))


def _even(frame: np.ndarray) -> np.ndarray:
    """The picture (H, W, 3), cropped to even sides."""
    return frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]


# ---------------------------------------------------------------------------------------------------------------------
# Agents side by side


def record_beside(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    agents: Mapping[str, Actor],
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    max_steps: int = 500,
) -> int:
    """Write a film of several agents {name: policy} from the same start, next to each other; the number of frames.

    Whoever has finished waits for the others. A .gif needs nothing that does not come with Tacit.
    """
    target = checked(path)
    envs = [_made_to_draw(env_id, env_kwargs) for _ in agents]
    try:
        rate = frames_per_second(envs[0])
        frames = _together(envs, agents, seed, max_steps)
        with disk.written_elsewhere(target) as draft:
            return (
                _write_gif(draft, frames, rate) if target.suffix.lower() == ".gif" else _write_mp4(draft, frames, rate)
            )
    finally:
        for env in envs:
            env.close()


def _together(envs: list[Any], agents: Mapping[str, Actor], seed: int, max_steps: int) -> Iterator[np.ndarray]:
    observations = [env.reset(seed=seed)[0] for env in envs]
    rngs = [np.random.default_rng([seed, 1]) for _ in envs]
    pictures, running, broken = [_picture(env) for env in envs], [True] * len(envs), [0] * len(envs)
    for _ in range(max_steps):
        yield _labelled(pictures, [_caption(name, steps) for name, steps in zip(agents, broken, strict=True)])
        if not any(running):
            return
        for i, (env, policy) in enumerate(zip(envs, agents.values(), strict=True)):
            if not running[i]:
                continue
            action = np.asarray(policy(np.asarray(observations[i])[None], rngs[i]))[0]
            observations[i], _, terminated, truncated, info = env.step(action)
            pictures[i], running[i] = _picture(env), not (terminated or truncated)
            broken[i] += float(info.get("cost") or 0.0) > 0.0


def _caption(name: str, violations: int) -> str:
    return f"{name}: {violations} violating steps" if violations else name


def _labelled(pictures: list[np.ndarray], captions: list[str]) -> np.ndarray:
    """The pictures next to each other, each below its caption."""
    from PIL import Image, ImageDraw

    gap, strip = 8, 20
    height = strip + max(picture.shape[0] for picture in pictures)
    width = sum(picture.shape[1] for picture in pictures) + gap * (len(pictures) - 1)
    canvas = Image.new("RGB", (width, height), "white")
    left = 0
    for picture, caption in zip(pictures, captions, strict=True):
        canvas.paste(Image.fromarray(picture), (left, strip))
        ImageDraw.Draw(canvas).text((left + 4, 4), caption, fill="black")
        left += picture.shape[1] + gap
    return np.asarray(canvas)


def _write_gif(draft: Path, frames: Iterator[np.ndarray], rate: float) -> int:
    from PIL import Image

    pictures = [Image.fromarray(frame).quantize(64) for frame in frames]
    times = [round(1000 / rate)] * (len(pictures) - 1) + [2000]  # the end stands still before it begins again
    pictures[0].save(draft, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0)
    return len(pictures)


def _write_mp4(draft: Path, frames: Iterator[np.ndarray], rate: float) -> int:
    try:
        import imageio.v2 as imageio
    except ModuleNotFoundError:
        raise UserError(f"an .mp4 needs imageio; a .gif does not: {install_command('robots')}") from None
    get_writer: Any = imageio.get_writer
    count = 0
    with get_writer(draft, fps=rate, macro_block_size=2) as film:
        for frame in frames:
            film.append_data(_even(frame))
            count += 1
    return count
