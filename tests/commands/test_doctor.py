"""`tacit doctor` against installations that are made up: what is missing, too old, too many threads, and what to do."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tacit.commands import doctor

ROOT = Path(__file__).parents[2]
GOOD = {
    "numpy": "2.3.0",
    "scipy": "1.16.0",
    "gymnasium": "1.2.0",
    "matplotlib": "3.10.0",
    "rich": "14.0.0",
    "tyro": "1.0.0",
    "safetensors": "0.6.0",
    "threadpoolctl": "3.6.0",
    "tacit": "0.2.0",
    "jax": "0.7.0",
    "jaxlib": "0.7.0",
    "optax": "0.2.5",
    "equinox": "0.13.0",
    "mujoco": "3.4.0",
}


@pytest.fixture
def installed(monkeypatch):
    """An installation with these packages only, on two processors."""

    def pretend(**changes):
        packages = {name: version for name, version in {**GOOD, **changes}.items() if version}
        monkeypatch.setattr(doctor, "versions", lambda names: {n: packages[n] for n in names if n in packages})
        monkeypatch.setattr(doctor, "usable_cpus", lambda: 2)
        monkeypatch.setattr(doctor, "unlocked", lambda found: {})
        monkeypatch.setattr(doctor, "_pools", list)
        wants = {"jax": ["jaxlib<=0.7.0,>=0.7.0", 'jaxlib==9 ; extra == "cuda"', "numpy>=2.0"]}
        real = metadata.requires
        monkeypatch.setattr(metadata, "requires", lambda name: wants.get(name) or real(name))
        for name in doctor.THREADS:
            monkeypatch.setenv(name, "1") if name != "XLA_FLAGS" else monkeypatch.delenv(name, raising=False)
        return doctor.examine()

    return pretend


def test_a_good_one_needs_no_advice(installed):
    found = installed()
    assert found["missing"] == []
    assert found["mismatches"] == []
    assert found["advice"] == []
    assert found["extras"]["deep"]["missing"] == []
    assert found["extras"]["robots"]["missing"] == ["imageio", "imageio-ffmpeg"]


def test_every_missing_extra_is_explained(installed, capsys):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = installed(jax="", optax="", equinox="", mujoco="")
    assert found["extras"].keys() == declared.keys()
    for name, extra in found["extras"].items():
        assert extra["missing"], name
        assert extra["purpose"], f"say in PURPOSES what {name} is for"
    assert found["extras"]["all"]["missing"] == ["jax", "optax", "equinox", "mujoco", "imageio", "imageio-ffmpeg"]
    assert "tacit" not in {package for extra in found["extras"].values() for package in extra["missing"]}
    assert doctor.doctor() == 0
    printed = capsys.readouterr().out
    assert printed.count("to get ") == 1, "one line for all parts"
    assert (
        "to get a part: pip install '.[PART]' in a clone of Tacit, or pip install 'FILE.whl[PART]' with its wheel"
        in printed
    )


def test_the_same_without_a_clone(monkeypatch, tmp_path):
    """As installed from a wheel: from the package's own metadata."""

    class Metadata:
        def get_all(self, key):
            return list(table["optional-dependencies"]) if key == "Provides-Extra" else None

    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = table["optional-dependencies"].items()
    written = [f'{text} ; extra == "{extra}"' for extra, texts in extras for text in texts]
    with_clone = {extra: {one.name for one in wanted} for extra, wanted in doctor.requirements().items()}
    monkeypatch.setattr(metadata, "requires", lambda name: table["dependencies"] + written)
    monkeypatch.setattr(metadata, "metadata", lambda name: Metadata())
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    doctor.requirements.cache_clear()
    try:
        alone = {extra: {one.name for one in wanted} for extra, wanted in doctor.requirements().items()}
    finally:
        doctor.requirements.cache_clear()
    assert alone == with_clone


@pytest.mark.parametrize(
    ("changes", "said", "status"),
    [
        ({"numpy": "1.26.4"}, "numpy 1.26.4 is installed, core wants numpy>=2.0: pip install 'numpy>=2.0'", 1),
        ({"scipy": ""}, "to get what the core lacks: pip install scipy", 1),
        ({"jax": "0.5.3"}, "jax 0.5.3 is installed, deep wants jax>=0.6", 0),
        ({"jaxlib": "0.6.2"}, "jaxlib 0.6.2 is installed, jax 0.7.0 wants jaxlib<=0.7.0,>=0.7.0", 0),
        ({"jaxlib": ""}, "jaxlib none is installed, jax 0.7.0 wants", 0),
        ({"mujoco": "4.0.1"}, "mujoco 4.0.1 moves robots differently from mujoco 3", 0),
        ({"mujoco": "3.1.0"}, "mujoco 3.1.0 is installed, robots wants mujoco<5,>=3.3", 0),
    ],
)
def test_wrong_versions(installed, capsys, changes, said, status):
    installed(**changes)
    assert doctor.doctor() == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OMP_NUM_THREADS", "16", "OMP_NUM_THREADS=16 on 2 processors"),
        ("OPENBLAS_NUM_THREADS", "3", "OPENBLAS_NUM_THREADS=3 on 2 processors"),
        ("NPROC", "64", "NPROC=64 on 2 processors"),
        ("MKL_NUM_THREADS", "many", "MKL_NUM_THREADS is 'many', which is no number"),
        ("OMP_NUM_THREADS", "2", None),
    ],
)
def test_too_many_threads(installed, monkeypatch, name, value, said):
    installed()
    monkeypatch.setenv(name, value)
    advice = doctor.thread_advice(2)
    assert (not advice) if said is None else any(said in line for line in advice)


def test_threads_that_nobody_limits(installed, monkeypatch):
    installed()
    for name in doctor.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "_pools", lambda: [{"internal_api": "openblas", "num_threads": 32}])
    advice = doctor.thread_advice(2)
    assert any("export OMP_NUM_THREADS=1" in line for line in advice)
    assert any("openblas uses 32 threads on 2 processors" in line for line in advice)


def test_versions_that_differ_from_the_lock_file(monkeypatch, tmp_path):
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "dev.lock").write_text(
        "numpy==2.0.0 ; python_version < '3.12' \\\n    --hash=sha256:00\nnumpy==2.1.0\ntensorboardx==2.6\n"
    )
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    found = doctor.unlocked({"numpy": "2.2.0", "tensorboardX": "2.6", "scipy": "1.0"})
    assert found == {"numpy": "2.0.0 or 2.1.0"}
