"""An algorithm of your own in one file: the box around the demonstrations, which is the simplest constraint of all.

Every input costs where it is below the smallest or above the largest demonstrated value. On the command line, with this
file in the current folder: `tacit learn own_algorithm:Box tacit/Pendulum-v0`.
"""

# needs: jax
from dataclasses import dataclass

import numpy as np

import tacit
from tacit.cost import LearnedCost
from tacit.inverse import loop, samples


@dataclass(frozen=True)
class Config(loop.Config):
    """Settings of the box, on top of those of PPO and of the loop."""

    margin: float = 0.0
    """How far an input may leave the box for free, in units of its scale."""
    steepness: float = 50.0
    """Slope of the walls, per unit of scale."""


class Box(loop.Method):
    """The box around the demonstrations, with PPO as the forward step"""

    name = "box"
    config_type = Config

    def begin(self, config, interface, inputs, expert, nominal, rng):
        """The first cost: inputs, parameters (any dict of arrays), the state of an optimiser, metrics."""
        inputs = samples.fit_scale(inputs, expert, nominal)
        z = inputs.scaled(expert)
        walls = {"low": z.min(axis=0) - config.margin, "high": z.max(axis=0) + config.margin}
        return inputs, walls, (), {}

    def cost_of(self, state, config):
        """A cost is a sum of soft thresholds here: one at each wall."""
        low, high = np.asarray(state.params["low"]), np.asarray(state.params["high"])
        slopes = np.stack([-np.ones_like(low), np.ones_like(high)], axis=1) * config.steepness
        offsets = -slopes * np.stack([low, high], axis=1)
        return LearnedCost(state.inputs, np.ones(slopes.size, np.float32), slopes, offsets, at=config.at)


def main() -> None:
    learned = tacit.learn(
        "tacit/Pendulum-v0",
        method="own_algorithm:Box",
        margin=0.1,
        total_steps=8192,
        bootstrap_steps=2048,
        forward_steps=2048,
        eval_episodes=4,
    )
    print(learned.path.name, "costs", learned.summary["detection"]["cost"]["threshold"])
    print(learned.report())


if __name__ == "__main__":
    main()
