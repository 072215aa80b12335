"""An experiment as an object, for those that are made of the same parts: it has what a module of its own would have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.run import Run
    from tacit.sweep import Job, Task

Results = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """See the package's docstring for what each of them does."""

    SEEDS: tuple[int, ...]
    jobs: Callable[..., list[Job]]
    collect: Callable[[Job, Run], Results]
    table: Callable[[Results], str]
    figure: Callable[[Results], bytes]
    first: Callable[[list[int], bool], list[Job]] | None = None
    make: Callable[[list[Task], bool], None] | None = None
