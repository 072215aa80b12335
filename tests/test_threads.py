"""One thread while the exact method runs, and whatever the user had afterwards."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tacit import MDP, solve
from tacit.inverse import exact_objectives


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_solve_uses_one_thread_and_gives_them_back(monkeypatch):
    mdp = MDP(np.full((2, 2, 2), 0.5), np.array([[0.0, 1.0], [0.0, 0.0]]), [1.0, 0.0], 0.9)
    seen = []
    original = exact_objectives.DualPoint.newton_solve

    def watched(self, *args):
        seen.append(blas_threads())
        return original(self, *args)

    monkeypatch.setattr(exact_objectives.DualPoint, "newton_solve", watched)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        solve(mdp, "state-action", np.full(4, 1.5), beta=0.1, budget=2.0)
        assert blas_threads() == before == {2}
    assert seen
    assert all(threads == {1} for threads in seen)
