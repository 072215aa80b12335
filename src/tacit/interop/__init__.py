"""Other people's tools, one module each, none imported before it is asked for (docs/interop.md):

onnx     policy and cost as ONNX graphs                                            extra `onnx`
torch    policy and cost as torch modules, and their state dicts                   extra `sb3`
sb3      Stable-Baselines3: its agents as experts, our policies as its models      extra `sb3`
minari   demonstrations from and to Minari datasets                                extra `minari`
pickles  demonstrations out of old pickle files, without running them
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.errors import RunFailed

TOLERANCE = 1e-4
"""Largest difference between what is exported and the original, relative to 1 + |value|."""


def require_equal(differences: Mapping[str, float]) -> None:
    """RunFailed if a file would differ from the original by more than TOLERANCE: to be called before one is written."""
    for name, difference in differences.items():
        if not difference <= TOLERANCE:
            raise RunFailed(f"{name} differs from the original by {difference:.2g}, more than {TOLERANCE:g}")
