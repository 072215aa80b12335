"""Films of an agent, rendered off screen, as a file to play or as a few pictures of one episode."""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
    target = checked(path)
    with _drawing(env_id, env_kwargs) as env:
        pictures = (_picture(env) for _ in _steps(env, policy, seed, max_steps))
        return write_film(target, pictures, frames_per_second(env))


def write_film(path: str | os.PathLike[str], pictures: Iterable[np.ndarray], rate: float) -> int:
    """Write pictures as a film with `rate` of them per second, atomically; returns their number."""
    target, count = checked(path), 0
    with disk.written_elsewhere(target) as draft, _writer(draft, rate) as film:
        for picture in pictures:
            # The codec needs even sides.
            film.append_data(picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2])
            count += 1
    return count


def _writer(draft: Path, rate: float) -> Any:
    try:
        import imageio.v2 as imageio
    except ModuleNotFoundError:
        raise UserError(f"films need imageio: {install_command('robots')}") from None
    # With the default blocks of 16 pixels, ffmpeg would rescale the picture.
    options = {"fps": rate, "macro_block_size": 2} if draft.suffix.lower() == ".mp4" else {"duration": 1000 / rate}
    get_writer: Any = imageio.get_writer
    return get_writer(draft, **options)


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
        _, *walked = _steps(env, policy, seed, max_steps)
        steps = tuple(np.unique(np.linspace(0, len(walked), pictures).round().astype(int)).tolist())
        again = enumerate(_steps(env, policy, seed, max_steps))
        taken = [_picture(env) for step, _ in again if step in steps]
        seconds = capabilities(env).step_seconds
    costs = tuple(cost for _, cost in walked)
    reported = None if None in costs else tuple(map(float, costs))
    total = float(sum(reward for reward, _ in walked))
    return Filmstrip(tuple(taken), steps[: len(taken)], len(walked), seconds, total, reported)


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


def check_drawing(env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """UserError unless the environment draws pictures. Ask before a long training whose only purpose is a film."""
    with _drawing(env_id, env_kwargs) as env:
        env.reset(seed=0)
        _picture(env)


def _picture(env: Any) -> np.ndarray:
    try:
        picture = np.asarray(env.render())
    except NotImplementedError:  # what Gymnasium's base class raises
        raise UserError("the environment draws no pictures: it has no render()") from None
    if picture.ndim != 3 or picture.shape[-1] != 3 or picture.dtype != np.uint8:
        raise UserError("the environment draws no pictures")
    return picture


def _steps(env: Any, policy: Actor, seed: int, max_steps: int) -> Iterator[tuple[float, Any]]:
    """The episode with this seed: (reward, true cost) after each of its steps, and first (0, None) at its start."""
    rng = np.random.default_rng([seed, 1])
    obs, _ = env.reset(seed=seed)
    yield 0.0, None
    for _ in range(max_steps):
        obs, reward, terminated, truncated, info = env.step(np.asarray(policy(np.asarray(obs)[None], rng))[0])
        yield float(reward), info.get("cost")
        if terminated or truncated:
            return


def frames_per_second(env: Any) -> float:
    """Frames per second: real time if the environment states the duration of a step, else its own rate."""
    seconds = capabilities(env).step_seconds
    return 1.0 / seconds if seconds else float(env.metadata.get("render_fps", 10))


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

    An agent that has finished waits until all have. A .gif needs no further packages.
    """
    target = checked(path)
    with ExitStack() as stack:
        envs = [stack.enter_context(_drawing(env_id, env_kwargs)) for _ in agents]
        rate, pictures = frames_per_second(envs[0]), _together(envs, agents, seed, max_steps)
        if target.suffix.lower() != ".gif":
            return write_film(target, pictures, rate)
        with disk.written_elsewhere(target) as draft:
            return _write_gif(draft, pictures, rate)


def film_beside(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    agents: Mapping[str, Actor],
    *,
    seed: int = 0,
    pictures: int = 50,
    side: int = 300,
    max_steps: int = 500,
) -> bytes:
    """A short film of several agents next to each other, as a GIF file: about so many pictures, shrunk to `side`."""
    with ExitStack() as stack:
        envs = [stack.enter_context(_drawing(env_id, env_kwargs)) for _ in agents]
        # Run the episodes twice: first to count their steps, then to take the pictures, which is slow.
        walks = zip(envs, agents.values(), strict=True)
        ends = [sum(1 for _ in _steps(env, policy, seed, max_steps)) - 1 for env, policy in walks]
        stride = max(1, -(-max(ends) // pictures))
        moments = {*range(0, max(ends), stride), *ends}
        buffer = io.BytesIO()
        # A long episode is played faster, so that nobody waits for its end.
        rate = min(20.0, max(5.0, frames_per_second(envs[0]) / stride))
        _write_gif(buffer, _together(envs, agents, seed, max_steps, moments, side), rate)
        return buffer.getvalue()


def _together(
    envs: list[Any],
    agents: Mapping[str, Actor],
    seed: int,
    max_steps: int,
    moments: Container[int] | None = None,
    side: int | None = None,
) -> Iterator[np.ndarray]:
    """All agents next to each other, after these numbers of steps; by default, after every step."""
    walks = [_steps(env, policy, seed, max_steps) for env, policy in zip(envs, agents.values(), strict=True)]
    pictures, broken = [np.zeros(0)] * len(envs), [0] * len(envs)
    for number in range(max_steps):
        steps = [next(walk, None) for walk in walks]
        if all(step is None for step in steps):
            return
        is_drawn = moments is None or number in moments
        for i, step in enumerate(steps):
            if step is not None:
                broken[i] += float(step[1] or 0.0) > 0.0
                pictures[i] = _shrunk(_picture(envs[i]), side) if is_drawn else pictures[i]
        if is_drawn:
            yield _labelled(pictures, [_caption(name, count) for name, count in zip(agents, broken, strict=True)])


def _shrunk(picture: np.ndarray, side: int | None) -> np.ndarray:
    from PIL import Image

    if side is None or max(picture.shape[:2]) <= side:
        return picture
    image = Image.fromarray(picture)
    image.thumbnail((side, side))
    return np.asarray(image)


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


def _write_gif(draft: Path | io.BytesIO, frames: Iterator[np.ndarray], rate: float) -> int:
    from PIL import Image

    # The usual choice of colours would spend all on the ground, and a small agent or goal would change its colour.
    method, dither = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
    pictures = [Image.fromarray(frame).quantize(128, method, dither=dither) for frame in frames]
    times = [round(1000 / rate)] * (len(pictures) - 1) + [2000]  # the end stands still before it begins again
    pictures[0].save(draft, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0)
    return len(pictures)
