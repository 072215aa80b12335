"""Read demonstrations from old pickle files without unpickling: nothing in the file is called or imported.

A pickle is a program for a small machine, and Python's own machine lets it call any function that it names. This one
knows only how to put together None, numbers, text, bytes, lists, tuples, dicts and NumPy arrays of numbers. Names of
functions are read as words, and compared with the few that a NumPy array needs (`_CALLS`), whose effect is spelled out
here; any other name ends the reading with a sentence that says which one it was. Sizes are those of the file: an array
must bring all of its bytes along.

    read(path)                      the plain Python object
    demonstrations(path)            if it is an episode, a list of them, or arrays as in docs/demonstrations.md

An episode is a dict; what its entries may be called is in `SPELLINGS`.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickletools import genops
from typing import Any

import numpy as np

from tacit.demos.data import Demonstrations, Trajectory, from_trajectories, make_card
from tacit.demos.files import ARRAYS, MAX_BYTES, build
from tacit.errors import UserError
from tacit.run.storage import may_unpack, read_bytes

SPELLINGS = {
    "observations": ("observations", "obs", "original_observations", "states"),
    "actions": ("actions", "acts"),
    "rewards": ("rewards", "rews", "reward"),
    "costs": ("costs", "cost"),
    "next": ("next_observations", "next_obs", "next_states"),
    "terminated": ("terminated", "terminal", "terminals"),
}
DEEPEST = 100
"""Lists within lists. A list that contains itself has no end."""


class _Refused(Exception):
    """The file asks for something that is not allowed."""


@dataclass(frozen=True, eq=False)
class _Name:
    """A function or class that the file names. Only ever compared."""

    module: str
    name: str


class _Holder:
    """What will be an array or a type once the file has said all about it."""

    def __init__(self, value: Any = None, kind: str = "array") -> None:
        self.value, self.kind = value, kind


def read(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Any:
    """The plain object in a pickle file. UserError when it holds anything else, or is damaged."""
    data = read_bytes(path, max_bytes=max_bytes)
    try:
        return _plain(_run(data), {}, 0)
    except _Refused as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # a damaged file makes the machine stumble in any way
        raise UserError(f"{path} is not a readable pickle: {type(error).__name__}: {str(error)[:200]}") from None


# ---------------------------------------------------------------------------------------------------------------------
# The machine


def _run(data: bytes) -> Any:
    """The object that the program leaves behind, with holders for arrays."""
    stack: list[Any] = []
    marks: list[list[Any]] = []
    memo: dict[Any, Any] = {}
    for code, arg, _ in genops(io.BytesIO(data)):
        name = code.name
        if name in ("PROTO", "FRAME"):
            pass
        elif name == "STOP":
            return stack[-1]
        elif name == "MARK":
            marks.append(stack)
            stack = []
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            stack.append(arg)
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            stack = marks.pop()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            n = int(name[-1])
            stack[-n:] = [tuple(stack[-n:])]
        elif name in ("TUPLE", "LIST", "DICT"):
            items, stack = stack, marks.pop()
            pairs = zip(items[::2], items[1::2], strict=True) if name == "DICT" else ()
            stack.append(tuple(items) if name == "TUPLE" else items if name == "LIST" else dict(_keyed(pairs)))
        elif name == "APPEND":
            item = stack.pop()
            _list(stack[-1]).append(item)
        elif name == "APPENDS":
            items, stack = stack, marks.pop()
            _list(stack[-1]).extend(items)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _dict(stack[-1]).update(_keyed([(key, value)]))
        elif name == "SETITEMS":
            items, stack = stack, marks.pop()
            _dict(stack[-1]).update(_keyed(zip(items[::2], items[1::2], strict=True)))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[arg] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[arg])
        elif name == "GLOBAL":
            module, _, word = str(arg).partition(" ")
            stack.append(_Name(module, word))
        elif name == "STACK_GLOBAL":
            word, module = stack.pop(), stack.pop()
            if not (isinstance(word, str) and isinstance(module, str)):
                raise _Refused("a name in it is not a text")
            stack.append(_Name(module, word))
        elif name == "REDUCE":
            args, called = stack.pop(), stack.pop()
            stack.append(_call(called, args))
        elif name == "BUILD":
            state = stack.pop()
            _complete(stack[-1], state)
        else:
            raise _Refused(f"it uses {name}, which plain data do not need; it was not read")
    raise _Refused("it ends in the middle")


_CONSTANTS: dict[str, Any] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
}
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise _Refused("it appends to something that is not a list")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise _Refused("it sets entries of something that is not a dict")
    return value


def _keyed(pairs: Any) -> list[tuple[Any, Any]]:
    items = list(pairs)
    for key, _ in items:
        if not isinstance(key, str | int | float | bytes):
            raise _Refused(f"a dict in it has a key that is a {type(key).__name__}")
    return items


# ---------------------------------------------------------------------------------------------------------------------
# What a NumPy array calls, spelled out


def _call(called: Any, args: Any) -> Any:
    if not isinstance(called, _Name) or not isinstance(args, tuple):
        raise _Refused("it calls something that has no name; it was not read")
    module = called.module.replace("numpy._core", "numpy.core")
    handler = _CALLS.get((module, called.name))
    if handler is None:
        raise _Refused(
            f"it wants {called.module}.{called.name}, which is code; only NumPy arrays, dicts, lists, numbers and text "
            "are read. Convert the file with the program that made it"
        )
    return handler(*args)


def _empty_array(kind: Any, shape: Any = None, code: Any = None) -> _Holder:
    if not (isinstance(kind, _Name) and kind.module == "numpy" and kind.name == "ndarray"):
        raise _Refused("it holds a kind of array that is not NumPy's own")
    return _Holder()


def _dtype(code: Any, *rest: Any) -> _Holder:
    text = code.decode("ascii") if isinstance(code, bytes) else code
    if not isinstance(text, str) or not re.fullmatch(r"[<>|=]?([biu][1248]|f[248]|O8?)", text):
        named = repr(text[:40]) if isinstance(text, str) else "something else"
        raise _Refused(f"it holds an array of {named}, and only numbers are read")
    return _Holder(text.lstrip("<>|="), "dtype")


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> _Holder:
    return _Holder(_array(shape, dtype, order == "F", buffer))


def _scalar(dtype: Any, data: Any) -> Any:
    return _array((1,), dtype, False, data)[0].item()


def _encode(text: Any, coding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or coding not in ("latin1", "latin-1"):
        raise _Refused("it encodes text in an unusual way")
    return text.encode("latin-1")


def _ordered(pairs: Any = ()) -> dict[Any, Any]:
    """OrderedDict(), or the list of pairs with which old protocols fill it."""
    if type(pairs) not in (list, tuple) or not all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs):
        raise _Refused("an ordered dict in it is damaged")
    return dict(_keyed(tuple(pair) for pair in pairs))


def _no_bytes() -> bytes:
    """bytes() without arguments, which is how old protocols write b""."""
    return b""


_CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
    ("collections", "OrderedDict"): _ordered,
}


def _complete(target: Any, state: Any) -> None:
    """BUILD: the state of an array or of a type."""
    if not isinstance(target, _Holder) or not isinstance(state, tuple):
        raise _Refused("it sets the state of an object, which plain data do not need; it was not read")
    if target.kind == "dtype":
        if target.value[0] not in "O" and state[1] in ("<", ">"):
            target.value = state[1] + target.value[-2:]
        return
    _, shape, dtype, fortran, raw = state
    target.value = _array(shape, dtype, bool(fortran), raw)


def _array(shape: Any, dtype: Any, fortran: bool, raw: Any) -> Any:
    """An array of numbers; an array of objects as the list that it is."""
    if not isinstance(dtype, _Holder) or dtype.kind != "dtype":
        raise _Refused("an array in it has no type")
    most = len(raw) if isinstance(raw, bytes | bytearray | str | list) else 0
    sound = isinstance(shape, tuple) and len(shape) <= DEEPEST and all(type(n) is int and n >= 0 for n in shape)
    # Neither shown nor multiplied before that: what the file calls a shape may be endless.
    if not sound or (0 not in shape and max(shape, default=1) > most):
        raise _Refused("an array in it announces numbers and does not bring them along")
    if dtype.value.startswith("O"):
        if type(raw) is not list or math.prod(shape) != len(raw):
            raise _Refused("an array of objects in it is damaged")
        return raw
    raw = raw.encode("latin-1") if isinstance(raw, str) else raw  # Python 2 wrote bytes as text
    kind = np.dtype(dtype.value)
    if not isinstance(raw, bytes | bytearray) or len(raw) != math.prod(shape) * kind.itemsize:
        raise _Refused(f"an array in it announces {shape} {kind} and does not bring them along")
    return np.frombuffer(bytes(raw), kind).reshape(shape, order="F" if fortran else "C")


def _plain(value: Any, done: dict[int, Any], depth: int) -> Any:
    """Without holders and names. What is shared stays shared: a small file must not grow."""
    if depth > DEEPEST:
        raise _Refused(f"its lists are nested more than {DEEPEST} deep, or contain themselves")
    if isinstance(value, _Name):
        raise _Refused(f"it holds {value.module}.{value.name}, which is code")
    if isinstance(value, _Holder):
        if value.value is None or value.kind == "dtype":
            raise _Refused("an array in it was never completed")
        return _plain(value.value, done, depth + 1) if type(value.value) is list else value.value
    if type(value) not in (list, tuple, dict):
        return value
    if id(value) not in done:
        if type(value) is dict:
            done[id(value)] = {key: _plain(entry, done, depth + 1) for key, entry in value.items()}
        else:
            done[id(value)] = type(value)([_plain(entry, done, depth + 1) for entry in value])
    return done[id(value)]


def _expanded(value: Any, sizes: dict[int, int]) -> int:
    """Bytes if all that is shared were copied, 8 for a number; what is shared is counted once and added often."""
    if isinstance(value, np.ndarray):
        return value.nbytes + 8
    if type(value) not in (list, tuple, dict):
        return len(value) + 8 if isinstance(value, str | bytes | bytearray) else 8
    if id(value) not in sizes:
        entries = value.values() if type(value) is dict else value
        sizes[id(value)] = 8 + sum(_expanded(entry, sizes) for entry in entries)
    return sizes[id(value)]


# ---------------------------------------------------------------------------------------------------------------------
# Demonstrations


def demonstrations(path: str | os.PathLike[str], *, drop_unfinished: bool = False) -> Demonstrations:
    """Demonstrations in a pickle file; UserError if it holds something else.

    Terminations are often not recorded: an episode counts as cut off unless it says otherwise.
    """
    content = read(path)
    limit = may_unpack(os.path.getsize(path), MAX_BYTES)
    if _expanded(content, {}) > limit:
        raise UserError(f"{path} would grow to more than {limit} bytes: it repeats its parts and was not read")
    card = make_card(source=f"imported from the pickle {Path(path).name}")
    if isinstance(content, Mapping) and "lengths" in content:
        return build(path, {name: np.asarray(content[name]) for name in ARRAYS if content.get(name) is not None}, card)
    episodes = [content] if isinstance(content, Mapping) else content
    if not isinstance(episodes, Sequence) or not episodes or not all(isinstance(e, Mapping) for e in episodes):
        raise UserError(f"{path} holds a {type(content).__name__}, not an episode (a dict) or a list of them")
    trajectories = [_episode(episode, f"{path}, episode {i}", drop_unfinished) for i, episode in enumerate(episodes)]
    try:
        return from_trajectories(trajectories, card)
    except (UserError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None


def _episode(episode: Mapping[Any, Any], where: str, drop_unfinished: bool) -> Trajectory:
    def entry(name: str) -> Any:
        return next((np.asarray(episode[word]) for word in SPELLINGS[name] if word in episode), None)

    missing = [name for name in ("observations", "actions", "rewards") if entry(name) is None]
    if missing:
        raise UserError(
            f"{where} has no {missing[0]} ({' or '.join(SPELLINGS[missing[0]])}); "
            f"it has {', '.join(map(str, episode))[:200]}"
        )
    obs, act, rewards, costs, after = (entry(n) for n in ("observations", "actions", "rewards", "costs", "next"))
    ended = entry("terminated")
    if len(obs) == len(act) and after is not None and len(after) == len(act):
        obs = np.concatenate([obs, after[-1:]])
    terminated = bool(np.ravel(ended)[-1]) if ended is not None and ended.size else False
    if len(obs) == len(act) and drop_unfinished:
        act, rewards, terminated = act[:-1], rewards[: len(act) - 1], False
        costs = None if costs is None else costs[: len(act)]
    if len(obs) != len(act) + 1 or len(rewards) != len(act) or not len(act):
        raise UserError(
            f"{where} has {len(obs)} observations, {len(act)} actions and {len(rewards)} rewards; there must be one "
            "observation more than actions (the last actions can be dropped: drop_unfinished)"
        )
    return Trajectory(obs, act, rewards, None if costs is None else costs[: len(act)], terminated)
