"""A small hostile file gets one sentence: no memory by its word, no hang, no other file touched, no code run.

The cases (hostile.py) run in processes of their own, whose address space is limited once the readers are loaded.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import hostile

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to count memory")


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    script = Path(hostile.__file__)
    ended = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, cwd=script.parent)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return folder


@pytest.mark.parametrize("name", hostile.CASES)
def test_it_is_refused(name, verdicts):
    if name.startswith("minari") and not (find_spec("minari") and find_spec("h5py")):
        pytest.skip("needs Minari")
    verdict = (verdicts / name / "verdict").read_text()
    assert verdict.startswith("refused: "), verdict[:2000]
    assert "MemoryError" not in verdict
    assert "\n" not in verdict
    assert len(verdict) < 3000


def test_a_reader_without_limits_would_not_pass(tmp_path):
    """The same machinery notices what it is there for: memory by the file's word, and a hang is an alarm."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hostile, numpy\n"
        "hostile.CASES['greedy'] = lambda folder: lambda: numpy.ones(1 << 40)\n"
        "from pathlib import Path; print(hostile.attempt('greedy', Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, str(Path(hostile.__file__).parent), str(tmp_path)]
    assert "MemoryError" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
