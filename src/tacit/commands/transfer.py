"""Take a learned cost to another environment: train a fresh agent there on the frozen cost, judge it by the true one.

  tacit transfer RUN --to ENV [--steps N] [--seed S]

The cost finds its inputs by name, so ENV must have all of them. To learn a cost that can travel, say what it may read:
  tacit learn mce tacit/Ant-v0 --inputs x_position y_position
With --shared, inputs that ENV lacks are left out of an additive cost, and what they priced is free there.

Examples:
  tacit transfer mce-ant-s0-3fa1b2c4 --to tacit/Point-v0
  tacit transfer mce-ant-s0-3fa1b2c4 --to tacit/BrokenAnt-v0 --steps 400000
  tacit transfer RUN --to tacit/Point-v0 --which map --shared
"""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from tacit.commands import RunPath, call, open_run
from tacit.commands.environment import EnvOptions, Options, check_env
from tacit.commands.learn import Log
from tacit.commands.retrain import Charge, Seed, Settings, Steps, Which, train_on, wanted

Target = Annotated[str, tyro.conf.arg(metavar="ENV")]


def main(args: list[str]) -> Any:
    def transfer(
        run: RunPath,
        /,
        *,
        to: Target,
        steps: Steps = None,
        seed: Seed = None,
        which: Which = "cost",
        shared: bool = False,
        charge: Charge = "excess",
        set: Settings = (),
        options: Options = EnvOptions(),  # noqa: B008 (frozen)
        out: str = "runs",
        log: Log = None,
        json: bool = False,
    ) -> None:
        """Train on the frozen cost in another environment.

        Args:
            run: Run folder with a learned cost, or its name within ./runs.
            to: Environment to take the cost to: one of `tacit envs`, or your own as module:Name-v0.
            steps: Environment steps. Default: those of the preset.
            seed: Random seed of the fresh agent. Default: the run's seed + 1000.
            which: The cost that drove the policy, or the additive map.
            shared: Leave out the inputs that ENV does not have (additive costs only).
            charge: Charge the excess over the threshold, the cost beyond the demonstrations' mean, or all of it.
            set: Any settings of PPO-Lagrangian, such as multiplier_init=3 n_envs=16.
            options: Options of ENV.
            out: Folder in which the run folder is made.
            log: Also write the curves to tensorboard, wandb or both (tensorboard,wandb).
            json: Print the summary as JSON.
        """
        source = open_run(run)
        check_env(to, options.given())
        settings = wanted(steps, set, which=which, charge=charge, shared=shared)
        train_on(source, to, options.given(), settings, seed, ["transfer", *args], out, log, json)

    return call(transfer, "transfer", __doc__, args)
