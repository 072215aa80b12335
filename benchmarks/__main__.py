"""python -m benchmarks [NAME ...]: all of them, or the named ones (arguments after one name go to it)."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("exact", "stepping", "ppo_speed")

if __name__ == "__main__":
    chosen, rest = sys.argv[1:2] or list(NAMES), sys.argv[2:]
    for name in chosen:
        if name not in NAMES:
            sys.exit(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
        print(f"== {name}")
        import_module(f"benchmarks.{name}").main(rest)
