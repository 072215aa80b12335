"""Old names of modules still import: the new module, and a warning that says its name."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tacit.moved import MOVED


@pytest.mark.parametrize("old", [old for old, new in MOVED.items() if new != "tacit.sweep.ray"])
def test_an_old_name_is_the_new_module(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    new = importlib.import_module(MOVED[old])
    with pytest.warns(DeprecationWarning, match=f"{old} is now {MOVED[old]}; the old name goes with version 0.3"):
        assert importlib.import_module(old) is new
    assert new.__spec__ is not None
    assert new.__spec__.name == new.__name__ == MOVED[old]


def test_as_a_user_writes_it() -> None:
    code = "from tacit import storage; from tacit.grid_plots import Panel; import tacit.video; print(storage.__name__)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tacit.run.storage\n"
