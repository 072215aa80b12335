"""Train an expert who knows the constraint, and let it demonstrate.

  tacit expert ENV [--seed N] [--preset NAME] [any setting]

The expert is PPO with the true cost. Its run folder gets the policy, curves, an evaluation, and demonstrations that
never break the constraint (demos.npz). The same command again skips a finished run and resumes an interrupted one.

Examples:
  tacit expert tacit/HalfCheetah-v0
  tacit expert tacit/Swimmer-v0 --seed 1 --total-steps 200000 --multiplier pid --budget 0.001
  tacit eval RUN --video swim.mp4                 watch it
"""

from typing import Any

from tacit.algorithms import find
from tacit.commands.learn import train_with


def main(args: list[str]) -> Any:
    return train_with(find("expert"), "expert", __doc__, args)
