"""Read plain data from pickle files without unpickling: nothing in the file is called or imported.

A pickle is a program for a small machine, and Python's own machine lets it call any function that it names. This one
knows only how to put together None, numbers, text, bytes, lists, tuples, dicts and NumPy arrays of numbers. Names of
functions are read as words, and compared with the few that a NumPy array needs (`CALLS`), whose effect is spelled out
here; any other name ends the reading with a sentence that says which one it was. Sizes are those of the file: an array
must bring all of its bytes along.

    read(path)                      the plain Python object
    bounded(path)                   the same, unless it would grow to much more than the file

Trajectories of the package imitation are objects. Their names are known here (`RECORDS`), and they are read as dicts.
What the data mean is found out in `tacit.imports`.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pickletools import genops
from typing import Any

import numpy as np

from tacit.demos.files import MAX_BYTES
from tacit.errors import UserError
from tacit.run.storage import may_unpack, read_bytes

DEEPEST = 100
"""Deepest nesting of lists. A list that contains itself has no end."""
RECORDS = {
    ("imitation.data.types", "Trajectory"),
    ("imitation.data.types", "TrajectoryWithRew"),
    ("imitation.data.types", "Transitions"),
    ("imitation.data.types", "TransitionsWithRew"),
}
"""Classes without behaviour whose attributes are read as a dict."""
Call = Callable[..., Any]
Calls = Mapping[tuple[str, str], Call]


class NotPlain(UserError):
    """The file holds objects, which are code, and not plain data."""


class Refused(Exception):
    """The file asks for something that is not allowed."""


@dataclass(frozen=True, eq=False)
class Name:
    """A function or class that the file names. Only ever compared."""

    module: str
    name: str


class Holder:
    """Stands for an array or a type until the file has described it completely."""

    def __init__(self, value: Any = None, kind: str = "array") -> None:
        self.value, self.kind = value, kind


def read(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Any:
    """The plain object in a pickle file. UserError when it holds anything else, or is damaged."""
    return plain_object(path, read_bytes(path, max_bytes=max_bytes))


def bounded(path: str | os.PathLike[str]) -> Any:
    """The plain object; UserError if it repeats its parts so often that writing it out would take much memory."""
    return check_growth(path, read(path))


def check_growth(path: str | os.PathLike[str], content: Any) -> Any:
    """The content; UserError if it is much larger than its file."""
    limit = may_unpack(os.path.getsize(path), MAX_BYTES)
    if _expanded(content, {}) > limit:
        raise UserError(f"{path} would grow to more than {limit} bytes: it repeats its parts and was not read")
    return content


def plain_object(
    path: str | os.PathLike[str], data: bytes, calls: Calls | None = None, persistent: Call | None = None
) -> Any:
    """The plain object of a pickle's bytes, with further functions that may be called and what persistent ids mean."""
    try:
        return _plain(_run(data, {**CALLS, **(calls or {})}, persistent), {}, 0)
    except Refused as error:
        raise NotPlain(f"{path}: {error}") from None
    except Exception as error:  # a damaged file makes the machine stumble in any way
        raise UserError(f"{path} is not a readable pickle: {type(error).__name__}: {str(error)[:200]}") from None


# ---------------------------------------------------------------------------------------------------------------------
# The machine


def _run(data: bytes, calls: Calls, persistent: Call | None) -> Any:
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
            stack.append(Name(module, word))
        elif name == "STACK_GLOBAL":
            word, module = stack.pop(), stack.pop()
            if not (isinstance(word, str) and isinstance(module, str)):
                raise Refused("a name in it is not a text")
            stack.append(Name(module, word))
        elif name == "REDUCE":
            args, called = stack.pop(), stack.pop()
            stack.append(_call(called, args, calls))
        elif name == "NEWOBJ" and _is_record(stack):
            stack[-2:] = [Holder({}, "record")]
        elif name == "BINPERSID" and persistent is not None:
            stack.append(persistent(stack.pop()))
        elif name == "BUILD":
            state = stack.pop()
            _complete(stack[-1], state)
        else:
            raise Refused(f"it uses {name}, which plain data do not need; it was not read")
    raise Refused("it ends in the middle")


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


def _is_record(stack: list[Any]) -> bool:
    """Whether a known class without arguments is on top of the stack."""
    named = stack[-2] if len(stack) > 1 else None
    return isinstance(named, Name) and (named.module, named.name) in RECORDS and stack[-1] == ()


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise Refused("it appends to something that is not a list")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise Refused("it sets entries of something that is not a dict")
    return value


def _keyed(pairs: Any) -> list[tuple[Any, Any]]:
    items = list(pairs)
    for key, _ in items:
        if not isinstance(key, str | int | float | bytes):
            raise Refused(f"a dict in it has a key that is a {type(key).__name__}")
    return items


# ---------------------------------------------------------------------------------------------------------------------
# What a NumPy array calls, spelled out


def _call(called: Any, args: Any, calls: Calls) -> Any:
    if not isinstance(called, Name) or not isinstance(args, tuple):
        raise Refused("it calls something that has no name; it was not read")
    module = called.module.replace("numpy._core", "numpy.core")
    handler = calls.get((module, called.name))
    if handler is None:
        raise Refused(
            f"it wants {called.module}.{called.name}, which is code; only NumPy arrays, dicts, lists, numbers and text "
            "are read. Convert the file with the program that made it"
        )
    return handler(*args)


def _empty_array(kind: Any, shape: Any = None, code: Any = None) -> Holder:
    if not (isinstance(kind, Name) and kind.module == "numpy" and kind.name == "ndarray"):
        raise Refused("it holds a kind of array that is not NumPy's own")
    return Holder()


def _dtype(code: Any, *rest: Any) -> Holder:
    text = code.decode("ascii") if isinstance(code, bytes) else code
    if not isinstance(text, str) or not re.fullmatch(r"[<>|=]?([biu][1248]|f[248]|O8?)", text):
        named = repr(text[:40]) if isinstance(text, str) else "something else"
        raise Refused(f"it holds an array of {named}, and only numbers are read")
    return Holder(text.lstrip("<>|="), "dtype")


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> Holder:
    return Holder(_array(shape, dtype, order == "F", buffer))


def _scalar(dtype: Any, data: Any) -> Any:
    return _array((1,), dtype, False, data)[0].item()


def _encode(text: Any, coding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or coding not in ("latin1", "latin-1"):
        raise Refused("it encodes text in an unusual way")
    return text.encode("latin-1")


def _ordered(pairs: Any = ()) -> dict[Any, Any]:
    """OrderedDict(), or the list of pairs with which old protocols fill it."""
    if type(pairs) not in (list, tuple) or not all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs):
        raise Refused("an ordered dict in it is damaged")
    return dict(_keyed(tuple(pair) for pair in pairs))


def _no_bytes() -> bytes:
    """bytes() without arguments, which is how old protocols write b""."""
    return b""


CALLS: dict[tuple[str, str], Call] = {
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
    if isinstance(target, Holder) and target.kind == "record" and type(state) is dict:
        target.value.update(state)
        return
    if not isinstance(target, Holder) or not isinstance(state, tuple):
        raise Refused("it sets the state of an object, which plain data do not need; it was not read")
    if target.kind == "dtype":
        if target.value[0] not in "O" and state[1] in ("<", ">"):
            target.value = state[1] + target.value[-2:]
        return
    _, shape, dtype, fortran, raw = state
    target.value = _array(shape, dtype, bool(fortran), raw)


def _array(shape: Any, dtype: Any, fortran: bool, raw: Any) -> Any:
    """An array of numbers; an array of objects as the list that it is."""
    if not isinstance(dtype, Holder) or dtype.kind != "dtype":
        raise Refused("an array in it has no type")
    most = len(raw) if isinstance(raw, bytes | bytearray | str | list) else 0
    sound = isinstance(shape, tuple) and len(shape) <= DEEPEST and all(type(n) is int and n >= 0 for n in shape)
    # Neither shown nor multiplied before that: what the file calls a shape may be endless.
    if not sound or (0 not in shape and max(shape, default=1) > most):
        raise Refused("an array in it announces numbers and does not bring them along")
    if dtype.value.startswith("O"):
        if type(raw) is not list or math.prod(shape) != len(raw):
            raise Refused("an array of objects in it is damaged")
        return raw
    raw = raw.encode("latin-1") if isinstance(raw, str) else raw  # Python 2 wrote bytes as text
    kind = np.dtype(dtype.value)
    if not isinstance(raw, bytes | bytearray) or len(raw) != math.prod(shape) * kind.itemsize:
        raise Refused(f"an array in it announces {shape} {kind} and does not bring them along")
    return np.frombuffer(bytes(raw), kind).reshape(shape, order="F" if fortran else "C")


def _plain(value: Any, done: dict[int, Any], depth: int) -> Any:
    """The content without holders and names. What is shared stays shared: a small file must not grow."""
    if depth > DEEPEST:
        raise Refused(f"its lists are nested more than {DEEPEST} deep, or contain themselves")
    if isinstance(value, Name):
        raise Refused(f"it holds {value.module}.{value.name}, which is code")
    if isinstance(value, Holder):
        if value.value is None or value.kind == "dtype":
            raise Refused("an array in it was never completed")
        return _plain(value.value, done, depth + 1) if type(value.value) in (list, dict) else value.value
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
