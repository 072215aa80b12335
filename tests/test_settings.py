"""Settings as types and in help texts: they agree with the algorithms' own."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from tacit.algorithms import ALGORITHMS, make_config
from tacit.errors import UserError
from tacit.forward import ppo
from tacit.presets import settings

ROOT = Path(__file__).parents[1]


def test_the_file_is_up_to_date():
    """If this fails: python tools/settings.py"""
    done = subprocess.run([sys.executable, "tools/settings.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run `python tools/settings.py`"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_names_types_and_defaults_are_those_of_the_config(name):
    config_class = ALGORITHMS[name].load().Config
    hints = get_type_hints(settings.SETTINGS[name], include_extras=True)
    declared = get_type_hints(config_class)
    assert set(hints) == {field.name for field in dataclasses.fields(config_class)}
    for field in dataclasses.fields(config_class):
        kind, default = get_args(hints[field.name])[:2]
        assert kind == declared[field.name]
        assert default == field.default


def offered(option: str, text: str) -> bool:
    """Whether help lists an option; it may also stand in an example."""
    return re.search(rf"^[│\s]*{option}\b", text, re.MULTILINE) is not None


def test_help_shows_few_settings_and_help_all_every_one(cli):
    few, every = cli("learn", "mce", "tacit/Ant-v0", "--help").stdout, cli("learn", "mce", "--help-all").stdout
    options = {name: f"--{name.replace('_', '-')}" for name in get_type_hints(settings.MCE)}
    in_few = [name for name, option in options.items() if offered(option, few)]
    assert len(in_few) == 10
    assert "total_steps" in in_few
    missing = [o for o in options.values() if f" {o} " not in every and f" --no-{o.removeprefix('--')} " not in every]
    assert missing == []
    assert f"{len(options) - 10} more" in few
    # The preset's value for this environment, not the default of the Config.
    total = ALGORITHMS["mce"].config("tacit/Ant-v0").total_steps
    assert str(total) in few


def test_a_flag_that_turns_off_says_so(cli, tmp_path, monkeypatch):
    text = " ".join(cli("learn", "mce", "--help-all").stdout.replace("│", "").split())
    assert "--no-normalize-obs Turn this off: Standardise observations" in text
    assert "--use-action Let the cost read" in text
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    text = " ".join(cli("learn", "mine:Mine", "tacit/Pendulum-v0", "--help").stdout.replace("│", "").split())
    assert "--no-careful Turn this off: Look twice." in text
    assert "--often INT How often. (default: 3)" in text


OWN = '''
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """Settings."""

    careful: bool = True
    """Look twice."""
    often: int = 3
    """How often."""


class Mine:
    """Mine."""

    Config = Config

    def train(self, *args):
        return {}
'''


@pytest.mark.parametrize("verb", [("sweep",), ("transfer",), ("demos", "import"), ("traffic", "show"), ("reproduce",)])
def test_help_leaves_out_defaults_that_say_nothing(cli, verb):
    text = " ".join(cli(*verb, "--help").stdout.replace("│", "").split())
    assert "(default: None)" not in text
    assert "(default: False)" not in text
    assert "--json" in text


NO_EFFECT = [name for ways in settings.UNUSED["mce"].values() for name in ways["terms"]]


@pytest.mark.parametrize("name", NO_EFFECT)
def test_a_setting_that_the_chosen_way_does_not_use_is_refused(name):
    kind, default = get_args(get_type_hints(settings.MCE, include_extras=True)[name])[:2]
    choices = [value for value in get_args(kind) if isinstance(default, str) and value != default]
    other = choices[0] if choices else {bool: not default, int: 7, float: 0.7}.get(kind, (7,))
    mce = ALGORITHMS["mce"]
    with pytest.raises(UserError, match=f"'terms' does not use {name}: .* choose preset paper or thresholds"):
        mce.config("tacit/Ant-v0", settings={name: other})
    assert getattr(mce.config("tacit/Ant-v0", "thresholds", {name: other}), name) == other
    assert getattr(mce.config("tacit/Ant-v0", settings={name: default}), name) == default  # as it is anyway


def test_a_setting_that_is_not_used_is_not_read():
    for file, names in (("mce.py", ["tempted_steps"]), ("mce_terms.py", NO_EFFECT), ("mce_terms_method.py", NO_EFFECT)):
        text = (ROOT / "src/tacit/inverse" / file).read_text()
        assert [name for name in names if f"config.{name}" in text] == []


def test_settings_that_are_not_used_are_refused_on_the_command_line(cli, tmp_path):
    refusals = {"budget": "--budget 0.1", "squash": "--no-squash", "tempted_steps": "--preset paper --tempted-steps 9"}
    for name, options in {**refusals, "joint": "--joint=64"}.items():  # even if that is the default
        refused = cli("learn", "mce", "tacit/SlowZone-v0", *options.split(), "--out", tmp_path)
        assert refused.status == 2
        assert f"does not use {name}" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    few = cli("learn", "mce", "tacit/Ant-v0", "--help").stdout
    assert not offered("--budget", few)
    assert offered("--budget", cli("learn", "mce", "tacit/Ant-v0", "--preset", "thresholds", "--help").stdout)
    # The gridworld's two presets differ in a setting that neither of them uses.
    wrong = cli("learn", "mce", "tacit/Gridworld-v0", "--preset", "thresholds", "--total-steps", "0", "--out", tmp_path)
    assert "total_steps must be" in wrong.stderr


def test_1e4_is_a_number_of_steps(cli, tmp_path):
    config = make_config(ppo.Config, {"total_steps": 1e4}, "here")
    assert type(config.total_steps) is int
    assert config.total_steps == 10_000
    with pytest.raises(UserError, match=r"total_steps is 1\.5"):
        make_config(ppo.Config, {"total_steps": 1.5}, "here")
    wrong = cli("learn", "ppo", "tacit/Pendulum-v0", "--total-steps", "0e4", "--out", tmp_path)
    assert "total_steps must be at least 1" in wrong.stderr
    assert cli("learn", "ppo", "tacit/Pendulum-v0", "--total-steps", "1.5").status == 2
