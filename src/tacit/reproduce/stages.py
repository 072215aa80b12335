"""Experiments in two stages: the runs of the second stage need files that the first stage makes.

`robots-noise`: after every step a Gaussian of standard deviation 1e-3, 1e-2 or 1e-1 is added to each coordinate of
position and velocity, for the demonstrator as for the learner. Experts are first trained with each noise, and without
noise (seed 0). Their violation-free episodes are the demonstrations of all methods and seeds; the experts' own row has
all of their episodes. The controls are the clone with which the methods begin (`bc`), and one that follows the reward
alone. VICRL's prior in the noise is the published one.

`transfer`: the four methods learn a cost of (x, y) on the Ant, as earlier work did for Point, and a fresh agent follows
the target's reward and that frozen cost (algorithm `retrain`: what exceeds the usual threshold is charged, 1 at most,
with a budget of 0). On Point, costs of x alone are tested, too, because the Ant's demonstrations all run one way and
hardly visit y > 0, where Point must go. PPO without cost and RCPO with the target's true cost are the references. If a
cost forbids nothing that its learner tried, nothing is charged, and the seed still counts. The group Ant has the runs
in which the costs were learned.

`retraining`: the same in the environment where the cost was learned, for mce and me-icrl with the costs of `robots`,
which read all inputs. In the rows "budget", agents are charged the cost itself, with the demonstrations' mean cost as
budget. Fresh agents have seeds of their own (1000 more): with the same seed they would begin with the same network.

`demos-violating`: 20, 50 and 80 % of the demonstrations violate the constraint. They are episodes of PPO on the reward
alone (seeds 50 to 52) that break the constraint at least once, and they replace the last 10, 25 or 40 of the 50. So a
violating demonstration is a complete episode with a good return, and nothing else distinguishes it. Returns are
compared with the clean 50. MCE-ICRL has two rows. The preset's large square on demonstrations allows everything that
was ever demonstrated. With a square as small as the learner's, it matters how often it was demonstrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from tacit import demos as demonstrations
from tacit.demos import Demonstrations
from tacit.demos.data import Trajectory, from_trajectories
from tacit.envs.registry import make_vec
from tacit.errors import RunFailed
from tacit.policy import Policy
from tacit.reproduce import figures, overall, tables
from tacit.reproduce.experiment import METHODS, REFERENCES, Experiment, Group, Row, Staged, robot, shortened
from tacit.reproduce.frozen import OTHER_SEED, frozen, paths_of
from tacit.reproduce.records import group_of
from tacit.reproduce.results import Missing, Record, Results
from tacit.run import Run, storage
from tacit.run.log import say
from tacit.sweep import Job, Task

# ---------------------------------------------------------------------------------------------------------------------
# Noise

EXPERT = "expert"
NOISY = {"vicrl": {"prior": [9.0, 1.0]}}
LOWEST = 1e-4
"""Position of zero noise on a logarithmic axis."""
EXPERT_LATER = "(demonstrations of the expert in the noise)"


def noise_groups() -> dict[str, Group]:
    """A group per standard deviation of the noise."""
    env = "tacit/HalfCheetah-v0"
    noisy = {f"noise {noise:g}": Group(env, {"noise": noise}, value=noise) for noise in (1e-3, 1e-2, 1e-1)}
    return {"no noise": Group(env, value=LOWEST), **noisy}


@dataclass(frozen=True)
class Noise(Staged):
    """Experts are trained with the noise, then methods learn from them. The first row shows the experts."""

    def groups_of(self, quick: bool) -> list[str]:
        """The groups, the largest noise first: it shows soonest whether an expert finds legal episodes at all."""
        return super().groups_of(quick)[::-1]

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """An expert for each noise."""
        return [self.job(name, EXPERT, self.rows[EXPERT], self.seeds[0], quick) for name in self.groups_of(quick)]

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """The experts, and one run per seed, method and noise."""
        files = {group_of(task.job.label): str(task.path / "demos.npz") for task in finished}
        jobs = self.first(seeds, quick) if self.seeds[0] in seeds else []
        for seed in seeds:
            for name, row in self.rows.items():
                for group in self.groups_of(quick) if name != EXPERT else ():
                    world = replace(self.groups[group], demos=files.get(group, EXPERT_LATER))
                    rates = shortened(row.algo, world.env) if name in METHODS else {}
                    settings = {**rates, **row.settings, **(NOISY.get(name, {}) if world.env_kwargs else {})}
                    jobs.append(self.job(group, name, replace(row, settings=settings), seed, quick, world))
        return jobs


# ---------------------------------------------------------------------------------------------------------------------
# Frozen costs

SOURCE = "Ant"
TARGETS = ("Point", "BrokenAnt")
X_ALONE = ", x alone"
INPUTS = {"": ["x_position", "y_position"], X_ALONE: ["x_position"]}
"""Inputs of the costs, by the suffix of the row's name."""
BUDGET = ", budget"
"""Suffix of the name of a row whose agents are charged the cost itself (`retrain.Config.charge`)."""
TRANSFER_GROUPS = (TARGETS[0], TARGETS[0] + X_ALONE, TARGETS[1], SOURCE, SOURCE + X_ALONE)


@dataclass(frozen=True)
class FrozenCost(Staged):
    """Costs are learned, then fresh agents are trained with these costs frozen."""

    def fresh(self, group: str, name: str, finished: Sequence[Task], source: str, seed: int, quick: bool) -> Job:
        """A fresh agent with the cost that a finished run of that row and seed learned."""
        learned = name.removesuffix(BUDGET)
        charge = {"charge": "excess" if learned == name else "budget"}
        row = frozen(charge, paths_of(finished).get((f"{source}: {learned}", seed)))
        return self.job(group, name, row, OTHER_SEED + seed, quick, robot(group))


@dataclass(frozen=True)
class Transfer(FrozenCost):
    """Costs learned on the Ant, used by agents on other robots."""

    def sources(self, quick: bool) -> dict[str, Row]:
        """Methods with the inputs of their costs."""
        return {
            algo + end: Row(algo, settings={**shortened(algo, robot(SOURCE).env), "inputs": inputs})
            for end, inputs in INPUTS.items()
            for algo in (METHODS[:2] if quick else METHODS)
        }

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """Runs that learn costs on the Ant."""
        rows = self.sources(quick)
        return [self.job(SOURCE, name, row, seed, quick) for seed in seeds for name, row in rows.items()]

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """One fresh agent per seed, target and cost; the references; and the runs that the costs come from."""
        jobs = self.first(seeds, quick)
        for seed in seeds:
            for target in TARGETS:
                for name in self.sources(quick):
                    if target == TARGETS[0] or name in METHODS:
                        jobs.append(self.fresh(target, name, finished, SOURCE, seed, quick))
                for algo in REFERENCES:
                    jobs.append(self.job(target, algo, Row(algo), seed, quick))
        return jobs


@dataclass(frozen=True)
class Retraining(FrozenCost):
    """Costs of `robots`, used by fresh agents on the same robot."""

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """The runs of `robots` whose costs are tested."""
        learned = [name for name in self.rows if name not in REFERENCES and not name.endswith(BUDGET)]
        return [
            self.job(group, algo, Row(algo), seed, quick)
            for seed in seeds
            for group in self.groups_of(quick)
            for algo in learned
        ]

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """Two fresh agents per seed, robot and method, and the references of `robots`."""
        return [
            self.job(group, name, Row(name), seed, quick)
            if name in REFERENCES
            else self.fresh(group, name, finished, group, seed, quick)
            for seed in seeds
            for group in self.groups_of(quick)
            for name in self.rows
        ]


def by_inputs(results: Results) -> Results:
    """The results with costs of x alone in separate groups, and Point's references in both of its groups."""

    def labels(label: str) -> list[str]:
        group, _, row = label.partition(": ")
        plain = row.removesuffix(X_ALONE)
        own = [label] if plain == row else []
        both = plain != row or (group == TARGETS[0] and row in REFERENCES)
        return [*own, f"{group}{X_ALONE}: {plain}"] if both else own

    runs: list[Record] = [{**run, "label": label} for run in results["runs"] for label in labels(run["label"])]
    lost = results.get("missing") or []
    missing: list[Missing] = [{**run, "label": label} for run in lost for label in labels(run["label"])]
    return {**results, "runs": runs, "missing": missing}


def transfer_table(experiment: Experiment, results: Results) -> str:
    """The comparison by target and inputs. Targets have no demonstrations; Point's references serve both its groups."""
    apart, rows = by_inputs(results), list(experiment.rows)
    together = overall.table(apart, TARGETS, rows, scores=[overall.BROKEN])
    return together + tables.by_group(apart, TRANSFER_GROUPS, rows, experiment.beside)


def transfer_figure(experiment: Experiment, results: Results) -> bytes:
    return figures.curves_of(by_inputs(results), TRANSFER_GROUPS, list(experiment.rows))


# ---------------------------------------------------------------------------------------------------------------------
# Demonstrations that violate

SHARES = (0.2, 0.5, 0.8)
VIOLATORS = (50, 51, 52)
ENVS = 50
MOST_EPISODES = 400
"""Most episodes to sample from each violator."""
MIXED_LATER = "(demonstrations of which some violate)"
CLEAN_NOTE = "*Demonstrations* are those that come with Tacit, none of which violates, also where some were replaced."


def share_groups(names: Sequence[str]) -> dict[str, Group]:
    """A group per robot and share of violating demonstrations."""
    shares = (0.0, *SHARES)
    return {f"{name}, {100 * s:g} %": replace(robot(name), value=100 * s) for name in names for s in shares}


def robot_of(label: str) -> str:
    """The robot of "Pendulum, 50 %: mce" or of "Pendulum: ppo"."""
    return label.partition(":")[0].partition(",")[0]


@dataclass(frozen=True)
class ViolatingDemonstrations(Staged):
    """Violating policies are trained, their episodes mixed with clean demonstrations, and methods learn from both."""

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """The runs that train the violating policies."""
        names = dict.fromkeys(map(robot_of, self.groups))
        violators = VIOLATORS[:1] if quick else VIOLATORS
        return [self.job(name, "ppo", Row("ppo"), seed, quick, robot(name)) for name in names for seed in violators]

    def make(self, tasks: Sequence[Task], quick: bool = False) -> None:
        """Write the mixed demonstrations that do not exist yet. Report those that cannot be made, and make the rest."""
        for violators in by_robot(tasks, quick).values():
            files = {share: mixed_file(violators, share) for share in SHARES}
            absent = {share: file for share, file in files.items() if not file.exists()}
            bad = violating(violators) if absent else []
            for share, file in absent.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                try:
                    demonstrations.save(mixed(violators[0].job.env, bad, share), file)
                except RunFailed as error:
                    say(str(error))

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """One run per seed, robot, share and method; `finished` are the runs of the violating policies."""
        violators = by_robot(finished, quick)
        jobs = []
        for seed in seeds:
            for name in self.groups_of(quick):
                group = self.groups[name]
                share, there = (group.value or 0.0) / 100, violators.get(robot_of(name))
                file = None if not share else str(mixed_file(there, share)) if there else MIXED_LATER
                for row_name, row in self.rows.items():
                    jobs.append(self.job(name, row_name, row, seed, quick, replace(group, demos=file)))
        return jobs


def by_robot(tasks: Sequence[Task], quick: bool) -> dict[str, list[Task]]:
    """Violators by robot, if the robot has all of them; a mixture from fewer would be a different experiment."""
    tasks_of: dict[str, list[Task]] = {}
    for task in tasks:
        tasks_of.setdefault(robot_of(task.job.label), []).append(task)
    needed = 1 if quick else len(VIOLATORS)
    return {name: violators for name, violators in tasks_of.items() if len(violators) == needed}


def mixed_file(tasks: Sequence[Task], share: float) -> Path:
    """The file of mixed demonstrations, beside the run folders. Its name contains a hash of the violating policies."""
    policies = [storage.sha256_of_file(task.path / "model" / "policy.safetensors") for task in tasks]
    digest = storage.sha256_of_bytes("".join([clean(tasks[0].job.env).sha256, *policies]).encode())[:8]
    name = robot_of(tasks[0].job.label).lower()
    return tasks[0].path.parent / "demonstrations" / f"{name}-{digest}-{100 * share:g}.npz"


def clean(env: str) -> Demonstrations:
    """The demonstrations that come with Tacit."""
    included = demonstrations.shipped(env)
    assert included is not None
    return demonstrations.load(included)


def mixed(env: str, bad: Sequence[Trajectory], share: float) -> Demonstrations:
    """The clean demonstrations, with the last `share` of them replaced by violating episodes."""
    good = clean(env)
    wrong = round(share * len(good))
    if len(bad) < wrong:
        raise RunFailed(f"{env}: only {len(bad)} episodes of PPO without cost violate, but {wrong} are needed")
    both = [*good.subset(np.arange(len(good) - wrong)), *bad[:wrong]]
    card = {**good.card, "source": f"{good.card.get('source')}; {wrong} of {len(good)} by PPO without cost, violating"}
    return replace(from_trajectories(both, card), card=card)


def violating(tasks: Sequence[Task]) -> list[Trajectory]:
    """Episodes that break the constraint at least once, taken from the finished runs' policies in turn."""
    turns = chain.from_iterable(zip_longest(*map(_violating, tasks)))
    return [episode for episode in turns if episode is not None]


def _violating(task: Task) -> list[Trajectory]:
    policy = Policy.from_arrays(*Run.open(task.path).load_model("policy"))
    env = make_vec(task.job.env, ENVS)
    try:
        sampled = demonstrations.collect(env, policy, MOST_EPISODES, seed=30_000 + task.job.seed)
    finally:
        env.close()
    assert sampled.costs is not None
    return [sampled[int(i)] for i in np.flatnonzero(np.add.reduceat(sampled.costs, sampled.step_offsets) > 0)]


def share_table(experiment: Experiment, results: Results) -> str:
    """The comparison with the clean demonstrations' return, because the return of a mixture measures nothing."""
    envs = {robot_of(name): group.env for name, group in experiment.groups.items()}
    earned = {name: float(np.mean(clean(env).returns)) for name, env in envs.items()}
    experts = {name: {"return": value, "terminated_return": value} for name, value in earned.items()}
    runs: list[Record] = [{**run, "expert": experts[robot_of(run["label"])]} for run in results["runs"]]
    return tables.comparison(experiment, {**results, "runs": runs})
