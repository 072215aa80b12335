"""Train a fresh agent on the frozen cost of a run, and count how often it breaks the TRUE constraint.

  tacit retrain RUN [--steps N] [--seed S]

This tests whether the cost works without the policy that it was learned with. The agent starts untrained, with another
seed. By default the cost is a set of forbidden steps with a soft edge (--as soft). The agent keeps to it as the
reference `rcpo` keeps to the true constraint. The same command again skips a finished test and resumes an interrupted
one.

Examples:
  tacit retrain runs/mce-halfcheetah-s0-3fa1b2c4
  tacit retrain mce-halfcheetah-s0-3fa1b2c4 --steps 200000 --seed 7
  tacit retrain RUN --as set                    steps above the threshold are forbidden
  tacit retrain RUN --as price                  reward - price x cost, with the price of the run
  tacit retrain RUN --as price --set price=30   the same with another price
  tacit retrain RUN --margin x=0.05 v=0.02      stay so much further away, in units of each input
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from tacit.commands import NO_DEFAULT, RunPath, command_line, key_values, open_run
from tacit.commands.learn import Log, show
from tacit.envs.options import check_env
from tacit.errors import UserError
from tacit.launch import execute, start_run
from tacit.run import Run
from tacit.run.naming import OTHER_SEED
from tacit.run.sinks import names_of, observed


@dataclass(frozen=True)
class FreshAgent:
    """Options of a fresh agent and of its training."""

    steps: Annotated[int | None, tyro.conf.arg(metavar="N"), NO_DEFAULT] = None
    """Environment steps. Default: those of the preset."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="S"), NO_DEFAULT] = None
    """Random seed of the fresh agent. Default: the run's seed + 1000."""
    which: Literal["cost", "map"] = "cost"
    """Use the cost that drove the policy, or the additive map."""
    charge: Annotated[
        Literal["soft", "excess", "set", "price", "budget", "raw"], tyro.conf.arg(name="as", aliases=["--charge"])
    ] = "soft"
    """How the cost is used. set: steps above its threshold are forbidden. soft: the same with a soft edge. price: the
    agent maximises reward - price x cost. For comparison: an edge that begins at the threshold (excess), the mean cost
    of demonstrations as budget (budget), or the settings' own (raw)."""
    margin: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE"), NO_DEFAULT] = ()
    """Make the cost more cautious: what it forbids reaches out so much further, in units of each input. `tacit explain`
    suggests one."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE"), NO_DEFAULT] = ()
    """Any settings of PPO-Lagrangian, such as multiplier_init=3 n_envs=16."""
    out: str = "runs"
    """Folder in which the run folder is made."""
    log: Annotated[Log, NO_DEFAULT] = None
    """Also write the curves to tensorboard, wandb or both (tensorboard,wandb)."""
    json: Annotated[bool, NO_DEFAULT] = False
    """Print the summary as JSON."""

    def train(self, source: Run, env: str, env_kwargs: Mapping[str, Any], **others: Any) -> None:
        """Freeze the cost, train, and show the result. Wrong settings are refused before anything is written."""
        check_env(env, env_kwargs)
        sinks = names_of(self.log)
        run, _ = start_run(
            "retrain",
            env,
            env_kwargs=env_kwargs,
            seed=source.config["seed"] + OTHER_SEED if self.seed is None else self.seed,
            settings={**self._settings(**others), "cost": str(source.path)},
            out=self.out,
            command=command_line(),
        )
        with observed(run, sinks):
            summary = execute(run, None)
        show(run, summary, self.json)

    def _settings(self, **others: Any) -> dict[str, Any]:
        """The settings that were given; UserError where --set gives what has an option of its own."""
        others |= {"which": self.which, "charge": self.charge}
        others |= {"margin": " ".join(self.margin)} if self.margin else {}
        given = key_values(self.set, "--set")
        own = {"total_steps": "--steps", "cost": "RUN"} | {name: f"--{name}" for name in others} | {"charge": "--as"}
        for name in given:
            if name in own:
                raise UserError(
                    f"--set cannot give {name}, which has a place of its own on the command line: {own[name]}"
                )
        return {**given, **({} if self.steps is None else {"total_steps": self.steps}), **others}


# The options without a prefix: --steps, not --agent.steps.
Agent = Annotated[FreshAgent, tyro.conf.arg(name="")]


def retrain(run: RunPath, /, *, agent: Agent = FreshAgent()) -> None:  # noqa: B008 (frozen)
    """Train on the frozen cost.

    Args:
        agent: Options of the fresh agent.
    """
    source = open_run(run)
    agent.train(source, source.config["env"], source.config["env_kwargs"])
