"""The two ways in which something the user asked for can go wrong.

The command line turns them into one line on stderr and an exit status; in Python they are ordinary exceptions.
"""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

DISTRIBUTION = "tacit-icrl"
"""The name for pip. On the package index, `tacit` is another project; the import is `tacit` all the same."""


EXTRAS = {
    **dict.fromkeys(("jax", "optax", "equinox"), "deep"),
    **dict.fromkeys(("mujoco", "imageio"), "robots"),
    **dict.fromkeys(("torch", "stable_baselines3"), "sb3"),
    **dict.fromkeys(("onnx", "onnxruntime"), "onnx"),
    **dict.fromkeys(("minari", "h5py"), "minari"),
    "tensorboardX": "tensorboard",
    "wandb": "wandb",
    "ray": "ray",
}
"""Which extra brings a module that the core does without."""


def extra_of(error: ModuleNotFoundError) -> str | None:
    """The extra that brings the missing module, if there is one."""
    return EXTRAS.get((error.name or "").partition(".")[0])


def install_command(extra: str) -> str:
    """How to get an optional dependency group. Tacit is not on the package index yet."""
    return f"pip install '.[{extra}]' in a clone of Tacit, or pip install 'FILE.whl[{extra}]' with its wheel"


class UserError(ValueError):
    """The input is wrong (a file, an option, an argument). One sentence: what, where, how to fix it. Exit status 2."""


class RunFailed(RuntimeError):
    """The input was fine but the run did not succeed (diverged, infeasible, check failed). Exit status 1."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about a name that does not exist: the nearest one that does, or what there is."""
    names = list(names)
    by_lower_case = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f"did you mean {by_lower_case[close[0]]!r}?" if close else f"there are {listed(names, most=20)}"


def listed(names: Iterable[object], most: int = 10, between: str = ", ") -> str:
    """The first names in a line, and how many more there are."""
    texts = [str(name) for name in names]
    return between.join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def one_line(error: BaseException) -> str:
    """An error from another library, for a message: its type and the beginning of its text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file (zip, HDF5, array headers: a dozen types) into a UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what}: {one_line(error)}") from None
