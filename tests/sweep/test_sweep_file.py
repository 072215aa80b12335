"""Sweep files: what they stand for, and what is wrong with them."""

import re
import tomllib
from collections import Counter
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import UserError
from tacit.sweep import Job, prepare
from tacit.sweep.file import jobs_of, read

GRID = "tacit/Gridworld-v0"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


BAD = {
    "algo = 'mce-exact": "not valid TOML",
    "env = 'a'": "algo is missing",
    "algo = 'mce-exact'": "env is missing",
    "algo = 'mce-exact'\nenvs = 'a'": "did you mean 'env'",
    "algo = ['mce-exact']\nenv = 'a'": "algo must be one name",
    "algo = 'mce-exakt'\nenv = 'tacit/Gridworld-v0'\n[settings]\nbeta = 1": "did you mean 'mce-exact'",
    "algo = 'mce-exact'\nenv = 3": "env must be a name",
    "algo = 'mce-exact'\nenv = []": "env must be a name",
    "algo = 'mce-exact'\nenv = 'tacit/Gridwrld-v0'": "did you mean 'tacit/Gridworld-v0'",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\nseeds = 0": "seeds must be",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\nseeds = [-1]": "seeds must be",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\nseeds = true": "seeds must be",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\nseeds = [0.5]": "seeds must be",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\npreset = 'paper'": "has no presets",
    "algo = 'expert'\nenv = 'tacit/Ant-v0'\npreset = 'exprt'": "did you mean 'expert'",
    "algo = 'expert'\nenv = 'tacit/Ant-v0'\ndemos = 'a.npz'": "does not learn from any",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\ndemos = 'a.npz'": "a.npz",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\nsettings = 3": "settings must be a table",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[settings]\nbeta = []": "settings.beta is an empty list",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[settings]\nbetta = 1.0": "did you mean 'beta'",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[settings]\nbeta = 'warm'": "beta is 'warm'",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[settings]\nbeta = -1": "beta",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[settings]\nbeta = 2020-01-01": "must be a number",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[settings]\nobjective = 'luck'": "objective is 'luck'",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[env_kwargs]\nslipp = 0.1": "no option 'slipp'",
    "algo = 'mce-exact'\nenv = 'tacit/Gridworld-v0'\n[env_kwargs]\nslip = 2.0": "slip",
    "algo = 'expert'\nenv = 'tacit/Ant-v0'\n[settings]\nhidden = [64, 'a']": "hidden is",
    "algo = 'mce-exact'\nenv = 'a'\nseeds = 50000\n[env_kwargs]\nslip = [0.1, 0.2, 0.3]": "more than 100000 jobs",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files(cli, tmp_path, text):
    (tmp_path / "bad.toml").write_text(text)
    output = cli("sweep", "bad.toml")
    assert output.status == 2
    assert BAD[text] in output.stderr
    assert len(output.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"algo = '\xff'")
    with pytest.raises(UserError, match="not valid TOML"):
        read(tmp_path / "bad.toml")


def test_the_files_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    text = text.partition("## An experiment of your own")[0]
    sizes = [len(jobs_of(tomllib.loads(block))) for block in re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)]
    assert sizes == [18, 8]


def test_the_product():
    jobs = jobs_of(
        {
            "algo": "expert",
            "env": ["tacit/Ant-v0", "tacit/Walker-v0"],
            "seeds": [3, 5],
            "settings": {"hidden": [[64, 64], [32]], "lr": 1, "pid_gains": [1.0, 2.0, 3.0]},
        }
    )
    assert Counter((job.env, tuple(job.settings["hidden"]), job.seed) for job in jobs) == Counter(
        (env, hidden, seed)
        for env in ("tacit/Ant-v0", "tacit/Walker-v0")
        for hidden in ((64, 64), (32,))
        for seed in (3, 5)
    )
    assert {job.label for job in jobs} == {f"{n} hidden={h}" for n in ("Ant", "Walker") for h in ("[64, 64]", "[32]")}
    assert all(job.settings["pid_gains"] == [1.0, 2.0, 3.0] for job in jobs)
    # 1 and 1.0, and a list for a tuple, are the same run.
    (one, other) = (prepare([Job("expert", GRID, settings=s)], "runs")[0] for s in ({"lr": 1}, {"lr": 1.0}))
    assert one.path == other.path
    assert prepare([jobs[0], jobs[0]], "runs")[1:] == []


values = st.one_of(st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=8), st.none())
anything = st.recursive(values, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=8), v, max_size=3))
names = st.sampled_from(["algo", "env", "seeds", "preset", "demos", "settings", "env_kwargs", "seed", ""])


@given(
    st.dictionaries(names, anything, max_size=5),
    st.dictionaries(st.sampled_from(["beta", "budget", "max_iterations", "x"]), anything, max_size=2),
)
def test_any_content_is_jobs_or_a_clear_error(content, settings):
    tables = {"algo": "mce-exact", "env": GRID, **content}
    if not isinstance(tables.get("settings"), int | str):
        tables["settings"] = settings
    try:
        jobs = jobs_of(tables)
        prepare(jobs[:2], "runs")
    except UserError:
        return
    axes = [tables[key] for key in ("env", "preset", "demos") if key in tables]
    axes += [*tables["settings"].values(), *tables.get("env_kwargs", {}).values()]
    seeds = tables.get("seeds", 1)
    per_point = seeds if isinstance(seeds, int) else len(seeds)
    assert len(jobs) == per_point * prod(len(axis) if isinstance(axis, list) else 1 for axis in axes)


@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("any") / "a.toml"
    file.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.toml"):
        read(file)
