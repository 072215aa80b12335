"""Demonstrations from and to Minari datasets, with the true costs in their infos.

On the command line: `tacit demos export FILE minari:NAME` and `tacit demos import minari:NAME -o FILE`. Needs
`pip install '.[minari]'`.
"""

# needs: minari, h5py
import os

os.environ.setdefault("MINARI_DATASETS_PATH", os.path.abspath("minari"))  # here, and not in the home folder

import minari

from tacit import demos, make_spec, solve
from tacit.interop.minari import from_minari, to_minari

# 1. Ours become a dataset that anybody's Minari reads.
spec = make_spec("paper", slip=0.1)
to_minari(demos.expert_demonstrations(spec, n=50, seed=0), "tacit/gridworld/expert-v0")
dataset = minari.load_dataset("tacit/gridworld/expert-v0")
episode = next(dataset.iterate_episodes())
costs = episode.infos["cost"][1:]  # Minari's first is that of the reset
print(f"{dataset.total_episodes} episodes, {dataset.total_steps} steps; the first costs {costs.sum():g}")

# 2. And a dataset becomes demonstrations to learn from.
data = from_minari("tacit/gridworld/expert-v0")
demos.validate(data, spec)
solution = solve(spec.model(), "state", demonstrations=spec.to_tabular(data), beta=0.1, objective="likelihood")
print(solution.status, f"after {len(solution.history)} iterations")
