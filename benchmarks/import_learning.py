"""What comes out of learning from other people's layouts?

    python -m benchmarks import-learning [--seed 0] [--out results/bench-import-learning.json]

The shipped demonstrations of Pendulum are written in each layout, imported as `tacit demos import` does, and learned
from with the defaults of `tacit learn mce`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit import demos as demonstrations
from tacit import imports
from tacit.demos import Demonstrations
from tacit.run import provenance, storage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "imports"))
import foreign

ENV = "tacit/Pendulum-v0"


LAYOUTS: dict[str, Callable[[Path, Demonstrations], Path]] = {
    "Malik": lambda folder, demos: foreign.malik(folder / "malik", demos),
    "Liu": lambda folder, demos: foreign.liu(folder / "liu", demos),
    "D4RL": lambda folder, demos: foreign.hdf5(folder / "d4rl.hdf5", foreign.flat(demos)),
    "Minari": lambda folder, demos: foreign.hdf5(folder / "main_data.hdf5", foreign.minari(demos)),
    "imitation": lambda folder, demos: foreign.imitation_npz(folder / "imitation.npz", demos),
}


def run(seed: int) -> dict[str, Any]:
    """{layout: what came in, and what the learned policy does}."""
    demos = demonstrations.load(demonstrations.shipped(ENV))
    table = {}
    for name, write in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            data = imports.read(write(Path(folder), demos), env=ENV)
            learned = tacit.learn(ENV, data, seed=seed, out=Path(folder) / "runs")
            row = learned.summary["table"]["learned"]
            table[name] = {
                "episodes": len(data),
                "steps": data.n_steps,
                "same_observations": bool(np.array_equal(data.observations, demos.observations)),
                "return": row["return"]["value"],
                "violation_rate_episode": row["violation_rate_episode"]["value"],
            }
        print(name, table[name], flush=True)
    return table


def main(args: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks import-learning", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    chosen = parser.parse_args(args)
    table = run(chosen.seed)
    if chosen.out:
        command = f"python -m benchmarks import-learning --seed {chosen.seed} --out {chosen.out}"
        storage.write_json(chosen.out, {"provenance": provenance(command), "seed": chosen.seed, "table": table})
