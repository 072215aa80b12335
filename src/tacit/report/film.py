"""The learned policy at work: one episode, drawn by its environment when the report is made.

Pictures of the episode, which can be printed, and a film beside an agent without constraint if there is one.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping

from tacit.envs.options import exact_model
from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import plan
from tacit.plots.video import Actor, Filmstrip, film_beside, filmstrip, jpeg
from tacit.policy import TablePolicy
from tacit.report.data import REWARD_ALONE, RunData
from tacit.report.html import Section, coded, number

LARGEST_SIDE = 320
QUALITY = 82
MOST_COLUMNS = 5
WITHOUT, LEARNED = "reward alone", "learned"


def film(data: RunData, anchor: str) -> Section | None:
    """The section with pictures of one episode, or with a sentence that says why there are none."""
    if data.policy is None and data.policy_table is None:
        return None
    title, config = "The policy at work", data.config
    try:
        agents = _agents(data)
        strip = filmstrip(config["env"], config["env_kwargs"], agents[LEARNED], seed=config["seed"])
    # Simulators, drivers and graphics libraries may raise anything. The report continues without pictures.
    except Exception as error:
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        return Section(title, f'<p class="missing">No pictures: {coded(reason)}.</p>')
    words = f"One episode of {strip.length} steps, return {number(strip.total)}"
    if strip.costs is not None:
        broken = sum(cost > 0 for cost in strip.costs)
        words += f", {broken} steps in violation" if broken else ", no step in violation"
    frames = _frames(strip)
    style = f"--columns: {film_columns(len(frames))}"
    return Section(
        title, _beside(data, agents) + f'<p>{words}.</p><div class="film" style="{style}">{"".join(frames)}</div>'
    )


def _agents(data: RunData) -> dict[str, Actor]:
    """The learned policy, and an agent without constraint where there is one: of a run, or computed on a gridworld."""
    if data.policy is not None:
        agents = {WITHOUT: data.reward_alone, LEARNED: data.policy}
        return {name: policy for name, policy in agents.items() if policy is not None}
    spec = exact_model(data.config["env"], data.config["env_kwargs"])
    if spec is None or data.policy_table is None or data.policy_table.shape != (spec.n_states, spec.n_actions):
        raise UserError("the policy does not fit its environment")
    mdp = spec.model()
    alone = plan(mdp, mdp.rewards, data.config["config"].get("beta", 0.1)).policy
    return {WITHOUT: TablePolicy(alone, spec.states_of), LEARNED: TablePolicy(data.policy_table, spec.states_of)}


def _beside(data: RunData, agents: Mapping[str, Actor]) -> str:
    """A film of the policy beside an agent without constraint, or how to get one."""
    config = data.config
    if config["algo"] in REWARD_ALONE:
        return ""
    if WITHOUT not in agents:
        command = coded(f"`tacit report {data.name} --beside`")
        return f"<p>{command} trains an agent without constraint and shows a film of it beside this one.</p>"
    try:
        gif = film_beside(config["env"], config["env_kwargs"], agents, seed=config["seed"])
    except Exception:  # as above; that there are no pictures is said once
        return ""
    words = "Left: an agent that follows the reward alone. Right: the learned policy, from the same start."
    image = f'<img src="data:image/gif;base64,{base64.b64encode(gif).decode()}" alt="{words}">'
    return f'<figure class="beside">{image}<figcaption>{words}</figcaption></figure>'


def film_columns(pictures: int) -> int:
    """The number of columns that needs the fewest rows and fills them most evenly."""
    return math.ceil(pictures / max(1, math.ceil(pictures / MOST_COLUMNS)))


def _frames(strip: Filmstrip) -> list[str]:
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
