"""The smallest rule that explains a few walks: which cells would people have to avoid, to walk as they did?

A person wants to reach the goal in few steps, avoids a set F of cells that nobody wrote down, and is clumsy now and
then. With few walks a cost for every cell is too much to ask for: steps that were merely clumsy get a price, too. So F
is the set with the shortest description of the walks (in nats):

    minimise  - sum_t log pi_F(a_t | s_t)  +  D(F),                                                                 (1)
    pi_F(a | s) = (1 - eps) softmax_a(Q_F(s, a) / beta) + eps / |A|.                                                (2)

Only cells that no walk means to enter can be in F; there are n of them. D is log C(n, |F|) + log(n + 1), the length of
a list of cells, or that of a straight piece among all such pieces, if F is one and that is shorter: people forbid walls
more often than scattered cells. Q_F is the soft value of walking at 1 a step and PRICE for entering F. eps, the share
of clumsy steps, and beta are fitted with every F. Candidates are, for each length L, the fewest cells that leave no way
shorter than L (a hitting set of all shorter ways, solved exactly with MILP), and straight pieces that make the way
longer. The best of them is then improved by taking away and moving single cells. A cell is never added for its own
sake: if it does not shorten the way, avoiding it may be a habit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import gammaln, logsumexp

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
Pairs = Sequence[tuple[Int, Int]]

PRICE = 10.0
"""Price of entering a forbidden cell, in steps: the longest detour that people take is about as long."""
BETAS = (0.1, 0.25)
CLUMSY = (0.01, 0.03, 0.1, 0.2, 0.35)
"""Shares eps of clumsy steps that are tried."""
ENOUGH = 3.0
"""Nats by which a rule must beat "no rule": odds of 20 to 1."""
LIKELY = 0.7
"""Mean probability of the cells of a rule from which on it counts as found."""
DOOR = 3.0
"""Nats by which a door is likelier to be forbidden than the middle of a room, if the walks cannot tell them apart."""
TRIES = 12
"""Other sets of the same size that are looked for; a third of that on maps with more than LARGE cells."""
LARGE = 150
MOST_ROUNDS = 60
PORTION = 128
FAR = 10**6


@dataclass(frozen=True)
class Rule:
    """The rule that a few walks suggest."""

    forbidden: Bool
    """(S,) the smallest rule; nothing if the walks do not say enough."""
    probability: Float
    """(S,) that a cell is forbidden, among the rule and other sets that explain the walks with as few cells."""
    walked: Bool
    """(S,) cells that somebody meant to enter: they are allowed."""
    evidence: float
    """Nats by which the rule beats "nothing is forbidden"."""
    clumsy: float
    """The share of clumsy steps that fits best."""
    shortest: int
    """Steps of the shortest way if nothing were forbidden."""
    allowed: int
    """Steps of the shortest way that keeps to the rule."""

    @property
    def verdict(self) -> Literal["nothing", "somewhere", "found"]:
        """Whether the walks say that something is forbidden, and whether they say where."""
        if not self.forbidden.any():
            return "nothing"
        return "found" if self.probability[self.forbidden].mean() >= LIKELY else "somewhere"


def infer(
    successors: Int, start: int, goal: int, pairs: Pairs, *, interrupt: Callable[[], None] = lambda: None
) -> Rule:
    """The rule behind walks (states (T+1,), actions (T,)); action a in state s is meant to lead to successors[s, a].

    `interrupt` is called now and then; it may raise to stop the search.
    """
    world = _World.of(successors, start, goal, pairs)
    nothing = np.zeros(len(successors), dtype=bool)
    without = world.scores(nothing[None])[0]
    best, score, length, ways = nothing, without, 0, list[Bool]()
    candidate = nothing
    for limit in range(world.shortest + 1, world.demonstrated + 1):
        interrupt()
        candidate = _smallest_cut(world, limit, ways, 1e-2 * world.openness, candidate)
        value = world.scores(candidate[None])[0]
        if value > score:
            best, score, length = candidate, value, limit
    straight = world.hindering()
    best, score = _straightened(world, straight, best, score)
    best, score = _improved(world, best, score)
    evidence = float(score - without)
    forbidden = best if evidence >= ENOUGH else nothing
    tries = 0 if not forbidden.any() else TRIES if len(successors) <= LARGE else TRIES // 3
    prices = 1e-2 * np.random.default_rng(0).random((tries, len(successors)))
    others = list(straight)
    for price in prices if length else ():
        interrupt()
        others.append(_smallest_cut(world, length, ways, price))
    return Rule(
        forbidden=forbidden,
        probability=world.probability(np.unique([forbidden, *others], axis=0)),
        walked=~world.free,
        evidence=evidence,
        clumsy=world.clumsiness(forbidden),
        shortest=world.shortest,
        allowed=int(world.distances(forbidden)[0][goal]),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The world and the description length (1)


@dataclass(frozen=True)
class _World:
    successors: Int
    start: int
    goal: int
    counts: Float
    """(S, A) how often an action was taken in a state."""
    free: Bool
    """(S,) cells that no walk means to enter: they may be forbidden."""

    @classmethod
    def of(cls, successors: Int, start: int, goal: int, pairs: Pairs) -> _World:
        counts, free = np.zeros(successors.shape), np.ones(len(successors), dtype=bool)
        for states, actions in pairs:
            here = states[: len(actions)]
            np.add.at(counts, (here, actions), 1.0)
            ends = successors[here, actions]
            free[ends[ends != here]] = False  # where somebody slipped to, or bumped against a wall, says nothing
        free[[start, goal]] = False
        counts[goal] = 0.0
        return cls(successors, start, goal, counts, free)

    def scores(self, forbidden: Bool) -> Float:
        """(B,) minus (1) for sets (B, S)."""
        if not len(forbidden):
            return np.zeros(0)
        n, size = int(self.free.sum()), forbidden.sum(axis=1)
        described = gammaln(n + 1) - gammaln(size + 1) - gammaln(n - size + 1) + np.log(n + 1)
        pieces = {one.tobytes() for one in self.straight}
        is_straight = np.array([one.tobytes() in pieces for one in forbidden])
        described = np.where(is_straight, np.minimum(described, np.log(2.0 * max(len(pieces), 1))), described)
        return np.concatenate([self._likelihoods(part).max(axis=(0, 1)) for part in _parts(forbidden)]) - described

    def probability(self, sets: Bool) -> Float:
        """(S,) that a cell is forbidden if one of these sets (B, S) is the rule."""
        scores = self.scores(sets)
        # Differences below ENOUGH may be habits and do not count.
        scores = np.minimum(scores, scores.max() - ENOUGH) - DOOR * sets @ self.openness
        return np.asarray(np.exp(scores - logsumexp(scores)) @ sets)

    @cached_property
    def straight(self) -> Bool:
        """(B, S) all straight pieces of cells that may be forbidden: to the right or down, again and again."""
        pieces = []
        for first in np.flatnonzero(self.free):
            for action in (0, 2):
                mask, cell = np.zeros(len(self.free), dtype=bool), int(first)
                while self.free[cell] and not mask[cell]:
                    mask[cell] = True
                    if action == 0 or mask.sum() > 1:  # a single cell only once
                        pieces.append(mask.copy())
                    cell = int(self.successors[cell, action])
        return np.array(pieces, dtype=bool).reshape(len(pieces), len(self.free))

    def hindering(self) -> Bool:
        """(B, S) the straight pieces that make the way longer."""
        ahead, behind = self.distances(np.zeros(len(self.free), dtype=bool))
        pieces = self.straight[self.straight[:, ahead + behind == self.shortest].any(axis=1)]
        # A way around is longer only if every shortest way is hit.
        chosen = [self._to_goal(part)[:, self.start] > self.shortest for part in _parts(pieces)]
        return pieces[np.concatenate(chosen)] if chosen else pieces

    @cached_property
    def shortest(self) -> int:
        """Steps from start to goal if nothing is forbidden."""
        return int(self.distances(np.zeros(len(self.free), dtype=bool))[0][self.goal])

    @cached_property
    def demonstrated(self) -> int:
        """Steps of the shortest way over cells that walks have entered: no rule can forbid it."""
        far = int(self.distances(self.free)[0][self.goal])
        return self.shortest if far == FAR else far

    @cached_property
    def openness(self) -> Float:
        """(S,) share of the pairs of neighbours that are also linked without the cell: 0 for a door, high in a room."""
        near = [set(row) - {s} for s, row in enumerate(self.successors.tolist())]
        openness = np.zeros(len(near))
        for cell, around in enumerate(near):
            linked = [b in near[a] or bool((near[a] & near[b]) - {cell}) for a, b in combinations(sorted(around), 2)]
            openness[cell] = np.mean(linked) if linked else 0.0
        return openness

    def clumsiness(self, forbidden: Bool) -> float:
        """The share of clumsy steps (eps) that fits best."""
        fits = self._likelihoods(forbidden[None])[:, :, 0]
        return CLUMSY[int(fits.max(axis=0).argmax())]

    def _likelihoods(self, forbidden: Bool) -> Float:
        """(betas, eps, B) log likelihood of the walks."""
        taken = self.counts.nonzero()
        weight, result = self.counts[taken], []
        for beta in BETAS:
            chances = self._policies(forbidden, beta)[:, taken[0], taken[1]]
            mixed = (np.log((1 - eps) * chances + eps / self.counts.shape[1]) @ weight for eps in CLUMSY)
            result.append(np.stack(list(mixed)))
        return np.stack(result)

    def _policies(self, forbidden: Bool, beta: float) -> Float:
        """(B, S, A) softmax of the soft values of walking, for sets (B, S)."""
        fee = -1.0 - PRICE * forbidden[:, self.successors]
        values = -np.minimum(self._to_goal(forbidden), 4.0 * PRICE)
        for _ in range(MOST_ROUNDS):
            q = fee + values[:, self.successors]
            new = beta * logsumexp(q / beta, axis=2)
            new[:, self.goal] = 0.0
            done = np.abs(new - values).max() < 1e-3
            values = new
            if done:
                break
        q = (fee + values[:, self.successors]) / beta
        return np.exp(q - logsumexp(q, axis=2, keepdims=True))

    def distances(self, forbidden: Bool) -> tuple[Int, Int]:
        """(steps from the start, steps to the goal), FAR where there is no way around what is forbidden."""
        far = np.full(len(forbidden), FAR)
        far[self.start] = 0
        for steps in range(1, len(far)):
            reached = np.zeros(len(far), dtype=bool)
            reached[self.successors[far == steps - 1].ravel()] = True
            reached &= ~forbidden & (far == FAR)
            if not reached.any():
                break
            far[reached] = steps
        return far, self._to_goal(forbidden[None])[0]

    def _to_goal(self, forbidden: Bool) -> Int:
        """(B, S) steps to the goal around sets (B, S), FAR where there is no way."""
        far = np.full(forbidden.shape, FAR)
        far[:, self.goal] = 0
        for steps in range(1, forbidden.shape[1]):
            reached = (far[:, self.successors] == steps - 1).any(axis=2) & ~forbidden & (far == FAR)
            if not reached.any():
                break
            far[reached] = steps
        return far


def _parts(sets: Bool) -> list[Bool]:
    """Sets (B, S) in portions that need little memory."""
    return [sets[i : i + PORTION] for i in range(0, len(sets), PORTION)]


# ---------------------------------------------------------------------------------------------------------------------
# Candidates: the fewest cells that leave no shorter way


def _smallest_cut(world: _World, length: int, ways: list[Bool], price: Float, closed: Bool | None = None) -> Bool:
    """The fewest cells that leave no way shorter than `length`; among equals, the cheapest.

    `ways` grows with use. `closed` is the solution for these ways and prices, if it is known.
    """
    if closed is None:
        closed = _hitting_set(world, ways, price)
    for _ in range(MOST_ROUNDS):
        new = _shorter_ways(world, closed, length)
        if not new:
            break
        ways += new
        closed = _hitting_set(world, ways, price)
    return closed


def _shorter_ways(world: _World, closed: Bool, length: int) -> list[Bool]:
    """Ways shorter than `length` around what is closed, one through each cell, as masks of what could be forbidden."""
    ahead, behind = world.distances(closed)
    through = np.flatnonzero(world.free & ~closed & (ahead + behind < length))
    ways = {}
    for cell in through:
        mask = np.zeros(len(closed), dtype=bool)
        for at in (*_back(world, ahead, int(cell)), *_forth(world, behind, int(cell))):
            mask[at] = True
        mask &= world.free
        ways[mask.tobytes()] = mask
    return list(ways.values())


def _forth(world: _World, behind: Int, cell: int) -> Iterator[int]:
    while behind[cell]:
        yield cell
        cell = int(next(s for s in world.successors[cell] if behind[s] == behind[cell] - 1))


def _back(world: _World, ahead: Int, cell: int) -> Iterator[int]:
    while ahead[cell]:
        yield cell
        before = (world.successors == cell).any(axis=1) & (ahead == ahead[cell] - 1)
        cell = int(np.flatnonzero(before)[0])


def _hitting_set(world: _World, ways: list[Bool], price: Float) -> Bool:
    """The fewest cells that lie on every way; among equals, the cheapest."""
    rows = np.array(ways, dtype=float)
    solution = milp(
        1.0 + price,
        constraints=LinearConstraint(rows, lb=1.0),
        bounds=Bounds(0.0, world.free.astype(float)),
        integrality=np.ones(len(price)),
    )
    return np.asarray(solution.x > 0.5)


# ---------------------------------------------------------------------------------------------------------------------
# Improvement


def _straightened(world: _World, straight: Bool, best: Bool, score: float) -> tuple[Bool, float]:
    """(set, score): a straight piece instead of a cut that is none, if that is clearly better.

    Of all that are about as good, it is the shortest; among these, the narrowest place; then the best.
    """
    values = world.scores(straight)
    if not len(values) or values.max() <= score + ENOUGH or (straight == best).all(axis=1).any():
        return best, score
    good = np.flatnonzero(values > max(score, values.max() - ENOUGH))
    pieces = straight[good]
    chosen = good[np.lexsort((-values[good], (pieces @ world.openness).round(6), pieces.sum(axis=1)))[0]]
    return straight[chosen], float(values[chosen])


def _improved(world: _World, best: Bool, score: float) -> tuple[Bool, float]:
    """(the best set, its score) when no neighbour is clearly better.

    A smaller set only has to be better. One with a moved cell has to be so by ENOUGH: which of two equally good places
    people avoid more may be habit, and the candidate had the more likely place.
    """
    while True:
        around = _neighbours(world, best)
        scores = world.scores(around)
        gains = scores - score - np.where(around.sum(axis=1) < best.sum(), 1e-6, ENOUGH)
        if gains.max() <= 0.0:
            return best, score
        best, score = around[gains.argmax()], float(scores[gains.argmax()])


def _neighbours(world: _World, rule: Bool) -> Bool:
    """(B, S) the set itself, and those with one cell less, or one that has moved to a cell next to it.

    None with one cell more: a cell that would not shorten anybody's way is no evidence, only a habit.
    """
    sets = [rule]
    for cell in np.flatnonzero(rule):
        without = rule.copy()
        without[cell] = False
        sets.append(without)
        for other in {*world.successors[cell]} - {cell}:
            if world.free[other] and not rule[other]:
                sets.append(without.copy())
                sets[-1][other] = True
    return np.stack(sets)
