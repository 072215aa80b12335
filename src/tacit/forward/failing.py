"""What is said of a training that fails: where its last good checkpoint is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tacit.errors import RunFailed

if TYPE_CHECKING:
    from tacit.run import Run


@contextmanager
def naming_checkpoint(run: Run) -> Iterator[None]:
    """A RunFailed in here also says which checkpoint is kept."""
    try:
        yield
    except RunFailed as error:
        kept = run.latest_checkpoint()
        what = "no checkpoint had been written" if kept is None else f"the checkpoint of iteration {kept[0]} is kept in"
        where = f" {run.path / 'checkpoints'}: `tacit resume {run.path}` goes on from there" if kept else ""
        raise RunFailed(f"{error}; {what}{where}") from error
