"""The inverse step as a convex problem: a short sum of tables on one or two inputs, chosen on held-out demonstrations.

The cost is  c = sum over terms S of  lam_S . phi_S(x_S)  with hat functions phi_S on the knots of one or two inputs
(`tacit.cost.terms`). For given knots, (2) of `tacit.inverse.mce` is a convex quadratic in the lam >= 0 of each term:

    lam . (mu_D - mu_P)  +  lam' (expert_square G_D + learner_square G_P + smoothness L) lam                       (1)

with the means mu and second moments G of the features under demonstrations D and learner P, and L the squared
differences between neighbouring knots: where neither goes, the cost continues what it is nearby. So nothing depends on
luck at initialisation, and there is no plateau. Each term is fitted by itself. Fitted together, terms share what they
both explain, and a superfluous one would weaken the one that is right.

Whole demonstrations are held out in folds, and they decide everything else: which inputs, how fine, how smooth, and the
threshold. The score of a cost is its *share*

    S = 4 learner_square max over kappa, h of  - (2) of the cost  kappa (c - h)_+ ,                                (2)

with demonstrations scored out of fold. It is 1 if the cost tells every step of the learner from every demonstration,
about the share of the learner's steps where no demonstrator goes, and 0 for chance. The best h is the threshold.

    screen    S of every input and every pair by smoothed histograms (`tacit.inverse.screen`)
    search    add the best input or pair while S rises clearly, drop what has become superfluous
    refine    new knots where the cost changes and demonstrations are, so that its edge lies at theirs
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.cost.terms import Term, first_knots, place
from tacit.inverse.screen import Inputs, Samples, screen

Array = NDArray[Any]
KNOTS = {1: 32, 2: 16}
"""Knots of each input of a new term, by the number of its inputs."""
MOST_KNOTS = {1: 64, 2: 48}
NEW_KNOTS = 12
"""Knots that a refinement adds to an input at most."""
MOST_TERMS = 4
FIRST_GAIN, SMALLEST_GAIN, NO_LOSS = 0.01, 0.02, 0.002
"""Rise of S that the first term must bring, and every further one; fall of S below which a term is superfluous."""
FIRST_SMOOTHNESS, SMOOTHNESS = 0.3, (0.1, 0.5, 3.0)
"""Weight of the differences between neighbouring knots while terms are chosen, and the candidates afterwards."""
HINGES = (0.95, 0.98, 0.99, 0.995)
"""Candidates of h in (2): these quantiles of the out-of-fold costs. At most one demonstrated step in 20 is above it."""
CANDIDATES = 4
"""Number of sets of inputs that are fitted before one is chosen."""
PROMISING = 6
"""Number of sets of inputs that a screening offers at most."""
SMALLEST_PULL, MOST_PAID = 0.8, 0.5
"""Pull that a further term must have, and what demonstrators may pay for it, as a share of what the agents pay
(`Single.drawn`, `Single.paid`)."""
NO_WORSE = 0.1
"""Part of S that finer knots may cost: S hardly shows where between demonstrations and agents the edge lies."""


@dataclass(frozen=True)
class Table:
    """Inputs, knots and values of a term."""

    inputs: Inputs
    knots: tuple[Array, ...]
    values: Array

    def named(self, names: Sequence[str], columns: Sequence[int]) -> Term:
        """As a part of a learned cost."""
        knots = tuple(knots.astype(np.float32) for knots in self.knots)
        chosen = tuple(names[i] for i in self.inputs), tuple(columns[i] for i in self.inputs)
        return Term(*chosen, knots, self.values.astype(np.float32))


@dataclass(frozen=True)
class Fitted:
    """A sum of tables and what the held-out demonstrations say about it."""

    tables: tuple[Table, ...] = ()
    smoothness: float = FIRST_SMOOTHNESS
    shares: Array = field(default_factory=lambda: np.zeros(1))
    """(folds,) S of each fold."""
    threshold: float = 0.0
    """h in (2)."""
    held_out_cost: float = 0.0
    """Mean out-of-fold cost of a demonstrated step."""

    @property
    def share(self) -> float:
        return float(self.shares.mean())


# ---------------------------------------------------------------------------------------------------------------------
# (1)


def design(inputs: Inputs, knots: Sequence[Array], x: Array) -> sparse.csr_matrix:
    """(n, nodes) hat functions of x (n, d)."""
    nodes, weights = np.zeros((len(x), 1), np.intp), np.ones((len(x), 1))
    for column, knot in zip(inputs, knots, strict=True):
        below, share = place(x[:, column], knot)
        above = np.minimum(below + 1, len(knot) - 1)
        nodes = np.concatenate([nodes * len(knot) + below[:, None], nodes * len(knot) + above[:, None]], axis=1)
        weights = np.concatenate([weights * (1.0 - share)[:, None], weights * share[:, None]], axis=1)
    ends = np.arange(0, weights.size + 1, weights.shape[1])
    return sparse.csr_matrix((weights.ravel(), nodes.ravel(), ends), shape=(len(x), math.prod(map(len, knots))))


def roughness(shape: Sequence[int]) -> sparse.csr_matrix:
    """L of a table: the sum of squared differences between neighbours, per node."""
    total = sparse.csr_matrix((math.prod(shape), math.prod(shape)))
    for axis, n in enumerate(shape):
        step = sparse.diags([-np.ones(n - 1), np.ones(n - 1)], [0, 1], shape=(n - 1, n)) if n > 1 else None
        if step is not None:
            before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
            total = total + sparse.kron(sparse.kron(sparse.identity(before), step.T @ step), sparse.identity(after))
    return (total / math.prod(shape)).tocsr()


class Problem:
    """(1) for tables with these inputs and knots, as a whole and without each fold."""

    def __init__(self, samples: Samples, tables: Sequence[tuple[Inputs, tuple[Array, ...]]]) -> None:
        self.samples, self.tables = samples, tables
        in_fold = [samples.folds == fold for fold in range(samples.n_folds)]
        expert = [design(*table, samples.expert) for table in tables]
        learner = [design(*table, samples.learner) for table in tables]
        self.learner = sparse.hstack(learner).tocsr()
        self.parts = [sparse.hstack([one[chosen] for one in expert]).tocsr() for chosen in in_fold]
        self.sums = np.stack([np.asarray(part.sum(axis=0)).ravel() for part in self.parts])
        # Blocks without what terms have in common: each is fitted by itself.
        self.squares = [sparse.block_diag([one[c].T @ one[c] for one in expert]).tocsr() for c in in_fold]
        self.counts = np.array([part.shape[0] for part in self.parts])
        self.learner_mean = samples.weight @ self.learner
        weight = sparse.diags(samples.weight)
        self.learner_square = sparse.block_diag([one.T @ weight @ one for one in learner]).tocsr()
        self.roughness = sparse.block_diag([roughness([len(k) for k in knots]) for _, knots in tables]).tocsr()

    def solve(
        self, smoothness: float, without: int | None = None, start: Array | None = None, most: int = 150
    ) -> Array:
        """The lam that minimises (1), without the demonstrations of one fold if asked for."""
        kept = [fold for fold in range(len(self.parts)) if fold != without]
        n = self.counts[kept].sum()
        square = self.samples.learner_square * self.learner_square + smoothness * self.roughness
        for fold in kept:
            square = square + self.samples.expert_square / n * self.squares[fold]
        return minimise(square, self.sums[kept].sum(axis=0) / n - self.learner_mean, start, most)

    def fit(self, smoothness: float, start: Array | None = None, most: int = 150) -> tuple[Array, Fitted, Array]:
        """(lam, the tables with their scores, out-of-fold costs of the demonstrated steps)."""
        samples = self.samples
        whole = self.solve(smoothness, None, start, most)
        held_out, learner = np.zeros(len(samples.expert)), np.zeros(len(samples.learner))
        for fold, part in enumerate(self.parts):
            lam = self.solve(smoothness, fold, whole, most)
            held_out[samples.folds == fold] = part @ lam
            learner += self.learner @ lam / len(self.parts)
        shares, threshold = score(samples, held_out, learner)
        fitted = Fitted(self.tables_of(whole), smoothness, shares, threshold, float(held_out.mean()))
        return whole, fitted, held_out

    def tables_of(self, lam: Array) -> tuple[Table, ...]:
        shapes = [tuple(len(k) for k in knots) for _, knots in self.tables]
        parts = np.split(lam, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        return tuple(Table(*t, p.reshape(s)) for t, p, s in zip(self.tables, parts, shapes, strict=True))


def minimise(square: sparse.csr_matrix, linear: Array, start: Array | None, most: int) -> Array:
    """argmin over x >= 0 of  linear . x + x' square x: accelerated projected gradient steps with restarts."""
    scale = 1.0 / np.sqrt(square.diagonal() + 1e-12)
    hessian = (sparse.diags(scale) @ (2.0 * square) @ sparse.diags(scale)).tocsr()
    slope = scale * linear
    step = 1.0 / float(abs(hessian).sum(axis=1).max())
    x = np.zeros(len(slope)) if start is None else start / scale
    y, t = x, 1.0
    for n in range(most):
        new = np.maximum(y - step * (slope + hessian @ y), 0.0)
        if (y - new) @ (new - x) > 0:
            t, y = 1.0, x
            new = np.maximum(y - step * (slope + hessian @ y), 0.0)
        longer = (1.0 + math.sqrt(1.0 + 4.0 * t * t)) / 2.0
        moved = np.abs(new - x).max(initial=0.0)
        x, y, t = new, new + (t - 1.0) / longer * (new - x), longer
        if n % 20 == 19 and moved < 1e-6 * (1.0 + x.max(initial=0.0)):
            break
    return np.asarray(x * scale)


def score(samples: Samples, expert: Array, learner: Array) -> tuple[Array, float]:
    """(S of each fold, the best h), see (2), from costs of demonstrated steps out of fold and of the learner's."""
    a, b = samples.expert_square, samples.learner_square
    best: tuple[float, float, float] | None = None
    for h in np.unique(np.quantile(expert, HINGES)):
        of_expert, of_learner = np.maximum(expert - h, 0.0), np.maximum(learner - h, 0.0)
        gap = float(samples.weight @ of_learner - of_expert.mean())
        squares = float(a * (of_expert**2).mean() + b * (samples.weight @ of_learner**2))
        if gap > 0 and squares > 0 and (best is None or gap * gap / squares > best[0]):
            best = gap * gap / squares, gap / (2.0 * squares), float(h)
    if best is None:
        return np.zeros(samples.n_folds), 0.0
    _, kappa, h = best
    of_expert, of_learner = kappa * np.maximum(expert - h, 0.0), kappa * np.maximum(learner - h, 0.0)
    counts = np.bincount(samples.folds, minlength=samples.n_folds)
    dual = np.bincount(samples.folds, of_expert + a * of_expert**2, samples.n_folds) / counts
    return -4.0 * b * (dual - samples.weight @ (of_learner - b * of_learner**2)), h


# ---------------------------------------------------------------------------------------------------------------------
# Search


def new_table(samples: Samples, inputs: Inputs) -> tuple[Inputs, tuple[Array, ...]]:
    """These inputs with their first knots."""
    n = KNOTS[len(inputs)]
    return inputs, tuple(first_knots(samples.expert[:, j], samples.learner[:, j], n) for j in inputs)


def search(samples: Samples, present: Fitted, needed: Sequence[Inputs] = (), without: Sequence[Inputs] = ()) -> Fitted:
    """The best short sum of terms, beginning with those of the present one and with what is needed; `without` some."""

    def new(inputs: Inputs) -> tuple[Inputs, tuple[Array, ...]]:
        return new_table(samples, inputs)

    others = [table.inputs for table in present.tables if table.inputs not in without]
    others = [one for one in others if not any(set(one) <= set(inputs) for inputs in needed)]
    tables = [new(inputs) for inputs in [*needed, *others][:MOST_TERMS]]
    lam: Array | None = None
    fitted, held_out = Fitted(shares=np.zeros(samples.n_folds)), np.zeros(len(samples.expert))
    problem: Problem | None = None
    if tables:
        problem = Problem(samples, tables)
        lam, fitted, held_out = problem.fit(FIRST_SMOOTHNESS)
    while len(tables) < MOST_TERMS:
        learner_cost = np.zeros(len(samples.learner)) if problem is None else problem.learner @ lam
        gains = screen(samples, held_out, learner_cost)
        trials = []
        for inputs in _candidates(gains, [table[0] for table in tables])[:CANDIDATES]:
            if inputs in without or (tables and not Single(samples, inputs).may_be_added):
                continue
            # A pair can say all that a term on one of its inputs says.
            kept = [table for table in tables if not set(table[0]) < set(inputs)]
            trial = Problem(samples, [*kept, new(inputs)])
            trials.append((trial, trial.fit(FIRST_SMOOTHNESS)))
        if not trials:
            break
        # Histograms are coarse: they say which inputs are worth a fit, and the fit says which are best.
        best, result = max(trials, key=lambda one: one[1][1].share)
        if not _rises(result[1], fitted):
            break
        tables, problem = list(best.tables), best
        lam, fitted, held_out = result
    if problem is None:
        return fitted
    for table in list(tables):
        if len(tables) > 1 and table[0] not in needed:
            rest = [other for other in tables if other is not table]
            trial = Problem(samples, rest)
            result = trial.fit(FIRST_SMOOTHNESS)
            if fitted.share - result[1].share < NO_LOSS:
                tables, problem = rest, trial
                lam, fitted, held_out = result
    for _ in range(3):
        trial = Problem(samples, [refined(samples, table) for table in fitted.tables])
        result = trial.fit(FIRST_SMOOTHNESS)
        if fitted.share - result[1].share < max(NO_WORSE * fitted.share, _error(result[1].shares - fitted.shares)):
            problem = trial
            lam, fitted, held_out = result
    fits = [problem.fit(smoothness, lam)[1] for smoothness in SMOOTHNESS]
    return max([fitted, *fits], key=lambda one: one.share)


def promising(samples: Samples) -> list[Inputs]:
    """The sets of inputs that tell demonstrations from agents best, each by itself, roughly."""
    return _candidates(screen(samples, np.zeros(len(samples.expert)), np.zeros(len(samples.learner))), ())


def _candidates(gains: dict[Inputs, float], present: Sequence[Inputs]) -> list[Inputs]:
    """The most promising new sets of inputs. One input instead of a pair that is hardly better."""
    chosen: list[Inputs] = []
    for inputs, gain in sorted(gains.items(), key=lambda item: -item[1]):
        if inputs in present or gain < FIRST_GAIN / 2:
            continue
        singles = [(j,) for j in inputs if len(inputs) == 2 and (j,) not in present]
        enough = [one for one in singles if gains[one] > gain - FIRST_GAIN / 2]
        candidate = max(enough, key=lambda one: gains[one]) if enough else inputs
        if candidate not in chosen and candidate not in present:
            chosen.append(candidate)
        if len(chosen) == PROMISING:
            break
    return chosen


# ---------------------------------------------------------------------------------------------------------------------
# A term by itself


class Single:
    """A single term on these inputs, and what held-out demonstrations say about it."""

    def __init__(self, samples: Samples, inputs: Inputs) -> None:
        self.samples = samples
        fitted = Problem(samples, [new_table(samples, inputs)]).fit(FIRST_SMOOTHNESS)[1]
        problem = Problem(samples, [refined(samples, table) for table in fitted.tables])
        _, self.fitted, self.held_out = problem.fit(FIRST_SMOOTHNESS)

    def costs(self, x: Array) -> Array:
        """(n,) cost of steps (n, d)."""
        (table,) = self.fitted.tables
        return np.asarray(design(table.inputs, table.knots, x) @ table.values.ravel())

    def trespass(self, x: Array, weight: Array | None = None) -> float:
        """Share of steps above the threshold, less that of held-out demonstrations."""
        above = np.average(self.costs(x) > self.fitted.threshold, weights=weight)
        return float(above - (self.held_out > self.fitted.threshold).mean())

    @property
    def agents_trespass(self) -> float:
        """That of the agents that follow the reward."""
        return self.trespass(self.samples.learner, self.samples.weight)

    @property
    def drawn(self) -> float:
        """How much more the agents trespass than beginners do: what only beginners do is clumsy, no sign of a rule."""
        if self.samples.beginners is None:
            return 1.0
        return max(0.0, self.agents_trespass) / max(self.trespass(self.samples.beginners), 0.01)

    @property
    def paid(self) -> float:
        """Mean cost of held-out demonstrations, over that of the agents."""
        return float(self.held_out.mean() / max(self.samples.weight @ self.costs(self.samples.learner), 1e-9))

    @property
    def may_be_added(self) -> bool:
        """Whether it may join other terms."""
        return self.drawn >= SMALLEST_PULL and self.paid <= MOST_PAID


def _rises(new: Fitted, old: Fitted) -> bool:
    """Whether S rises by enough, and by clearly more than chance between folds."""
    enough = SMALLEST_GAIN if old.tables else FIRST_GAIN
    return new.share - old.share > max(enough, 2.0 * _error(new.shares - old.shares))


def _error(differences: Array) -> float:
    return float(differences.std(ddof=1) / math.sqrt(len(differences))) if len(differences) > 1 else 0.0


def refined(samples: Samples, table: Table) -> tuple[Inputs, tuple[Array, ...]]:
    """The table without knots that change nothing, and with new ones where it rises and demonstrations are."""
    table = _merged(table)
    refined_knots = []
    for axis, knots in enumerate(table.knots):
        column = samples.expert[:, table.inputs[axis]]
        if len(knots) < 2 or len(np.unique(column)) <= len(knots):
            refined_knots.append(knots)
            continue
        values = np.moveaxis(table.values, axis, 0).reshape(len(knots), -1)
        rise = np.abs(np.diff(values, axis=0)).max(axis=1) / max(table.values.max(), 1e-9)
        # The edge of the demonstrations lies inside an interval; the cost may rise only in the next one.
        near = np.maximum(rise, np.maximum(np.r_[0.0, rise[:-1]], np.r_[rise[1:], 0.0]))
        inside = np.histogram(column, knots)[0]
        worth = np.where((near > 0.1) & (inside >= 10), near * np.minimum(inside, 100), 0.0)
        room = min(MOST_KNOTS[len(table.knots)] - len(knots), NEW_KNOTS, int((worth > 0).sum()))
        chosen = np.argsort(-worth, kind="stable")[: max(0, room)]
        middle = (knots[:-1] + knots[1:])[chosen] / 2.0
        refined_knots.append(np.unique(np.r_[knots, middle].astype(np.float32)).astype(np.float64))
    return table.inputs, tuple(refined_knots)


def _merged(table: Table, tolerance: float = 0.01) -> Table:
    """The table without knots between which it is straight."""
    for axis in range(len(table.knots)):
        knots, values = table.knots[axis], np.moveaxis(table.values, axis, 0)
        kept = [0]
        for i in range(1, len(knots) - 1):
            a, b = kept[-1], i + 1
            share = ((knots[a + 1 : b] - knots[a]) / (knots[b] - knots[a])).reshape(-1, *[1] * (values.ndim - 1))
            straight = values[a] * (1.0 - share) + values[b] * share
            if np.abs(values[a + 1 : b] - straight).max() > tolerance * max(table.values.max(), 1e-9):
                kept.append(i)
        kept += [len(knots) - 1] if len(knots) > 1 else []
        new = tuple(knots[kept] if other == axis else table.knots[other] for other in range(len(table.knots)))
        table = Table(table.inputs, new, np.moveaxis(values[kept], 0, axis))
    return table


def refit(samples: Samples, present: Fitted) -> Fitted:
    """The same terms and knots on new data. The scores stay those of the last search."""
    if not present.tables:
        return present
    problem = Problem(samples, [(table.inputs, table.knots) for table in present.tables])
    start = np.concatenate([table.values.ravel() for table in present.tables])
    return replace(present, tables=problem.tables_of(problem.solve(present.smoothness, None, start)))
