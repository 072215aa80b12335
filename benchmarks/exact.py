"""Speed and scale of the exact method.

1. The four 7x7 maps at slip 0.1, one-hot state features, beta 0.1, budget 1e-3: seconds a solve, KKT, gap.
2. Newton (our default) against the paper's projected gradient to the same KKT residual.
3. Square maps of growing size at slip 0.2, eight moves, one-hot states: seconds, accuracy, memory, fitted exponent.

    python -m benchmarks exact [--sizes 10,20,50,100,150] [--out results/bench-exact.json]

Expert moments are exact: those of the soft-optimal policy for the reward minus 2n a visit of a constrained cell, n the
longer side of the map: more than the detour costs.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

from benchmarks.maps import large_map
from tacit.envs.gridworld import make_spec
from tacit.forward.soft_policy_iteration import occupancy, plan
from tacit.run import provenance, storage
from tacit.tabular import solve

BETA, BUDGET = 0.1, 1e-3


def expert_moments(spec: Any, mdp: Any) -> np.ndarray:
    weight = 2 * max(spec.shape)  # more than any detour costs
    policy = plan(mdp, mdp.rewards - weight * spec.constrained[:, None], BETA).policy
    return occupancy(mdp, policy).sum(axis=1)


def timed(spec: Any, repeats: int = 1, **options: Any) -> dict[str, Any]:
    """The best of `repeats` solves, building the model included."""
    best: dict[str, Any] = {}
    moments = expert_moments(spec, spec.model())
    for _ in range(repeats):
        started = time.perf_counter()
        solution = solve(spec.model(), "state", moments, beta=BETA, budget=BUDGET, **options)
        seconds = time.perf_counter() - started
        if not best or seconds < best["seconds"]:
            certificate = solution.certificate
            best = {
                "states": spec.n_states,
                "seconds": seconds,
                "status": solution.status,
                "iterations": len(solution.history),
                "kkt": certificate.kkt,
                "gap": certificate.gap,
                "relative_complementarity": certificate.complementarity / (1 + abs(certificate.dual_value)),
                "infeasibility": certificate.infeasibility,
                "history": solution.history,
            }
    return best


def small_maps() -> list[dict[str, Any]]:
    print("\n7x7 maps, slip 0.1, one-hot states, beta 0.1, budget 1e-3 (target: KKT and gap <= 1e-8 in under 0.1 s)")
    records = []
    for i in (1, 2, 3, 4):
        record = {"map": f"wall-{i}", **timed(make_spec(f"wall-{i}", slip=0.1), repeats=5)}
        record.pop("history")
        records.append(record)
        print(
            f"  {record['map']}  {1e3 * record['seconds']:6.1f} ms  {record['iterations']:3d} iterations  "
            f"KKT {record['kkt']:.1e}  gap {record['gap']:+.1e}"
        )
    return records


def against_gradient(target: float = 1e-3, limit: int = 20_000) -> list[dict[str, Any]]:
    """How long both take to the same KKT residual; the gradient gets the best of a few fixed steps."""
    print(f"\nNewton against the paper's fixed-step projected gradient, to KKT <= {target:g}")
    records = []
    for i in (1, 2, 3, 4):
        spec = make_spec(f"wall-{i}", slip=0.1)
        newton = timed(spec, repeats=3, tolerance=target)
        slow = [
            timed(spec, method="gradient", step_size=step, max_iterations=limit, tolerance=target)
            for step in (0.5, 0.05, 0.005)
        ]
        reached = [record for record in slow if record["kkt"] <= target]
        best = min(reached, key=lambda record: record["seconds"]) if reached else None
        ratio = best["seconds"] / newton["seconds"] if best else None
        closest = min(record["kkt"] for record in slow)
        shown = f"{ratio:8.0f} x" if ratio else f"not reached in {limit} steps (best KKT {closest:.1e})"
        print(f"  wall-{i}  Newton {1e3 * newton['seconds']:6.1f} ms;  gradient / Newton: {shown}")
        records.append(
            {
                "map": f"wall-{i}",
                "newton_seconds": newton["seconds"],
                "gradient_seconds": best["seconds"] if best else None,
                "gradient_iterations": best["iterations"] if best else None,
                "gradient_best_kkt": closest,
                "ratio": ratio,
            }
        )
    return records


def scaling(sizes: list[int]) -> dict[str, Any]:
    print("\nn x n cells, slip 0.2, eight moves, one-hot states, beta 0.1, budget 1e-3")
    records = []
    for n in sizes:
        record = timed(make_spec(large_map(n, seed=0), slip=0.2, moves=8), repeats=3 if n <= 20 else 1)
        record.pop("history")
        record["peak_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        records.append(record)
        print(
            f"  {n:4d}^2 = {record['states']:6d} states  {record['seconds']:8.2f} s  {record['iterations']:3d} steps"
            f"  complementarity {record['relative_complementarity']:.1e}  infeasibility {record['infeasibility']:.1e}"
            f"  KKT {record['kkt']:.1e}  {record['peak_gigabytes']:.2f} GB  {record['status']}"
        )
    exponent = float("nan")
    if len(records) > 1:
        exponent = float(
            np.polyfit(np.log([r["states"] for r in records]), np.log([r["seconds"] for r in records]), 1)[0]
        )
        print(f"  seconds ~ states^{exponent:.2f} (the earlier causal-entropy method: 3)")
    return {"sizes": records, "exponent": exponent}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks exact", description=__doc__)
    parser.add_argument("--sizes", default="10,20,50,100,150")
    parser.add_argument("--out", default=None, help="also write the numbers as JSON")
    options = parser.parse_args(arguments)
    results = {
        "provenance": provenance("python -m benchmarks exact " + " ".join(arguments)),
        "small": small_maps(),
        "gradient": against_gradient(),
        "scaling": scaling([int(size) for size in options.sizes.split(",")]),
    }
    if options.out:
        storage.write_json(options.out, results)
