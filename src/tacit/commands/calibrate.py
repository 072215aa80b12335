"""Choose the threshold above which a learned cost counts as forbidden, with a guarantee.

  tacit calibrate RUN [--demos FILE] [--delta 0.1] [--against FILE]

The guarantee: a new demonstration of the same kind is accepted with probability at least 1 - delta. It needs at least
1/delta - 1 demonstrations that the run has not learned from. Hold them out when you learn (option --calibration N of
`tacit learn`), or give a file with --demos. The guarantee limits false alarms only. The power, printed with it, says
how much of what an agent without constraint does is rejected. The threshold is written into the run's cost files.

Examples:
  tacit learn mce tacit/Pendulum-v0 --calibration 20
  tacit calibrate mce-pendulum-s0-b185f477
  tacit calibrate mce-pendulum-s0-b185f477 --demos more.npz --delta 0.05 --against careless.npz
"""

from __future__ import annotations

from typing import Annotated

import tyro

from tacit.commands import RunPath, open_run, print_json, require_finished
from tacit.cost.calibration import calibrate_run
from tacit.demos import load
from tacit.explain import refresh_explanation
from tacit.metrics import percent
from tacit.run.summary import CalibrationEntry

DemoFile = Annotated[str | None, tyro.conf.arg(metavar="FILE")]


def calibrate(
    run: RunPath, /, *, demos: DemoFile = None, delta: float = 0.1, against: DemoFile = None, json: bool = False
) -> None:
    """Choose a threshold.

    Args:
        demos: Demonstrations that the run has not learned from. Default: those that it held out.
        delta: Largest share of new demonstrations that may be rejected.
        against: Demonstration file with trajectories that ought to be rejected, to measure the power.
        json: Print the result as JSON.
    """
    opened = open_run(run)
    require_finished(opened)
    calibrations = calibrate_run(
        opened, None if demos is None else load(demos), delta, None if against is None else load(against)
    )
    with opened:
        refresh_explanation(opened)
    entries = {name: calibration.to_dict() for name, calibration in calibrations.items()}
    if json:
        return print_json({"run": opened.path, **entries})
    print("\n".join(line for name, entry in entries.items() for line in lines(name, entry)))


USELESS = 0.01
"""A threshold that rejects a smaller share of an unconstrained agent's steps rejects next to nothing."""
WHICH = {"cost": "the cost that drove the policy", "map": "the constraint map"}


def lines(name: str, entry: CalibrationEntry) -> list[str]:
    """One cost's threshold in words."""
    power = entry["power"]
    words = [
        f"{WHICH[name]}: forbidden above {entry['threshold']:.4g}",
        f"  {entry['guarantee']}",
        f"  With 95 % confidence at least {percent(entry['accepts_at_least'])} of other demonstrations are accepted.",
    ]
    caught = []
    if "trajectories" in power:
        whole = power["trajectories"]
        ends = f"95 % interval {percent(whole['low'])} to {percent(whole['high'])}"
        caught.append(f"{percent(whole['value'])} of the trajectories ({ends})")
    if "steps" in power:
        caught.append(f"{percent(power['steps'])} of the steps")
    if caught:
        words.append(f"  Power: of {power['of']}, {' and '.join(caught)} are rejected.")
        if power.get("steps", 1.0) < USELESS:
            words.append(
                "  That is next to nothing: the demonstrations themselves reach the highest costs. A larger delta "
                "lowers the threshold. If that does not help, the cost cannot tell them from an unconstrained agent."
            )
    else:
        words.append("  Power: not measured. Give trajectories that ought to be rejected with --against FILE.")
    return words
