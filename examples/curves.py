"""Curves in TensorBoard and Weights & Biases: copies of what a run logs, that can do it no harm.

On the command line: `tacit learn ... --log tensorboard,wandb`, then `tensorboard --logdir runs`. Needs
`pip install '.[tensorboard,wandb]'`; W&B writes to the disk and sends nothing unless WANDB_MODE=online.
"""

# needs: tensorboardX
from importlib.util import find_spec

from tacit.launch import execute, start_run
from tacit.run.sinks import observed

names = ["tensorboard"] + (["wandb"] if find_spec("wandb") else [])
run, data = start_run("mce-exact", "tacit/Gridworld-v0")
with observed(run, names):
    execute(run, data)
print(f"{len(run.metrics())} iterations logged to {', '.join(names)}:")
for name in names:
    for file in sorted((run.path / name).iterdir()):
        print(f"  {name}/{file.name.split('.')[0]}")
