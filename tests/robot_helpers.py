"""Actions for tests of the robots."""

import numpy as np


def wave(task, copies, step):
    """Actions (copies, nu) float32 that move every robot and leave the box now and then."""
    phase = np.arange(copies * task.nu).reshape(copies, task.nu)
    size = 0.05 if task.name == "Pendulum" else 1.3
    return (size * task.action_high * np.sin(0.35 * step + phase)).astype(np.float32)
