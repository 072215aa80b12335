"""Which terms are the rule, and which only its consequences: trials of terms.

Whoever goes round an obstacle moves differently everywhere. So several sets of inputs tell demonstrators from agents
that follow the reward, and no statistic of these data says which of them the demonstrators minded. A trial does:

    a term is needed if a learner that is not charged for it trespasses there

At first the learner is charged for every candidate. Then they are laid aside one after the other, and watched. A term
stays aside as long as the learner, charged for the others, keeps clear of it all the same: they explain it. It comes
back as soon as the learner trespasses. Only terms on which the tempted clone has trespassed are tried like this: with
the others nothing draws the learner there, so that it would say nothing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.inverse import terms
from tacit.inverse.screen import Inputs, Samples
from tacit.inverse.terms import Single

Array = NDArray[Any]
MOST_CANDIDATES, LEAST_SHARE = 4, 0.01
"""Number of candidates, and the S that each must have alone."""
TRESPASS, LEAST_TRESPASS = 0.1, 0.01
"""Trespass that counts: this share of that of the agents that follow the reward, or this share of the steps if that is
less. A learner that goes just beyond the edge trespasses little, and often breaks the rule."""
FIRST_TRIAL, REST = 2, 2
"""The inverse step that lays the first term aside, and inverse steps between two changes."""
LAST_TRIAL, LAST_RETURN = 0.55, 0.9
"""Shares of the run after which no term is laid aside, and after which none comes back. It may take a learner a fifth
of the run until it trespasses."""
FREE = 0.1
"""What demonstrators pay for a term that is never laid aside: keeping it costs them nothing, and is the safe side."""
MOST_TRIALS = 2
"""How often a term is laid aside. The second time only if a less doubtful one has come back: the first trial was
perhaps too early, before the learner had learned to keep to what it needs."""


@dataclass(frozen=True)
class Trials:
    """Candidates, and what was laid aside when."""

    candidates: tuple[Inputs, ...] = ()
    """Sets of inputs that explain what the agents do, and on which the tempted clone trespasses."""
    aside: tuple[Inputs, ...] = ()
    """Those that the learner is not charged for at present."""
    tried: tuple[Inputs, ...] = ()
    """Those that were laid aside so far, once for every time."""
    last: Inputs | None = None
    """The one that came back last. It stays until another one comes back."""
    changed: int = 0
    """The inverse step of the last change."""

    @property
    def in_force(self) -> list[Inputs]:
        """Candidates that the learner is charged for."""
        return [inputs for inputs in self.candidates if inputs not in self.aside]

    def after(self, agents: Samples, learner: Array, number: int, done: float) -> Trials:
        """The trials after an inverse step's look at the learner's steps (n, d); `done` is the share of the run."""
        back = self._returning(agents, learner) if done < LAST_RETURN else None
        if back is not None:
            aside = tuple(inputs for inputs in self.aside if inputs != back)
            return replace(self, aside=aside, last=back, changed=number)
        early = number < max(FIRST_TRIAL, self.changed + REST)
        first = None if early or done >= LAST_TRIAL else self._next(agents)
        if first is None:
            return self
        return replace(self, aside=(*self.aside, first), tried=(*self.tried, first), changed=number)

    def _returning(self, agents: Samples, learner: Array) -> Inputs | None:
        """The candidate aside on which the learner trespasses most, if that counts."""
        excesses = {inputs: excess(single_of(agents, inputs), learner) for inputs in self.aside}
        back = max(excesses, key=lambda inputs: excesses[inputs], default=None)
        return back if back is not None and excesses[back] > 0 else None

    def _next(self, agents: Samples) -> Inputs | None:
        """The candidate to be laid aside next."""
        if len(self.in_force) < 2:
            return None
        doubts = {inputs: _doubt(single_of(agents, inputs)) for inputs in self.in_force}

        def may_be_tried(inputs: Inputs) -> bool:
            if inputs == self.last or doubts[inputs] == 0.0:
                return False
            again = self.last is not None and doubts.get(self.last, 0.0) < doubts[inputs]
            return self.tried.count(inputs) < (MOST_TRIALS if again else 1)

        left = [inputs for inputs in self.in_force if may_be_tried(inputs)]
        return max(left, key=lambda inputs: (-self.tried.count(inputs), doubts[inputs]), default=None)

    def to_array(self) -> Array:
        """(n, 3) rows: what it is, and the first and last input (or the number)."""
        last = [] if self.last is None else [self.last]
        kinds = ((1, self.candidates), (2, self.aside), (3, self.tried), (4, last))
        rows = [(kind, inputs[0], inputs[-1]) for kind, many in kinds for inputs in many]
        return np.array([(0, self.changed, 0), *rows], np.float32)

    @classmethod
    def from_array(cls, rows: Array) -> Trials:
        kinds: dict[int, list[Inputs]] = {kind: [] for kind in range(1, 5)}
        for kind, first, last in np.asarray(rows[1:], int).tolist():
            kinds[kind].append((first,) if first == last else (first, last))
        last = kinds[4][0] if kinds[4] else None
        return cls(tuple(kinds[1]), tuple(kinds[2]), tuple(kinds[3]), last, int(rows[0, 1]))


def begin(samples: Samples, tempted: Array) -> Trials:
    """The candidates: sets of inputs that explain what the agents do, and on which the tempted clone trespasses."""
    shares = {}
    for inputs in terms.promising(samples):
        single = Single(samples, inputs)
        explains = single.fitted.share > LEAST_SHARE and single.paid <= terms.MOST_PAID
        if explains and excess(single, tempted) > 0:
            shares[inputs] = single.fitted.share
    ranked = sorted(shares, key=lambda inputs: -shares[inputs])
    return Trials(tuple(inputs for inputs in ranked if not _part_of(inputs, ranked))[:MOST_CANDIDATES])


def _part_of(inputs: Inputs, others: Sequence[Inputs]) -> bool:
    return any(set(inputs) < set(other) for other in others)


def single_of(samples: Samples, inputs: Inputs) -> Single:
    """`Single`, remembered: every inverse step asks for the same ones, because the agents stay the same."""
    arrays = (samples.expert, samples.folds, samples.learner, samples.weight)
    key = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).digest(), inputs
    if key not in _REMEMBERED:
        _REMEMBERED[key] = Single(samples, inputs)
        while len(_REMEMBERED) > MOST_REMEMBERED:
            _REMEMBERED.popitem(last=False)
    return _REMEMBERED[key]


_REMEMBERED: OrderedDict[tuple[bytes, Inputs], Single] = OrderedDict()
MOST_REMEMBERED = 8


def _doubt(single: Single) -> float:
    """What demonstrators pay for and what explains little is the least likely to be what they mind; 0: beyond doubt."""
    return single.paid / max(single.fitted.share, 1e-9) if single.paid > FREE else 0.0


def excess(single: Single, steps: Array) -> float:
    """Trespass of steps (n, d) beyond what counts, as a share of that of the agents; negative if it does not count."""
    agents = single.agents_trespass
    return (single.trespass(steps) - min(TRESPASS * agents, LEAST_TRESPASS)) / agents if agents > 0 else -1.0
