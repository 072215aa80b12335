"""Do runs that break the hidden rule raise an alarm, and are good ones left alone? Alarms beside the truth.

    python -m benchmarks alarms [--only WORD ...] [--runs FOLDER] [--out results/bench-alarms.json]

Good runs have the default settings. Bad ones are made badly on purpose: see KINDS. What counts is not the intention but
what the learned policy does: a run is bad if more than BAD of its episodes violate. A run that is in the file already
is not made again. `--only` takes runs whose name contains every word, such as `--only "wrong inputs" disc`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit import Learned, learn
from tacit.demos import Demonstrations, load, scripted_demonstrations, shipped
from tacit.run import provenance, storage

DEMONSTRATIONS = 40
BAD = 0.1
"""Share of violating episodes above which a run is bad."""
MAPS: dict[str, list[dict[str, list[float]]]] = {
    "corridor": [{"box": [-0.6, -3.5, 0.6, -0.9]}, {"box": [-0.6, 0.9, 0.6, 3.5]}],
    "small disc": [{"disc": [0.5, 0.5, 0.6]}],
    "bar": [{"box": [-1.5, -0.4, 1.5, 0.4]}],
}
"""Maps of our own, beside the built-in ones."""


@dataclass(frozen=True)
class Task:
    """An environment with a hidden rule."""

    env: str
    options: Mapping[str, Any] = field(default_factory=dict)
    wrong_inputs: tuple[str, ...] = ()
    """Inputs that cannot show the rule."""
    other: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment that demonstrations of another task come from."""


def _nav(shape: Any, other: str) -> Task:
    return Task("tacit/Nav-v0", {"shape": shape}, ("vx", "vy"), {"shape": other})


TASKS = {
    "disc": _nav("disc", "wall"),
    "slow zone": Task("tacit/SlowZone-v0", {}, ("v",)),
    "product": Task("tacit/Reactor-v0", {"rule": "product"}, ("Ca",), {"rule": "ratio"}),
    "discs": _nav("discs", "disc"),
    "ell": _nav("ell", "discs"),
    "ratio": Task("tacit/Reactor-v0", {"rule": "ratio"}, ("Ca",), {"rule": "product"}),
    "wall": _nav("wall", "ell"),
    **{name: _nav(shapes, "disc") for name, shapes in MAPS.items()},
    "pendulum": Task("tacit/Pendulum-v0"),
}
SHORT: dict[str, Any] = {"total_steps": 300_000}
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "thresholds": {"preset": "thresholds", **SHORT},
    "nominal agent of 5,000 steps": {"bootstrap_steps": 5000, **SHORT},
    "three demonstrations": {"demonstrations": 3, **SHORT},
    "wrong inputs": SHORT,
    "demonstrations of another task": SHORT,
    "60,000 steps": {"total_steps": 60_000},
}
"""Settings of each kind of run."""


@dataclass(frozen=True)
class Case:
    """One run to make."""

    kind: str
    task: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.task}, seed {self.seed}"

    def run(self, runs: Path) -> Learned:
        task, settings = TASKS[self.task], dict(KINDS[self.kind])
        if self.kind == "wrong inputs":
            settings["inputs"] = task.wrong_inputs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that they are bad is on purpose
            return learn(
                task.env,
                self.demonstrations(),
                env_kwargs=dict(task.options),
                seed=self.seed,
                out=runs,
                anyway=True,
                **settings,
            )

    def demonstrations(self) -> Demonstrations:
        task = TASKS[self.task]
        file = shipped(task.env)
        if self.task == "pendulum" and file is not None:
            return load(file)
        options = task.other if self.kind == "demonstrations of another task" else task.options
        return scripted_demonstrations(task.env, options, DEMONSTRATIONS, seed=1000 + self.seed)


def cases() -> Iterator[Case]:
    """All runs, the tasks and kinds in turns."""
    shapes = [name for name in TASKS if name != "pendulum"]
    for seed in (200, 201, 202, 203):
        for name in shapes:
            if seed < 202 or name not in MAPS:
                yield Case("default", name, seed)
            if seed == 200 and name not in MAPS:
                yield from (Case(kind, name, seed) for kind in KINDS if kind != "default" and _possible(kind, name))
        if seed == 200:
            yield Case("default", "pendulum", seed)


def _possible(kind: str, task: str) -> bool:
    return kind != "demonstrations of another task" or bool(TASKS[task].other)


def row_of(case: Case, learned: Learned) -> dict[str, Any]:
    """What the file keeps of a run."""
    measured = learned.summary["table"]["learned"]["violation_rate_episode"]
    raised = {level: [one.name for one in learned.alarms if one.level == level] for level in ("alarm", "note")}
    joint = learned.summary.get("joint_test", {})
    return {
        "kind": case.kind,
        "task": case.task,
        "seed": case.seed,
        "violating episodes": {name: measured[name] for name in ("value", "low", "high")},
        "alarms": raised["alarm"],
        "notes": raised["note"],
        "p of the joint test": joint.get("p"),
        "terms": ["+".join(term.names) for term in getattr(learned.cost, "terms", ())],
        "steps": learned.summary.get("steps"),
        "commit": learned.run.read("provenance.json").get("commit"),
    }


def report(rows: list[dict[str, Any]]) -> None:
    """Print what is missed, what is alarmed without need, and the counts."""
    bad = [row for row in rows if row["violating episodes"]["value"] > BAD]
    good = [row for row in rows if row["violating episodes"]["value"] <= BAD]
    missed, false = [row for row in bad if not row["alarms"]], [row for row in good if row["alarms"]]
    of_default = [row for row in good if row["kind"] == "default"]
    false_default = sum(bool(row["alarms"]) for row in of_default)
    for name, part in (("missed", missed), ("false", false)):
        for row in part:
            rate = row["violating episodes"]["value"]
            print(f"{name}: {row['kind']}, {row['task']}, seed {row['seed']}: {rate:.0%} {', '.join(row['alarms'])}")
    print(f"{len(bad) - len(missed)} of {len(bad)} bad runs raise an alarm, {len(false)} of {len(good)} others")
    print(f"of the others with default settings, {false_default} of {len(of_default)}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks alarms", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="runs whose name contains every word")
    parser.add_argument("--runs", type=Path, default=Path("runs/alarms"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=Path("results/bench-alarms.json"))
    options = parser.parse_args(arguments)
    content: dict[str, Any] = {"provenance": [], "runs": []}
    if options.out.exists():
        content = storage.read_json(options.out)
    rows = content["runs"]
    origin = provenance("python -m benchmarks alarms " + " ".join(arguments))
    made = {(row["kind"], row["task"], row["seed"]) for row in rows}
    for case in cases():
        if all(word in str(case) for word in options.only) and (case.kind, case.task, case.seed) not in made:
            rows.append(row_of(case, case.run(options.runs)))
            print(f"{case}: {rows[-1]['violating episodes']['value']:.0%} {', '.join(rows[-1]['alarms'])}", flush=True)
            if origin not in content["provenance"]:
                content["provenance"].append(origin)
            storage.write_json(options.out, content)
    report(rows)
