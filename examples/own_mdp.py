"""A finite MDP of your own: two ways to the shop, and a rule that nobody wrote down.

Everybody goes round the lawn, although the way across it is shorter. The demonstrations say so; the cost says why.
"""

import numpy as np

from tacit import MDP, solve

home, lawn, path, gate, shop = range(5)
P = np.zeros((5, 2, 5))  # P[state, action, next state]
P[home, 0, [lawn, path]] = 0.9, 0.1  # action 0 at home: across the lawn
P[home, 1, [lawn, path]] = 0.1, 0.9  # action 1: round it, but one time in ten people stray
P[lawn, :, shop] = P[path, :, gate] = P[gate, :, shop] = 1
mdp = MDP(P, rewards=-np.ones((5, 2)), initial=np.eye(5)[home], discount=0.99, terminal=np.arange(5) == shop)

demos = 9 * [([home, path, gate, shop], [1, 0, 0])] + [([home, lawn, shop], [1, 0])]  # ten people, one strayed
solution = solve(mdp, "state", demonstrations=demos, beta=0.1, budget=0.01)
print(solution.status, "cost of a visit to the lawn:", solution.weights[lawn].round(3))
print(f"at home the learned policy goes round with probability {solution.policy[home, 1]:.3f}")
print(f"duality gap {solution.certificate.gap:.0e}, largest broken limit {solution.certificate.infeasibility:.0e}")
