"""The smallest algorithm that `tacit learn` can run: it counts visits, with a checkpoint after every trajectory."""

import time
from dataclasses import dataclass

import numpy as np

from tacit.errors import RunFailed


@dataclass(frozen=True)
class Config:
    """Settings of the stub."""

    beta: float = 0.1
    """Not used."""
    pause: float = 0.0
    """Seconds to sleep after each trajectory."""
    sizes: tuple[int, ...] = (1, 2)
    """Not used."""
    fail: bool = False
    """Fail instead of learning."""


def run(run, env_id, env_kwargs, demos, config, seed):
    assert isinstance(config.sizes, tuple)
    if config.fail:
        raise RunFailed("the stub was told to fail")
    visits, first = np.zeros((64, 64)), 0
    checkpoint = run.latest_checkpoint()
    if checkpoint is not None:
        first, arrays, _ = checkpoint
        visits = arrays["visits"]
    for i in range(first, len(demos)):
        cells = demos[i].observations.astype(int)
        np.add.at(visits, tuple(cells.T), 1)
        run.log({"iteration": i + 1, "visited": int((visits > 0).sum())})
        run.save_checkpoint(i + 1, {"visits": visits})
        time.sleep(config.pause)
    run.save_model("cost", {"cost": (visits == 0).astype(float)}, {"inputs": ["row", "column"]})
    return {"status": "optimal", "visited": int((visits > 0).sum()), "resumed_from": first}
