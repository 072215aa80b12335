"""Exchange with other tools, one module each, imported only when used (docs/interop.md):

onnx     policy and cost as ONNX graphs                                            extra `onnx`
torch    policy and cost as torch modules, and their state dicts                   extra `sb3`
sb3      Stable-Baselines3: its agents as experts, our policies as its models      extra `sb3`
minari   demonstrations from and to Minari datasets                                extra `minari`
pickles  demonstrations out of old pickle files, without running them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import RunFailed, UserError
from tacit.policy import Policy

if TYPE_CHECKING:
    from tacit.run import Run

TOLERANCE = 1e-4
"""Largest difference between what is exported and the original, relative to 1 + |value|."""


def network_policy(run: Run) -> Policy:
    """The policy of a run. UserError for an exact run, whose policy is a table."""
    arrays, card = run.load_model("policy")
    if card.get("kind") == "tabular":
        raise UserError(
            f"{run.path} is an exact run, whose policy and cost are tables and not networks: read them from "
            f"{run.path / 'model'} (docs/files.md#run-folders)"
        )
    return Policy.from_arrays(arrays, card)


def difference(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Largest difference, relative to 1 + |value|."""
    return float((np.abs(ours.astype(np.float64) - theirs) / (1.0 + np.abs(theirs))).max())


def require_equal(differences: Mapping[str, float]) -> None:
    """RunFailed if a file would differ from the original by more than TOLERANCE. Call it before writing."""
    for name, difference in differences.items():
        if not difference <= TOLERANCE:
            raise RunFailed(f"{name} differs from the original by {difference:.2g}, more than {TOLERANCE:g}")


def require_plain(policy: Policy) -> None:
    """UserError for a policy that sees a set of objects (`tacit.cost.surroundings`): no export computes that."""
    if policy.interface.surroundings is not None:
        raise UserError(
            "this policy sees sums over a set of objects instead of the observation, which cannot be exported; use it "
            "with tacit.policy, or export its cost alone (tacit.interop.onnx.cost_graph)"
        )
