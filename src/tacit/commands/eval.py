"""Measure a run against the truth: return and violations of its policy, quality of its cost.

The policy plays fresh episodes. Every number has a 95 % confidence interval. On a gridworld the same numbers are also
computed exactly, for the policy, the expert and an agent without constraint. The cost of a deep run is measured as a
detector of forbidden states, at the threshold of `tacit calibrate` if there is one. The result is added to eval.jsonl
in the run folder.

Examples:
  tacit eval runs/mce-exact-gridworld-s0-3fa1b2c4
  tacit eval mce-exact-gridworld-s0-3fa1b2c4 --episodes 10000 --seed 1 --json
  tacit eval expert-ant-s0-12345678 --video ant.mp4       also film one episode
"""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from tacit.commands import RunPath, open_run, print_json
from tacit.commands.summary import print_agents, print_detection, print_notice, print_quality
from tacit.cost import quality
from tacit.envs.options import check_env, exact_model
from tacit.inverse import exact_run
from tacit.learned import load_policy, sampled
from tacit.plots.video import checked
from tacit.plots.video import record as film
from tacit.run import Run
from tacit.run.summary import Summary

Video = Annotated[str | None, tyro.conf.arg(metavar="FILE")]


def eval(run: RunPath, /, *, episodes: int = 1000, seed: int = 0, video: Video = None, json: bool = False) -> None:
    """Measure a run.

    Args:
        episodes: Number of episodes to play.
        seed: Random seed of the episodes.
        video: Film one episode into this file, .mp4 or .gif.
        json: Print the numbers as JSON.
    """
    opened = open_run(run)
    check_env(opened.config["env"], opened.config["env_kwargs"])
    if video is not None:
        checked(video)
    record: dict[str, Any] = {"episodes": episodes, "seed": seed, "sampled": sampled(opened, episodes, seed)}
    exact = computed(opened)
    record |= exact
    detection = {} if exact else quality.of_run(opened)
    record |= {"detection": detection} if detection else {}
    with opened:
        opened.log_eval(record)
    if video is not None:
        film(opened.config["env"], opened.config["env_kwargs"], load_policy(opened), video, seed=seed)
    if json:
        return print_json({"run": opened.path, **record})
    rows = {"learned (sampled)": record["sampled"]}
    print_agents({**exact.get("table", {}), **rows}, title=f"{episodes} episodes, seed {seed}")
    print_notice(opened)
    if exact:
        print_quality(exact["cost_quality"])
    if detection:
        print_detection(detection)


def computed(run: Run) -> Summary:
    """{"table", "cost_quality"} without sampling error; {} where there is no exact model."""
    spec = exact_model(run.config["env"], run.config["env_kwargs"])
    if spec is None or run.load_model("policy")[1].get("kind") != "tabular":
        return {}
    policy, cost = run.load_model("policy")[0].get("policy"), run.load_model("cost")[0].get("cost")
    if policy is None or cost is None:
        return {}
    mdp, demos = spec.model(), run.demonstrations()
    agents = exact_run.evaluations(spec, mdp, policy, demos, run.config["config"]["beta"])
    return {
        "table": exact_run.as_table(agents, demos, mdp.discount),
        "cost_quality": exact_run.quality(spec, mdp, exact_run.state_cost(policy, cost)),
    }
