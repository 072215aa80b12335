"""How long a learned cost takes for one observation and for a batch, beside one step of an environment.

    python -m benchmarks cost [--repeats 7] [--json]

The costs have the sizes of a robot's: soft thresholds on 18 inputs (the reference preset), the constraint map, and a
network on all inputs (the paper's). The unit is the target, 50 microseconds for one observation: a ratio below 1 keeps
it. The clock counts processor time, and the best of the repeats is shown.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.cost import Inputs, LearnedCost

TARGET = 50e-6
"""Seconds for one observation."""
INPUTS = 18
BATCH = 4096
CALLS = 2000


def made(thresholds: int, hidden: tuple[int, ...] = (), joint: int = 0) -> LearnedCost:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    inputs = Inputs(
        tuple(f"f{i}" for i in range(INPUTS)),
        tuple(range(INPUTS)),
        INPUTS,
        0,
        normal(INPUTS),
        np.abs(normal(INPUTS)) + np.float32(0.5),
    )
    sizes = (INPUTS, *hidden, joint) if joint else (INPUTS,)
    weights = tuple(normal(a, b) for a, b in itertools.pairwise(sizes))
    biases = tuple(normal(size) for size in sizes[1:])
    lam = np.abs(normal(INPUTS * thresholds + joint))
    return LearnedCost(inputs, lam, normal(INPUTS, thresholds), normal(INPUTS, thresholds), weights, biases)


COSTS = {
    "thresholds (reference)": lambda: made(16),
    "constraint map": lambda: made(24),
    "network (paper)": lambda: made(0, (64, 64), 64),
    "both": lambda: made(8, (64, 64), 64),
}


def seconds(call: Callable[[], Any], times: int, repeats: int) -> float:
    """Of one call."""
    spent = []
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(times):
            call()
        spent.append((time.process_time() - begin) / times)
    return min(spent)


def measure(repeats: int) -> dict[str, dict[str, float]]:
    one, many = np.zeros(INPUTS), np.zeros((BATCH, INPUTS), np.float32)
    found = {}
    for name, make in COSTS.items():
        cost = make()
        single = seconds(lambda cost=cost: cost(one), CALLS, repeats)  # type: ignore[misc]
        batch = seconds(lambda cost=cost: cost(many), 3, repeats)  # type: ignore[misc]
        found[name] = {"single": single, "of_target": single / TARGET, "batch_row": batch / BATCH}
    return found


def main(args: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks cost", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(args)
    found = measure(options.repeats)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'cost':<24} {'one':>10} {'of 50 us':>9} {'a row of ' + str(BATCH):>14}")
    for name, row in found.items():
        print(f"{name:<24} {1e6 * row['single']:>7.1f} us {row['of_target']:>9.2f} {1e6 * row['batch_row']:>11.2f} us")
