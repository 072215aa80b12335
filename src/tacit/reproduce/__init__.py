"""Experiments: which runs they need, and which table and figure they make.

catalogue     every experiment by name, as data (`experiment.Experiment`); a new one is an entry there
files         an experiment of one's own, as a TOML or Python file
runner        plan the runs, keep what earlier results hold, gather the numbers of finished runs, draw
records       the numbers of one run
results       the files: NAME.json and NAME.curves.json.xz
tables        Markdown, from the numbers alone; `columns` has their parts, `overall` all groups together, `by_slip` a
              column per slip
figures       PNG, from the numbers alone
published     numbers of other people
paper         the figures and tables of the paper by number

Special experiments: `stages` and `frozen` have runs that need other runs. `exact_stochasticity`, `exact_causality`,
`controls` and `alpha_zero` are measured without runs. `tuning`, `gridworld`, `decided` and `pictures` have tables of
their own. `highway` has what its experiments have in common.
"""

from tacit.reproduce.catalogue import EXPERIMENTS
from tacit.reproduce.experiment import Axis, Beside, Experiment, Group, Measured, Row, Staged
from tacit.reproduce.files import find

__all__ = ["EXPERIMENTS", "Axis", "Beside", "Experiment", "Group", "Measured", "Row", "Staged", "find"]
