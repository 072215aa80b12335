"""Use a learned cost in another environment: train a fresh agent there, and count how often it violates.

  tacit transfer RUN --to ENV [--steps N] [--seed S]

The cost finds its inputs by name, so ENV must have all of them. When you learn a cost for transfer, choose inputs that
both environments have:

  tacit learn mce tacit/Ant-v0 --inputs x_position y_position

With --shared, inputs that ENV lacks are left out of an additive cost. What they alone forbade is allowed there.

Examples:
  tacit transfer mce-ant-s0-3fa1b2c4 --to tacit/Point-v0
  tacit transfer mce-ant-s0-3fa1b2c4 --to tacit/BrokenAnt-v0 --steps 400000
  tacit transfer RUN --to tacit/Point-v0 --which map --shared
"""

from __future__ import annotations

from typing import Annotated

import tyro

from tacit.commands import EnvOptions, Options, RunPath, open_run
from tacit.commands.retrain import Agent, FreshAgent

Target = Annotated[str, tyro.conf.arg(metavar="ENV")]


def transfer(
    run: RunPath,
    /,
    *,
    to: Target,
    shared: bool = False,
    agent: Agent = FreshAgent(),  # noqa: B008 (frozen)
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
) -> None:
    """Train on the frozen cost in another environment.

    Args:
        to: The other environment: one of `tacit envs`, or your own as module:Name-v0.
        shared: Leave out the inputs that ENV does not have (additive costs only).
        agent: Options of the fresh agent.
        options: Options of ENV.
    """
    agent.train(open_run(run), to, options.given(), shared=shared)
