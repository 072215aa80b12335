"""python -m benchmarks [NAME ...]: all of ours, or the named one (arguments after the name go to it).

`import-learning` takes minutes, `alarms`, `binding`, `fresh-agents`, `suspects` and `methods` an hour and `engine`
hours; those that compare with Stable-Baselines3 need `pip install '.[sb3]'` and hours. They run only by name.
"""

from __future__ import annotations

import sys
from importlib import import_module

OURS = ("exact", "stepping", "ppo_speed", "traffic", "cost")
NAMES = (
    *OURS,
    "imports",
    "import-learning",
    "methods",
    "engine",
    "binding",
    "suspects",
    "alarms",
    "fresh-agents",
    "sb3-speed",
    "sb3-quality",
)

if __name__ == "__main__":
    chosen, rest = sys.argv[1:2] or list(OURS), sys.argv[2:]
    for name in chosen:
        if name not in NAMES:
            sys.exit(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
        print(f"== {name}")
        import_module(f"benchmarks.{name.replace('-', '_')}").main(rest)
