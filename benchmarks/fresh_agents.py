"""Do agents from nothing keep to a cost that was learned from other demonstrations, and is it known without the truth?

    python -m benchmarks fresh-agents [--only WORD ...] [--seeds 202,203] [--runs FOLDER] [--out FILE]

For each task of `benchmarks.alarms`, with 40 fresh scripted demonstrations: `tacit learn mce` with the default
settings, then agents from nothing with its frozen cost, charged in several ways (CHARGES), and one that is told the
true cost (rcpo). Beside the violating episodes stands what the run says without the truth
(`tacit.forward.obedience`). A task and seed that is in the file already is not made again.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

from benchmarks.alarms import BAD, TASKS, Case
from tacit import Learned, learn
from tacit.errors import UserError
from tacit.run import provenance, storage

CHARGES = ("soft", "excess", "set", "price")


def row_of(learned: Learned) -> dict[str, Any]:
    """Behaviour, and what is known of it without the truth."""
    table = learned.summary["table"]
    measured, obedience = table["learned"], learned.summary.get("obedience", {})
    return {
        "violating episodes": {name: measured["violation_rate_episode"][name] for name in ("value", "low", "high")},
        "return": measured["return"]["value"],
        "return of demonstrations": table["demonstrations"]["return"]["value"],
        "alarms": [one.name for one in learned.alarms if one.level == "alarm"],
        **({"episodes above the threshold": obedience["above"]["value"]} if obedience else {}),
        "steps": learned.summary.get("steps"),
        "commit": learned.run.read("provenance.json").get("commit"),
    }


def measure(case: Case, runs: Path) -> dict[str, Any]:
    """All agents of one task and seed."""
    task = TASKS[case.task]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is doubtful is among the alarms
        learned = case.run(runs)
        found: dict[str, Any] = {"task": case.task, "seed": case.seed, "mce": row_of(learned)}
        found["mce"]["terms"] = ["+".join(term.names) for term in getattr(learned.cost, "terms", ())]
        for charge in CHARGES:
            try:
                found[charge] = row_of(learned.retrain(charge))  # type: ignore[arg-type]
            except UserError as error:  # a cost that forbids nothing cannot be a set
                found[charge] = {"refused": str(error)}
        told = learn(
            task.env,
            case.demonstrations(),
            method="rcpo",
            env_kwargs=dict(task.options),
            seed=case.seed,
            out=runs,
            anyway=True,
        )
    found["rcpo"] = row_of(told)
    return found


def in_short(cell: dict[str, Any]) -> str:
    """Violating episodes (return) of one agent."""
    return "refused" if "refused" in cell else f"{cell['violating episodes']['value']:.0%} ({cell['return']:.3g})"


def report(rows: list[dict[str, Any]]) -> None:
    """One line a task, then how many fresh agents that violate raise an alarm."""
    for row in rows:
        cells = (f"{name} {in_short(row[name])}" for name in ("mce", *CHARGES, "rcpo"))
        print(f"{row['task']}, seed {row['seed']}: {', '.join(cells)}", flush=True)
    fresh = [row[CHARGES[0]] for row in rows if "refused" not in row[CHARGES[0]]]
    bad = [one for one in fresh if one["violating episodes"]["value"] > BAD]
    good = [one for one in fresh if one["violating episodes"]["value"] <= BAD]
    alarmed = [sum(bool(one["alarms"]) for one in part) for part in (bad, good)]
    print(f"alarms at {alarmed[0]} of {len(bad)} fresh agents that violate in more than {BAD:.0%} of episodes")
    print(f"and at {alarmed[1]} of {len(good)} others")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fresh-agents", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="tasks whose name contains one of these")
    parser.add_argument("--seeds", default="202", help="seeds, separated by commas")
    parser.add_argument("--runs", type=Path, default=Path("runs/fresh-agents"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=Path("results/bench-fresh-agents.json"))
    options = parser.parse_args(arguments)
    content: dict[str, Any] = {"provenance": [], "runs": []}
    if options.out.exists():
        content = storage.read_json(options.out)
    origin = provenance("python -m benchmarks fresh-agents " + " ".join(arguments))
    made = {(row["task"], row["seed"]) for row in content["runs"]}
    for seed in map(int, options.seeds.split(",")):
        for name in TASKS:
            wanted = not options.only or any(word in name for word in options.only)
            if wanted and (name, seed) not in made:
                content["runs"].append(measure(Case("default", name, seed), options.runs))
                if origin not in content["provenance"]:
                    content["provenance"].append(origin)
                storage.write_json(options.out, content)
                report(content["runs"][-1:])
    report(content["runs"])
