"""The gridworld from end to end: demonstrations, the exact method, its certificate, and a picture.

Writes gridworld.png beside you. The command line does the same and more: `tacit demo`.
"""

from pathlib import Path

import numpy as np

from tacit import demos, make_spec, solve
from tacit.evaluate import cost_quality, evaluate_exact, reachable_states
from tacit.forward.soft_policy_iteration import plan
from tacit.plots.grids import Panel, grid_figure

BETA = 0.1

# 1. A world with a hidden constraint, and an expert who knows it.
spec = make_spec("paper", slip=0.1)
mdp = spec.model()
data = demos.expert_demonstrations(spec, n=50, seed=0)

# 2. Learn from what the expert did. `spec.constrained` is not used here.
solution = solve(mdp, "state", demonstrations=spec.to_tabular(data), beta=BETA, objective="likelihood")
print(solution.status, f"after {len(solution.history)} iterations:", solution.certificate.statement)

# 3. Now the truth comes out: how does the learned agent behave, and does the cost mark the right cells?
agents = {
    "expert": demos.expert_policy(spec),
    "without constraint": plan(mdp, mdp.rewards, BETA).policy,
    "learned": solution.policy,
}
for name, policy in agents.items():
    found = evaluate_exact(mdp, policy, spec.constrained, step_limit=spec.horizon).as_dict()
    print(f"{name:20} return {found['return']:7.3f}   violating steps {100 * found['violation_rate_step']:6.2f} %")
quality = cost_quality(solution.weights, spec.constrained, reachable=reachable_states(mdp))
print(f"AUROC {quality.auroc:.3f}, best IoU {quality.best_iou:.3f}")

# 4. A picture.
expert_visits = np.bincount(spec.states_of(data.observations), minlength=spec.n_states) / len(data)
learned_visits = evaluate_exact(mdp, solution.policy, spec.constrained, step_limit=spec.horizon).visits
panels = [
    Panel(title="The map"),
    Panel(expert_visits, "visits per episode", "visits", "log", title="What the expert does"),
    Panel(solution.weights, "cost of a visit", "cost", title="The recovered cost"),
    Panel(learned_visits, "visits per episode", "visits", "log", title="What the learned agent does"),
]
row, column = spec.cells.T
Path("gridworld.png").write_bytes(
    grid_figure(spec.rows, panels, row=row, col=column, outline=spec.constrained, format="png")
)
print("gridworld.png")
