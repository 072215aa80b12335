"""Choose the threshold above which a learned cost counts as forbidden, with a guarantee.

  tacit calibrate RUN [--demos FILE] [--delta 0.1] [--against FILE]

The threshold is chosen on demonstrations that were used for nothing else: a fresh one, drawn like them, is accepted
with probability at least 1 - delta. That takes at least 1/delta - 1 of them. Keep them when you learn (`tacit learn ...
--calibration N`), or bring others (--demos). The guarantee is about false alarms alone; the power beside it says how
much of what an agent without constraint does is rejected. The threshold is written into the run's cost files.

Examples:
  tacit learn mce tacit/Pendulum-v0 --calibration 20
  tacit calibrate mce-pendulum-s0-b185f477
  tacit calibrate mce-pendulum-s0-b185f477 --demos more.npz --delta 0.05 --against careless.npz
"""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from tacit.commands import RunPath, call, open_run, print_json
from tacit.errors import UserError

DemoFile = Annotated[str | None, tyro.conf.arg(metavar="FILE")]


def calibrate(
    run: RunPath, /, *, demos: DemoFile = None, delta: float = 0.1, against: DemoFile = None, json: bool = False
) -> None:
    """Choose a threshold.

    Args:
        run: Run folder, or its name within ./runs.
        demos: Demonstrations that the run has not learned from; those it held out when not given.
        delta: Share of fresh demonstrations that may be rejected.
        against: Trajectories that ought to be rejected, for the power (a demonstration file too).
        json: Print the result as JSON.
    """
    from tacit.cost.calibration import calibrate_run
    from tacit.demos import load

    opened = open_run(run)
    if not opened.done:
        raise UserError(f"{opened.path} is not finished: `tacit resume {opened.path}` first")
    found = calibrate_run(
        opened, None if demos is None else load(demos), delta, None if against is None else load(against)
    )
    if json:
        return print_json({"run": opened.path, **{name: one.to_dict() for name, one in found.items()}})
    print("\n".join(line for name, one in found.items() for line in lines(name, one.to_dict())))


USELESS = 0.01
"""Share of an unconstrained agent's steps below which a threshold rejects nothing worth mentioning."""
WHICH = {"cost": "the cost that drove the policy", "map": "the constraint map"}


def lines(name: str, found: dict[str, Any]) -> list[str]:
    """One cost's threshold in words."""
    power = found["power"]
    words = [
        f"{WHICH[name]}: forbidden above {found['threshold']:.4g}",
        f"  {found['guarantee']}",
        f"  With 95 % confidence at least {found['accepts_at_least']:.1%} of all further demonstrations are accepted.",
    ]
    caught = []
    if "trajectories" in power:
        whole = power["trajectories"]
        caught.append(
            f"{whole['value']:.1%} of the trajectories (95 % interval {whole['low']:.1%} to {whole['high']:.1%})"
        )
    if "steps" in power:
        caught.append(f"{power['steps']:.1%} of the steps")
    if caught:
        words.append(f"  Power: of {power['of']}, {' and '.join(caught)} are rejected.")
        if power.get("steps", 1.0) < USELESS:
            words.append(
                "  That is next to nothing: demonstrations themselves reach what costs most. With a larger delta the "
                "threshold is lower; or the cost does not tell them from an agent without constraint."
            )
    else:
        words.append("  Power: not known; give trajectories that ought to be rejected with --against FILE.")
    return words


def main(args: list[str]) -> Any:
    return call(calibrate, "calibrate", __doc__, args)
