"""When there is no solution: why, how one knows, and three ways out.

The world of own_mdp.py: going round the lawn fails one time in ten. But now all ten people we watched were lucky. Taken
at their word, they never step on the lawn, and no policy can promise that.
"""

import numpy as np

from tacit import MDP, solve
from tacit.forward.soft_policy_iteration import occupancy, plan

home, lawn, path, gate, shop = range(5)
names = ["home", "lawn", "path", "gate", "shop"]
P = np.zeros((5, 2, 5))
P[home, 0, [lawn, path]] = 0.9, 0.1
P[home, 1, [lawn, path]] = 0.1, 0.9
P[lawn, :, shop] = P[path, :, gate] = P[gate, :, shop] = 1
mdp = MDP(P, rewards=-np.ones((5, 2)), initial=np.eye(5)[home], discount=0.99, terminal=np.arange(5) == shop)
demos = 10 * [([home, path, gate, shop], [1, 0, 0])]

# The paper's problem, with budget 0, has no solution, and `solve` proves it.
solution = solve(mdp, "state", demonstrations=demos, beta=0.1)
assert solution.status == "infeasible"
assert np.isnan(solution.policy).all()  # there is no answer, so none is returned
print(solution.diagnosis.describe(names), "\n")

# The proof is one vector y >= 0: every policy has y.mu >= least_cost, and the limits allow only allowed_cost.
proof = solution.diagnosis
print(f"proof: {proof.least_cost:.4f} > {proof.allowed_cost:.4f}, with all weight on the {names[proof.to_blame[0]]}\n")

# The paper's update, lambda <- [lambda + step (mu - mu_D)]_+, would not have told: the weight of the lawn just grows.
weights = np.ones(5)
for step in range(1, 2001):
    moments = occupancy(mdp, plan(mdp, mdp.rewards - weights[:, None], beta=0.1).policy).sum(axis=1)
    weights = np.maximum(weights + 0.5 * (moments - solution.expert_moments), 0.0)
    if step in (20, 200, 2000):
        print(f"after {step:4d} gradient steps the lawn costs {weights[lawn]:.1f}")

# Way out 1: the smallest budget that has a solution (and a little more, so that the weights are finite).
loose = solve(mdp, "state", demonstrations=demos, beta=0.1, budget=1.05 * proof.uniform_slack)
# Way out 2: fit what people chose to do, not where the dynamics took them.
likelihood = solve(mdp, "state", demonstrations=demos, beta=0.1, objective="likelihood")
# Way out 3: estimate their policy, and ask where it would lead under the known dynamics.
plugin = solve(mdp, "state", demonstrations=demos, beta=0.1, objective="plugin")
for name, found in (("budget", loose), ("likelihood", likelihood), ("plugin", plugin)):
    print(
        f"{name:10} {found.status:10} a visit to the lawn costs {found.weights[lawn]:.2f}, "
        f"goes round with probability {found.policy[home, 1]:.4f}"
    )
