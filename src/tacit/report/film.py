"""The learned policy at work: one episode in a few pictures, drawn by its environment when the report is made."""

from __future__ import annotations

import math

from tacit.plots.video import Filmstrip, filmstrip, jpeg
from tacit.report.data import RunData
from tacit.report.html import Section, coded, number

LARGEST_SIDE = 320
QUALITY = 82
MOST_COLUMNS = 5


def film(data: RunData, anchor: str) -> Section | None:
    """One episode in pictures, or a sentence that says why there are none."""
    if data.policy is None:
        return None
    title, config = "The policy at work", data.config
    try:
        strip = filmstrip(config["env"], config["env_kwargs"], data.policy, seed=config["seed"])
    # Simulators, drivers and graphics libraries are other people's: whatever they raise, the report goes on.
    except Exception as error:
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        return Section(title, f'<p class="missing">No pictures: {coded(reason)}.</p>')
    words = f"One episode of {strip.length} steps, return {number(strip.total)}"
    if strip.costs is not None:
        broken = sum(cost > 0 for cost in strip.costs)
        words += f", {broken} steps in violation" if broken else ", no step in violation"
    pictures = _pictures(strip)
    style = f"--columns: {columns(len(pictures))}"
    return Section(title, f'<p>{words}.</p><div class="film" style="{style}">{"".join(pictures)}</div>')


def columns(pictures: int) -> int:
    """Number of columns that needs the fewest rows and fills them most evenly."""
    return math.ceil(pictures / max(1, math.ceil(pictures / MOST_COLUMNS)))


def _pictures(strip: Filmstrip) -> list[str]:
    figures = []
    digits = 1 if strip.length * (strip.seconds or 1.0) > 2 else 2
    for picture, step in zip(strip.pictures, strip.steps, strict=True):
        when = f"step {step}" if strip.seconds is None else f"{step * strip.seconds:.{digits}f} s"
        violates = strip.costs is not None and step > 0 and strip.costs[step - 1] > 0
        label = f"{when}, violates" if violates else when
        css = ' class="violates"' if violates else ""
        image = f'<img src="data:image/jpeg;base64,{jpeg(picture, LARGEST_SIDE, QUALITY)}" alt="{label}">'
        figures.append(f"<figure{css}>{image}<figcaption>{label}</figcaption></figure>")
    return figures
