"""The wheel: built, installed into a clean environment, and used from there. And: importing tacit costs little."""

import json
import os
import re
import site
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Two seconds are for a busy machine; on a quiet one it is a quarter of a second, most of it NumPy.
MAX_IMPORT_SECONDS = 2.0


def run(*command: object, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    # Outside the source tree and without PYTHONPATH, so that nothing is found that was not installed.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (file,) = out.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A fresh environment with the wheel in it; its dependencies are borrowed from the environment of the tests."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    target = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).stdout.strip()
    )
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel, cwd=folder)
    # A path line, not addsitedir: the .pth files over there, which lead to the source tree, are not followed.
    (target / "zz_borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_holds_code_data_and_licence_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "tacit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packaged = {name for name in names if name.startswith("tacit/")}
    assert packaged == source
    assert "tacit/py.typed" in packaged
    assert any(name.startswith("tacit/envs/layouts/") for name in packaged)
    others = [name for name in names if not name.startswith("tacit/")]
    assert all(".dist-info/" in name for name in others), others
    assert any(name.endswith("licenses/LICENSE") for name in others)


def test_the_installed_package_is_the_wheel_and_works(installed, tmp_path):
    code = """
import json, gymnasium, tacit
env = gymnasium.make("tacit/Gridworld-v0")
env.reset(seed=0)
step = env.step(env.action_space.sample())
print(json.dumps({"file": tacit.__file__, "version": tacit.__version__, "cost": step[4]["cost"],
                  "solve": tacit.solve.__module__}))
"""
    told = json.loads(run(installed, "-W", "error", "-c", code, cwd=tmp_path).stdout)
    assert Path(told["file"]).is_relative_to(installed.parent.parent)
    assert told["solve"] == "tacit.tabular"
    assert told["cost"] in (0.0, 1.0)


def test_the_installed_command_works(installed, tmp_path):
    command = installed.with_name("tacit")
    assert "tacit COMMAND" in run(command, "--help", cwd=tmp_path).stdout
    assert run(command, "--version", cwd=tmp_path).stdout.startswith("tacit 0.")
    told = json.loads(run(command, "envs", "--json", cwd=tmp_path).stdout)
    assert "tacit/Gridworld-v0" in {env["id"] for env in told}
    assert "paper" in run(command, "envs", "--layouts", cwd=tmp_path).stdout


def test_importing_is_light(tmp_path):
    code = """
import sys, time
start = time.perf_counter()
import tacit
seconds = time.perf_counter() - start
heavy = {"scipy", "jax", "jaxlib", "mujoco", "matplotlib", "rich", "tyro", "optax", "equinox", "safetensors", "PIL"}
print(sorted(heavy & set(sys.modules)), seconds)
"""
    loaded, _, seconds = run(sys.executable, "-c", code, cwd=tmp_path).stdout.rpartition(" ")
    assert loaded == "[]"
    assert float(seconds) < MAX_IMPORT_SECONDS


def test_every_public_name_resolves():
    import tacit

    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
        assert name in dir(tacit)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tacit.nothing


def test_versions_agree():
    import tacit

    assert f"version: {tacit.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {tacit.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_nothing_is_pickled():
    # The one word that would turn every shared file into a program.
    words = ("import pickle", "allow_pickle=True", "cloudpickle", "joblib", "torch.load(", "marshal")
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert not [word for word in words if word in text], path


def test_site_packages_are_separate():
    # What the fixture relies on: this environment's packages are in one folder.
    assert sysconfig.get_path("purelib") in site.getsitepackages()


def test_nothing_tells_people_to_install_somebody_elses_package() -> None:
    """`tacit` on the package index is another project: pages, messages and extras say another name."""
    from tacit.errors import DISTRIBUTION, install_command

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION != "tacit"
    own = [line for lines in project["optional-dependencies"].values() for line in lines if line.startswith("tacit")]
    assert own
    assert all(line.startswith(f"{DISTRIBUTION}[") for line in own)
    assert install_command("deep").startswith("pip install '.[deep]'")
    # Not `tacit-icrl` either, as long as it is not published.
    wrong = re.compile(r"""pip install (-\S+ )*['"]?tacit(-icrl)?(\[|['" ]|==|$)|\btacit\[[a-z,]+\]""", re.MULTILINE)
    assert wrong.search("pip install 'tacit[deep]'")
    assert wrong.search("pip install 'tacit-icrl[deep]'")
    files = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "CHANGELOG.md",
        ROOT / ".github" / "workflows" / "ci.yml",
        ROOT / "Makefile",
        ROOT / ".ci" / "run",
        ROOT / "pyproject.toml",
    ]
    for folder in ("docs", "src", "examples", "benchmarks", "tools"):
        files += [
            file for file in (ROOT / folder).rglob("*") if file.suffix in (".md", ".py", ".html", ".ipynb", ".toml")
        ]
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}" for file in files for match in wrong.finditer(file.read_text("utf-8"))
    ]
    assert not found


def test_shares_are_written_in_one_way() -> None:
    """As `metrics.percent` does, "7 %", and not as Python does, "7%"."""
    package = ROOT / "src" / "tacit"
    files = [file for file in package.rglob("*.py") if re.search(r":\.\d%\}", file.read_text(encoding="utf-8"))]
    assert not files


def test_the_classifiers_claim_what_the_workflow_runs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"run: \.ci/run$", workflow, re.MULTILINE)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert re.search(r"run: make test-python PYTHON=python$", workflow, re.MULTILINE)
    run = set(re.findall(r'"(3\.\d+)"', workflow))
    claimed = {line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line}
    assert claimed == run
    systems = [line for line in project["classifiers"] if line.startswith("Operating System")]
    assert set(re.findall(r"runs-on: (\S+)", workflow)) == {"ubuntu-latest"}
    assert systems == ["Operating System :: POSIX :: Linux"]
