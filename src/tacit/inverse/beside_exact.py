"""A deep policy beside the exact solution, in environments whose model is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.cost import LearnedCost
from tacit.inverse.certificate import certify_policy
from tacit.policy import Policy


def against_exact(grid: Any, config: Any, state: Any, cost: LearnedCost, policy: Policy) -> dict[str, float]:
    """Compare the policy with the soft-optimal one for the same reward, cost and temperature, if the model is known.

    kl_per_step is E KL(policy || exact) of a step of the policy, loss what it gives up of the objective, by an identity
    (`certify_policy`). The policy's temperature is beta in units of reward.
    """
    mdp, interface = grid.model(), policy.interface
    obs = np.arange(grid.n_states) if interface.n_states else grid.cells.astype(np.float32)
    encoded = interface.encode(obs)
    head = policy.head(encoded).astype(np.float64)
    probabilities = np.exp(head - head.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    entered = np.zeros(grid.n_states)
    if config.moments == "absorbing":
        gamma = config.discount_of_cost
        entered[mdp.terminal] = gamma * cost.unit * state.absorbing / (1 - gamma)
    acted = np.zeros(mdp.rewards.shape)
    if config.at == "next":
        entered += cost.unit * cost(encoded)
    else:
        for action in range(mdp.rewards.shape[1]):
            acted[:, action] = cost.unit * cost(encoded, np.full(len(encoded), action))
    expected = acted + (mdp.transitions @ entered).reshape(mdp.rewards.shape)
    scale = state.forward.agent.reward_scale.std if config.normalize_reward else 1.0
    certificate = certify_policy(mdp, expected, config.beta * scale, probabilities)
    return {"kl_per_step": certificate.kl_per_step, "loss": certificate.loss, "beta": config.beta * scale}
