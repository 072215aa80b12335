"""The learned cost: the artefact itself, costs as tables, ensembles, cards, their quality and their threshold.

`LearnedCost` and `load_cost` are what most people need. Nothing here imports JAX, and nothing knows an algorithm.
"""

from tacit.cost.box import box_cost
from tacit.cost.inputs import CLIPPED_TOO_OFTEN, MOST_INPUTS, Inputs, choose_columns, one_hot
from tacit.cost.learned import BETA_FLOOR, LEAK, LearnedCost, load_cost

__all__ = ["BETA_FLOOR", "CLIPPED_TOO_OFTEN", "LEAK", "MOST_INPUTS", "Inputs", "LearnedCost"]
__all__ += ["box_cost", "choose_columns", "load_cost", "one_hot"]
