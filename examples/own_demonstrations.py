"""Demonstrations of your own: a table, arrays, or an old pickle, checked against the environment before they are used.

On the command line: `tacit demos import log.csv --env ENV`, and the same for arrays, pickles and folders.
"""

from pathlib import Path

import numpy as np

from tacit import demos, make_spec
from tacit.errors import UserError
from tacit.interop import pickles

spec = make_spec("S..\n.X.\n..G\n", slip=0.0)

# 1. A table, one row an observation; the last row of an episode has no action. (0 right, 1 left, 2 down, 3 up)
table = """episode,step,obs_row,obs_column,act,reward,terminated
monday,0,0,0,0,-1,
monday,1,0,1,0,-1,
monday,2,0,2,2,-1,
monday,3,1,2,2,1,1
monday,4,2,2,,,
"""
Path("log.csv").write_text(table)
data = demos.from_csv("log.csv")
demos.validate(data, spec)
print(f"log.csv: {len(data)} trajectory of {data.n_steps} steps, features {data.card['feature_names']}")
Path("wrong.csv").write_text(table.replace("monday,2,0,2,2", "monday,2,0,2,3"))
try:
    demos.validate(demos.from_csv("wrong.csv"), spec)
except UserError as error:
    print(f"wrong.csv: {error}")

# 2. Arrays, written by any program with NumPy.
expert = demos.expert_demonstrations(spec, n=5, seed=0)
np.savez("arrays.npz", **expert.arrays())
data = demos.from_npz("arrays.npz")
demos.validate(data, spec)
print(f"arrays.npz: {len(data)} trajectories, which fit")

# 3. A pickle is a program. This reads the data in it and runs nothing; here is one that would have made a folder.
Path("evil.pkl").write_bytes(b"cos\nmkdir\n(S'owned'\ntR.")
try:
    pickles.read("evil.pkl")
except UserError as error:
    print(f"refused: {error}"[:60])
assert not Path("owned").exists()
