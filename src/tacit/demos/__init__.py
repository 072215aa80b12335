"""Demonstrations of an expert, in one documented file format (docs/files.md#demonstrations).

from tacit import demos
data = demos.load("expert.npz")
demos.validate(data, "tacit/Gridworld-v0")
for trajectory in data: ...
"""

from tacit.demos.arrays import from_arrays
from tacit.demos.check import problems, validate
from tacit.demos.collect import (
    collect,
    expert_demonstrations,
    expert_policy,
    sample_demonstrations,
    scripted_demonstrations,
)
from tacit.demos.convert import convert, for_environment, from_csv, from_npz, to_csv
from tacit.demos.data import Demonstrations, Trajectory, make_card
from tacit.demos.files import load, save, shipped
from tacit.demos.suspects import Suspect, suspects, trim

__all__ = [
    "Demonstrations",
    "Suspect",
    "Trajectory",
    "collect",
    "convert",
    "expert_demonstrations",
    "expert_policy",
    "for_environment",
    "from_arrays",
    "from_csv",
    "from_npz",
    "load",
    "make_card",
    "problems",
    "sample_demonstrations",
    "save",
    "scripted_demonstrations",
    "shipped",
    "suspects",
    "to_csv",
    "trim",
    "validate",
]
