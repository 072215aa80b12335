"""Demonstrations that look unlike the others: whole trajectories, found without knowing the constraint.

    for suspect in suspects(demos): print(suspect)
    kept, left_out = trim(demos)                     without the suspects

Some demonstrators may have ignored the rule. What they do would count as allowed. They are a minority, they go where
the others do not, and they earn no less by it. Trajectory i spends a share p_i of its steps in each cell of a set S of
inputs (one entry of an observation or action, or a pair). How unlike the others it is, is the median of its distances:

    u_i = median_j d_ij,        d_ij = 1/2 sum_cells |p_i - p_j|        (total variation)                         (1)

d_ij is the share of steps that would have to be elsewhere to make both alike. The median does not mind a minority. The
u_i are split in two where the variance within both parts is smallest (Otsu). The upper part is suspected if

    mean(upper) - mean(lower) >= CONTRAST    and    the same over its standard deviation >= SEPARATION,           (2)

unless it is told from the others by its first observations (it began elsewhere, so it had to go elsewhere), or earns
less than they do (it is clumsy, not tempted). Then the rest is searched again, until nothing more is found. Fewer than
RAREST in all are not worth a suspicion.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos.data import Demonstrations
from tacit.envs.families import find_family
from tacit.errors import UserError, listed
from tacit.metrics import percent

Array = NDArray[Any]
Flags = NDArray[np.bool_]
FEWEST = 5
"""Fewer trajectories have no majority to be compared with."""
MOST = 0.4
"""Largest share of trajectories that can be suspected. Half of them would be no minority."""
MOST_LEFT_OUT = 0.25
"""Largest share that is left out without being asked. A larger group may be another way to do the same."""
RAREST = 0.04
"""Smallest share that is suspected. One in fifty may be an accident of a random world, and does little harm."""
CELLS = {1: 32, 2: 16}
"""Cells per input, for single inputs and for pairs. All steps together fill them evenly."""
PAIRED = 10
"""Inputs whose pairs are looked at: those in which some trajectories stand out most."""
REFERENCES = 100
"""Trajectories that each one is compared with, at most."""
CONTRAST = 0.25
SEPARATION = 2.75
SEPARATION_GIVEN = 4.5
"""The same where starts differ in an input as much as steps do. Then trajectories differ without anybody's choice."""
GIVEN = 0.3
"""Spread of the first observations over the spread of all, above which an input is such a one."""
NOISE = 0.05
"""Standard deviation of (1) that is always allowed for."""
SIGNIFICANT = 0.01
"""p-value below which first observations differ; in inputs that are not the split's, times their number."""


@dataclass(frozen=True)
class Place:
    """Where a suspect is more often than the others, in one input."""

    input: str
    low: float
    high: float
    """Between these values lie 90 % of such steps."""
    others_low: float
    others_high: float
    """The same for all steps of the others."""

    def __str__(self) -> str:
        return f"{self.input} {_range(self.low, self.high)} (others {_range(self.others_low, self.others_high)})"


@dataclass(frozen=True)
class Suspect:
    """One trajectory that looks unlike the others."""

    trajectory: int
    """Its number in the file, counted from 0."""
    places: tuple[Place, ...]
    """One input or two."""
    unlike: float
    """Share of its steps that would have to be elsewhere to make it like a typical other one; see (1)."""
    usual: float
    """The same for the trajectories that are not suspected, on average."""
    earned: float
    """Its return."""
    others_earned: float
    """Mean return of the trajectories that are not suspected."""
    also: tuple[str, ...] = ()
    """Other inputs in which the same trajectories stand out."""

    def __str__(self) -> str:
        also = f"; also in {listed(self.also, 3)}" if self.also else ""
        where = " and ".join(map(str, self.places))
        return (
            f"trajectory {self.trajectory}: {percent(self.unlike)} of its steps are where a typical other one is not "
            f"(the others among themselves: {percent(self.usual)}), in {where}{also}. It earns "
            f"{self.earned:.4g}, the others {self.others_earned:.4g}"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def suspects(demos: Demonstrations) -> tuple[Suspect, ...]:
    """The trajectories that look unlike the others, in the order of the file; see the module's docstring."""
    steps = _Steps(demos)
    kept = np.ones(len(demos), bool)
    groups: list[tuple[_Split, Array, tuple[str, ...]]] = []
    while kept.sum() >= FEWEST:
        room = math.floor(MOST * len(demos)) - int((~kept).sum())
        members = np.flatnonzero(kept)
        accepted = [split for split in steps.splits(members, room) if steps.is_suspicious(split, members)]
        if not accepted:
            break
        # A pair has to show more than its inputs alone: two numbers are harder to understand than one.
        best = steps.completed(max(accepted, key=lambda split: split.contrast - 0.05 * len(split.inputs)), members)
        others = sorted(accepted, key=lambda split: -split.contrast)
        also = [split.inputs[0] for split in others if len(split.inputs) == 1 and split.overlap(best) > 0.8]
        names = tuple(steps.names[j] for j in also if j not in best.inputs)
        groups.append((best, members, names))
        kept[members[best.upper]] = False
    if (~kept).sum() < RAREST * len(demos):
        return ()
    named = [steps.describe(split, members, kept, also) for split, members, also in groups]
    return tuple(sorted(itertools.chain.from_iterable(named), key=lambda suspect: suspect.trajectory))


def most_unlike(demos: Demonstrations, share: float) -> Array:
    """Numbers of the `share` of trajectories that stand out most, suspicious or not, in the order of the file."""
    count = round(share * len(demos))
    if not 0 <= share <= MOST:
        most = f"at most {percent(MOST)} of the demonstrations can be left out as unlike the others"
        raise UserError(f"{most}, not {share}")
    if not count or len(demos) < FEWEST:
        return np.zeros(0, np.int64)
    splits = _Steps(demos).splits(np.arange(len(demos)), count, exactly=count)
    return np.flatnonzero(max(splits, key=lambda split: split.separation).upper) if splits else np.zeros(0, np.int64)


def trim(demos: Demonstrations, how: str | float = "auto") -> tuple[Demonstrations, tuple[int, ...]]:
    """(demonstrations without some, numbers of those left out).

    how: "auto" leaves out the suspects, "off" nothing, a share such as 0.2 those that stand out most. More than a
    quarter is never left out on suspicion: so many may just as well know another way.
    """
    share = _share_of(how)
    if share is None:
        return demos, ()
    out = [one.trajectory for one in suspects(demos)] if share < 0 else [int(i) for i in most_unlike(demos, share)]
    if share < 0 and len(out) > MOST_LEFT_OUT * len(demos):
        return demos, ()
    if not out:
        return demos, ()
    return demos.subset(np.setdiff1d(np.arange(len(demos)), out)), tuple(out)


def _share_of(how: str | float) -> float | None:
    """The share to leave out; -1 for the suspects, None for nothing."""
    if how in ("auto", "off"):
        return -1.0 if how == "auto" else None
    try:
        share = float(how)
    except ValueError:
        raise UserError(f"trim is auto, off or a share such as 0.2, not {how!r}") from None
    if not 0 <= share <= MOST:
        raise UserError(f"trim leaves out at most {percent(MOST)} of the demonstrations, not {how}")
    return share or None


# ---------------------------------------------------------------------------------------------------------------------
# Distances and splits


@dataclass(frozen=True)
class _Split:
    """The trajectories in two parts, by (1) in one set of inputs."""

    inputs: tuple[int, ...]
    unlike: Array
    upper: Flags
    contrast: float
    separation: float

    def overlap(self, other: _Split) -> float:
        """Share of the trajectories in either upper part that are in both."""
        return float((self.upper & other.upper).sum() / max((self.upper | other.upper).sum(), 1))


class _Steps:
    """All steps of the demonstrations as a table of inputs."""

    def __init__(self, demos: Demonstrations) -> None:
        rows = demos.observations.reshape(len(demos.observations), -1).astype(np.float64)
        actions = demos.actions.reshape(demos.n_steps, -1).astype(np.float64)
        self.table = np.column_stack([rows[demos.rows_before + 1], actions])
        self.first = rows[demos.row_offsets]
        self.names = _names(demos, rows.shape[1], actions.shape[1])
        self.trajectory = np.repeat(np.arange(len(demos)), demos.lengths)
        self.lengths = demos.lengths
        # What never changes within a trajectory is given, and nobody's choice.
        same = self.trajectory[1:] == self.trajectory[:-1]
        self.changing = (self.table[1:][same] != self.table[:-1][same]).any(axis=0)
        self.returns, self.rates = demos.returns, demos.returns / demos.lengths

    def splits(self, members: Array, most: int, exactly: int | None = None) -> list[_Split]:
        """The best split of these trajectories in every input, and in pairs of those where some stand out most."""
        table = self.table[np.isin(self.trajectory, members)]
        varying = [j for j in range(table.shape[1]) if self.changing[j] and (table[:, j] != table[0, j]).any()]
        unlike: dict[tuple[int, ...], Array] = {(j,): self._unlike(members, (j,)) for j in varying}

        def stands_out(j: int) -> float:
            return float(np.quantile(unlike[(j,)], 0.9) - np.median(unlike[(j,)]))

        top = sorted(sorted(varying, key=stands_out, reverse=True)[:PAIRED])
        unlike |= {pair: self._unlike(members, pair) for pair in itertools.combinations(top, 2)}
        splits = [_split(inputs, values, most, exactly) for inputs, values in unlike.items()]
        return [split for split in splits if split is not None]

    def _unlike(self, members: Array, inputs: tuple[int, ...]) -> Array:
        """(members,) the median distance (1) to the others."""
        return _median_distance(self._shares(members, inputs), np.arange(len(members)))

    def completed(self, split: _Split, members: Array) -> _Split:
        """The split, with those that are more like the upper part than like the lower one in the upper part, too."""
        shares = self._shares(members, split.inputs)
        upper, lower = (_median_distance(shares, np.flatnonzero(part)) for part in (split.upper, ~split.upper))
        wider = split.upper | (upper < lower)
        return replace(split, upper=wider) if wider.sum() <= MOST * len(members) else split

    def _shares(self, members: Array, inputs: tuple[int, ...]) -> Array:
        """(members, cells) share of the steps of each trajectory in each cell, smoothed over neighbouring cells."""
        of_members = np.isin(self.trajectory, members)
        size = CELLS[len(inputs)]
        columns = [self.table[of_members, j] for j in inputs]
        place = np.searchsorted(members, self.trajectory[of_members])
        for column in columns:
            place = place * size + _cells(column, size)
        counts = np.bincount(place, minlength=len(members) * size ** len(inputs)).astype(np.float64)
        shares = counts.reshape(len(members), *(size,) * len(inputs))
        for axis, column in enumerate(columns):
            if len(np.unique(column)) > CELLS[2]:  # neighbouring cells of a discrete input have nothing in common
                shares = np.moveaxis(np.moveaxis(shares, axis + 1, -1) @ _smoothing(size), -1, axis + 1)
        return np.asarray(shares.reshape(len(members), -1) / self.lengths[members, None])

    # -- judging ------------------------------------------------------------------------------------------------------

    def is_suspicious(self, split: _Split, members: Array) -> bool:
        """Whether (2) holds, and neither the start nor clumsiness explains it."""
        needed = SEPARATION_GIVEN if any(self._is_given(j) for j in split.inputs) else SEPARATION
        if split.contrast < CONTRAST or split.separation < needed:
            return False
        upper, lower = members[split.upper], members[~split.upper]
        if max(_superiority(values[upper], values[lower]) for values in (self.returns, self.rates)) <= 0.5:
            return False
        return not self._began_elsewhere(split, members)

    def _began_elsewhere(self, split: _Split, members: Array) -> bool:
        """Do the first observations tell both parts apart, in the inputs of the split or in any?"""
        first = self.first[members]
        chance = {
            j: _rank_test(first[split.upper, j], first[~split.upper, j])
            for j in range(first.shape[1])
            if (first[:, j] != first[0, j]).any()
        }
        here = [chance[j] for j in split.inputs if j in chance]
        anywhere = [p * len(chance) for p in chance.values()]
        return min([*here, *anywhere], default=1.0) < SIGNIFICANT

    def _is_given(self, j: int) -> bool:
        """Does the start decide on this input? Actions are chosen at every step."""
        if j >= self.first.shape[1]:
            return False
        return bool(self.first[:, j].std() > GIVEN * self.table[:, j].std())

    def describe(self, split: _Split, members: Array, kept: Flags, also: Sequence[str]) -> list[Suspect]:
        """The suspects of a split, beside all trajectories that are `kept` in the end."""
        shares = self._shares(members, split.inputs)
        typical = shares[kept[members]].mean(axis=0)
        of_others = kept[self.trajectory]
        usual = float(split.unlike[kept[members]].mean())
        described = []
        for i in np.flatnonzero(split.upper):
            more = self._more_often(members, split.inputs, int(members[i]), shares[i] > typical)
            places = tuple(
                Place(self.names[j], *_ninety(self.table[more, j]), *_ninety(self.table[of_others, j]))
                for j in split.inputs
            )
            described.append(
                Suspect(
                    int(members[i]),
                    places,
                    float(split.unlike[i]),
                    usual,
                    float(self.returns[members[i]]),
                    float(self.returns[kept].mean()),
                    tuple(also),
                )
            )
        return described

    def _more_often(self, members: Array, inputs: tuple[int, ...], trajectory: int, cells: Flags) -> Array:
        """Rows of the trajectory's steps in these cells, where it is more often than the others."""
        of_members = np.isin(self.trajectory, members)
        place = np.zeros(int(of_members.sum()), np.int64)
        for j in inputs:
            place = place * CELLS[len(inputs)] + _cells(self.table[of_members, j], CELLS[len(inputs)])
        rows = np.flatnonzero(of_members)
        own = self.trajectory[rows] == trajectory
        return rows[own & cells[place]] if (own & cells[place]).any() else rows[own]


def _median_distance(shares: Array, others: Array) -> Array:
    """(n,) median distance (1) of each of n trajectories from some of them, itself left out."""
    references = others[np.unique(np.linspace(0, len(others) - 1, min(REFERENCES, len(others))).astype(int))]
    distance = np.stack([0.5 * np.abs(shares - shares[j]).sum(axis=1) for j in references], axis=1)
    distance[references, np.arange(len(references))] = np.nan
    distance[np.isnan(distance).all(axis=1)] = 1.0  # like nobody else
    return np.asarray(np.nanmedian(distance, axis=1))


def _split(inputs: tuple[int, ...], unlike: Array, most: int, exactly: int | None) -> _Split | None:
    """The split of (1) with the smallest variance within its parts; None if all are equally unlike."""
    order = np.sort(unlike)
    n = len(order)
    sizes = [size for size in ([exactly] if exactly else range(1, most + 1)) if size < n]
    sizes = [size for size in sizes if exactly or order[n - size] > order[n - size - 1] + 1e-9]
    if not sizes:
        return None

    def between(size: int) -> float:
        return float(size * (n - size) * (order[n - size :].mean() - order[: n - size].mean()) ** 2)

    size = max(sizes, key=between)
    upper = np.zeros(n, bool)
    upper[np.argsort(unlike, kind="stable")[n - size :]] = True
    contrast = float(unlike[upper].mean() - unlike[~upper].mean())
    spread = math.sqrt(float(unlike[upper].var() + unlike[~upper].var())) + NOISE
    return _Split(inputs, unlike, upper, contrast, contrast / spread)


def _cells(column: Array, size: int) -> Array:
    """The cell of every value. All steps together fill the cells evenly; a discrete input has a cell per value."""
    values = np.unique(column)
    if len(values) <= size:
        return np.searchsorted(values, column)
    return np.searchsorted(np.unique(np.quantile(column, np.arange(1, size) / size)), column, side="right")


def _smoothing(size: int) -> Array:
    """(cells, cells) a Gaussian one cell wide, which keeps the sum of shares."""
    weights = np.exp(-0.5 * np.subtract.outer(np.arange(size), np.arange(size)) ** 2.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _superiority(a: Array, b: Array) -> float:
    """Probability that one of `a` is larger than one of `b`, ties half."""
    return float((a[:, None] > b).mean() + 0.5 * (a[:, None] == b).mean())


def _rank_test(a: Array, b: Array) -> float:
    """p-value of the Mann-Whitney test, normal approximation: are both drawn alike?"""
    deviation = math.sqrt((len(a) + len(b) + 1) / (12.0 * len(a) * len(b)))
    return math.erfc(abs(_superiority(a, b) - 0.5) / deviation / math.sqrt(2.0))


def _ninety(values: Array) -> tuple[float, float]:
    low, high = np.quantile(values, (0.05, 0.95), method="nearest")
    return float(low), float(high)


def _range(low: float, high: float) -> str:
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"


def _names(demos: Demonstrations, observed: int, acted: int) -> tuple[str, ...]:
    env = demos.card.get("env")
    family = None if env is None else find_family(env)
    on_grid = ("row", "column") if family is not None and family.model is not None and observed == 2 else None
    numbered = [f"obs[{i}]" if observed > 1 else "state" for i in range(observed)]
    names = demos.card.get("feature_names") or on_grid or numbered
    return (*names, *(f"action[{i}]" if acted > 1 else "action" for i in range(acted)))
