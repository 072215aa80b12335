"""The command line: what it prints, how it ends, and that no mistake of a user's ends in a traceback."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import tacit.cli
from tacit import algorithms as registry
from tacit.errors import UserError
from tacit.run import Run, terminal

STUB = registry.Algorithm("stub", "for tests", "stub_algorithm")
GRID = "tacit/Gridworld-v0"
ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_a_stub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.ALGORITHMS, "stub", STUB)


def is_error(output, *words: str, status: int = 2) -> bool:
    """One line on stderr that holds the words, the exit status, nothing on stdout, no traceback."""
    assert output.status == status, output
    assert output.stdout == ""
    lines = output.stderr.strip().splitlines()
    assert "Traceback" not in output.stderr
    assert lines[-1].startswith("error: " if status == 2 else "failed: "), output.stderr
    for word in words:
        assert word in lines[-1], output.stderr
    return True


# -- dispatch ----------------------------------------------------------------------------------------------------------


def test_help_lists_every_verb(cli):
    for args in ([], ["--help"], ["-h"], ["help"]):
        output = cli(*args)
        text = output.stdout if args else output.stderr
        assert output.status == (0 if args else 2)
        for verb in tacit.cli.VERBS:
            assert f"\n  {verb} " in text


@pytest.mark.parametrize("verb", tacit.cli.VERBS)
def test_every_verb_teaches(cli, verb):
    output = cli(verb, "--help")
    assert output.status == 0
    assert f"usage: tacit {verb}" in output.stdout
    assert "Examples:" in output.stdout
    assert f"  tacit {verb}" in output.stdout
    assert cli("help", verb).stdout == output.stdout


@pytest.mark.parametrize("verb", list(tacit.cli.VERBS))
def test_unknown_options_are_refused_without_a_traceback(cli, verb):
    output = cli(verb, "--no-such-option")
    assert output.status == 2
    assert "Traceback" not in output.stderr
    assert output.stdout == ""


def test_version(cli):
    assert cli("--version").stdout == f"tacit {tacit.__version__}\n"


def test_unknown_verbs_get_a_suggestion(cli):
    assert is_error(cli("lern"), "'lern'", "did you mean `tacit learn`?")
    assert is_error(cli("xyzzy"), "'xyzzy'", "tacit --help")


class Broken:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def main(self, args: list[str]) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (UserError("two\nlines"), 2, "error: two lines"),
        (tacit.RunFailed("it diverged"), 1, "failed: it diverged"),
        (ModuleNotFoundError("No module named 'jax.numpy'", name="jax.numpy"), 2, "pip install '.[deep]'"),
        (KeyboardInterrupt(), 130, "stopped"),
        (PermissionError(13, "Permission denied", "a/file"), 1, "failed: a/file: Permission denied"),
        (OSError(28, "No space left on device", "a/file"), 1, "failed: a/file: No space left on device"),
    ],
)
def test_how_errors_end(cli, monkeypatch, error, status, text):
    monkeypatch.setattr("tacit.commands.import_module", lambda name: Broken(error))
    output = cli("doctor")
    assert output.status == status
    assert text in output.stderr
    assert output.stderr.count("\n") == 1


@pytest.mark.parametrize("error", [ZeroDivisionError(), ModuleNotFoundError("No module named 'x'", name="x")])
def test_bugs_keep_their_traceback(cli, monkeypatch, error):
    monkeypatch.setattr("tacit.commands.import_module", lambda name: Broken(error))
    with pytest.raises(type(error)):
        cli("doctor")


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(cli, monkeypatch):
    class Warns:
        def main(self, args):
            import warnings

            warnings.warn("mind\nthe gap", stacklevel=1)

    monkeypatch.setattr("tacit.commands.import_module", lambda name: Warns())
    assert cli("doctor").stderr == "warning: mind the gap\n"


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m tacit envs --layouts | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


# -- envs, doctor ------------------------------------------------------------------------------------------------------


def test_envs(cli):
    assert GRID in cli("envs").stdout
    (grid,) = cli("envs", "gridworld", "--json").json()
    assert grid["id"] == GRID
    assert grid["horizon"] == 200
    assert is_error(cli("envs", "nothing"), "no environment has 'nothing'")
    layouts = cli("envs", "--layouts", "--json").json()
    assert "paper" in {layout["layout"] for layout in layouts}
    assert "paper: " in cli("envs", "--layouts").stdout


def test_doctor(cli, monkeypatch):
    found = cli("doctor", "--json").json()
    assert found["tacit"] == tacit.__version__
    assert found["missing"] == []
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(found["extras"]) == set(declared)
    assert all(extra["purpose"] for extra in found["extras"].values())
    assert cli("doctor").status == 0


def test_doctor_says_how_to_get_what_is_missing(cli, monkeypatch):
    from tacit.commands import doctor

    real = doctor.versions
    monkeypatch.setattr(
        doctor, "versions", lambda names: {k: v for k, v in real(names).items() if k not in ("jax", "scipy")}
    )
    output = cli("doctor", "--json")
    assert output.status == 1
    assert output.json()["missing"] == ["scipy"]
    assert output.json()["extras"]["deep"]["missing"] == ["jax"]
    assert output.json()["extras"]["deep"]["install"].startswith("pip install '.[deep]'")
    text = cli("doctor").stdout
    assert "scipy missing" in text
    assert "pip install '.[PART]'" in text


# -- demos -------------------------------------------------------------------------------------------------------------


def test_demos_make_show_validate_convert(cli):
    assert cli("demos", "make", GRID, "--slip", 0.2, "--n", 3, "--seed", 1, "-o", "a.npz").status == 0
    card = cli("demos", "show", "a.npz", "--json").json()
    assert card["statistics"]["trajectories"] == 3
    assert card["env_kwargs"]["slip"] == 0.2
    assert "3 trajectories" in cli("demos", "show", "a.npz").stdout
    assert "every move is possible" in cli("demos", "validate", "a.npz").stdout
    assert cli("demos", "convert", "a.npz", "b.csv").status == 0
    back = cli("demos", "convert", "b.csv", "c.npz", "--env", GRID, "slip=0.2", "--json").json()
    assert back["statistics"] == card["statistics"]
    assert back["env_kwargs"] == card["env_kwargs"]
    assert cli("demos", "validate", "c.npz", "--json").json()["problems"] == []


def test_env_names_the_environment_and_its_options_in_every_command(cli, tmp_path):
    """A word with = is an option; one without is the environment, as if it stood in front."""
    for i, words in enumerate(([GRID, "--env", "slip=0.2"], ["--env", GRID, "slip=0.2"], ["--env", "slip=0.2", GRID])):
        assert cli("demos", "make", "--n", 2, "-o", f"{i}.npz", "--json").status == 0
        made = cli("demos", "make", *words, "--n", 2, "-o", f"{i}.npz", "--json").json()
        assert (made["env"], made["env_kwargs"]["slip"]) == (GRID, 0.2)
        learned = cli("learn", "mce-exact", *words, "--demos", f"{i}.npz", "--out", f"runs-{i}", "--json").json()
        config = json.loads((tmp_path / learned["run"] / "config.json").read_text())
        assert (config["env"], config["env_kwargs"]["slip"]) == (GRID, 0.2)
    assert cli("demos", "validate", "0.npz", "--env", GRID, "slip=0.2").status == 0
    assert is_error(cli("preflight", "tacit/Pendulum-v0", "--env", GRID), f"{GRID!r} is neither")


@pytest.mark.parametrize(("old", "words"), [("--in-env", [GRID]), ("--option", ["slip=0.2", "--env", GRID])])
def test_the_old_names_of_env(cli, old, words):
    cli("demos", "make", "--slip", 0.2, "--n", 2, "-o", "a.npz")
    cli("demos", "convert", "a.npz", "a.csv")
    output = cli("demos", "convert", "a.csv", "b.npz", old, *words, "--slip", 0.2, "-q")
    assert output.status == 0
    assert f"warning: {old} is now --env" in output.stderr


def test_quiet_commands_that_write_demonstrations_print_nothing(cli, tmp_path):
    for words in (
        ("make", "--n", 2, "-o", "a.npz"),
        ("convert", "a.npz", "a.csv"),
        ("export", "a.npz", "b.csv"),
        ("import", "a.csv", "-o", "c.npz", "--env", GRID, "--anyway"),
    ):
        output = cli("demos", *words, "-q")
        assert (output.status, output.stdout, output.stderr) == (0, "", ""), words
    assert {"a.npz", "a.csv", "b.csv", "c.npz"} == {file.name for file in tmp_path.iterdir()}
    assert cli("demos", "make", "--n", 2, "-o", "a.npz", "-q", "--json").json()["env"] == GRID
    assert GRID in cli("demos", "show", "a.npz", "-q").stdout, "the card is what was asked for"


def test_demos_mistakes(cli, tmp_path):
    assert is_error(cli("demos", "show", "none.npz"), "none.npz does not exist")
    assert is_error(cli("demos", "make", "-o", "a.txt"), "something.npz")
    assert is_error(cli("demos", "make", "--n", 0, "-o", "a.npz"), "at least one demonstration")
    assert is_error(cli("demos", "make", "tacit/Gridwrld-v0", "-o", "a.npz"), f"did you mean '{GRID}'?")
    assert is_error(cli("demos", "make", "CartPole-v1", "-o", "a.npz"), "no built-in expert")
    assert is_error(cli("demos", "make", "--env", "slip", "-o", "a.npz"), "KEY=VALUE")
    assert is_error(cli("demos", "make", "--env", "slip=0.1", "slip=0.2", "-o", "a.npz"), "slip twice")
    assert is_error(cli("demos", "make", "--env", "slip=0.1", "--slip", "0.2", "-o", "a.npz"), "contradict")
    assert is_error(cli("demos", "make", "--env", "speed=3", "-o", "a.npz"), "no option 'speed'", "slip")
    assert is_error(cli("demos", "make", "--env", "slip=high", "-o", "a.npz"), "wrong type", "slip=high")
    assert is_error(cli("demos", "make", "--slip", "1.5", "-o", "a.npz"), "slip must be a probability")
    assert is_error(cli("demos", "make", "nothing_here:Env-v0", "-o", "a.npz"), "cannot import 'nothing_here'")
    assert list(tmp_path.iterdir()) == []
    cli("demos", "make", "-o", "a.npz", "--slip", 0.3)
    assert is_error(cli("demos", "validate", "a.npz", "--slip", 0), "does not fit", "more problems")
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "torn.npz").write_bytes(whole[:-100])
    for verb in ("show", "validate"):
        assert is_error(cli("demos", verb, "torn.npz"), "torn.npz")
    assert is_error(cli("demos", "convert", "torn.npz", "out.npz"), "torn.npz")
    assert is_error(cli("demos", "convert", "a.npz", "out.csv", "--slip", 0.3), "--env ENV")
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("...\n.G.\n", "no start"),
        ("...\n.S.\n", "no goal"),
        ("S#G\n", "cannot be reached"),
        ("S.G\n..\n", "ragged"),
        ("S.G\n.Q.\n", "'Q'"),
        ("", "empty"),
    ],
)
def test_bad_maps(cli, tmp_path, text, words):
    (tmp_path / "map.txt").write_text(text)
    assert is_error(cli("learn", "stub", GRID, "--layout", "map.txt"), words)
    assert not (tmp_path / "runs").exists()


# -- learn, resume -----------------------------------------------------------------------------------------------------


def test_learn_makes_a_run_folder_that_stands_alone(cli, tmp_path):
    (tmp_path / "my.txt").write_text("S.X.G\n.....\n")
    cli("demos", "make", "--layout", "my.txt", "--n", 4, "-o", "a.npz")
    output = cli("learn", "stub", GRID, "--layout", "my.txt", "--demos", "a.npz", "--beta", 0.5, "--seed", 3, "--json")
    assert output.status == 0, output.stderr
    told = output.json()
    run = Run.open(told["run"])
    assert run.done
    assert run.name.startswith("stub-gridworld-s3-")
    assert run.config["config"] == {"beta": 0.5, "pause": 0.0, "sizes": [1, 2], "fail": False}
    assert run.config["env_kwargs"]["layout"] == "S.X.G\n.....\n"
    assert run.config["env_kwargs"]["slip"] == 0.1
    assert run.read("provenance.json")["command"].startswith("tacit learn stub tacit/Gridworld-v0 --layout my.txt")
    assert run.read("summary.json") == told["summary"]
    for file in ("a.npz", "my.txt"):
        (tmp_path / file).unlink()
    assert len(run.demonstrations()) == 4


def test_the_same_command_skips_a_finished_run(cli):
    args = ("learn", "stub", GRID)
    first = cli(*args)
    assert "50 by the built-in expert, seed 0" in first.stderr
    run = first.stdout.split()[-1]
    before = {path: path.stat().st_mtime_ns for path in Path(run).rglob("*")}
    again = cli(*args)
    assert again.status == 0
    assert again.stdout == first.stdout
    assert "finished already" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_options_of_the_environment_default_to_those_of_the_demonstrations(cli):
    cli("demos", "make", "--slip", 0.3, "-o", "a.npz", "--n", 3)
    output = cli("learn", "stub", GRID, "--demos", "a.npz", "--json")
    assert Run.open(output.json()["run"]).config["env_kwargs"]["slip"] == 0.3
    assert "slip=0.3" in output.stderr
    output = cli("learn", "stub", GRID, "--demos", "a.npz", "--slip", 0.2, "--json")
    assert Run.open(output.json()["run"]).config["env_kwargs"]["slip"] == 0.2
    assert "warning: a.npz was made with other options: slip=0.3" in output.stderr


def test_learn_mistakes(cli, tmp_path):
    assert is_error(cli("learn", "stbu", GRID), "no algorithm 'stbu'", "did you mean 'stub'?")
    assert is_error(cli("learn", "zzz", GRID), "mce-exact")
    assert is_error(cli("learn", "stub", "tacit/Nothing-v0"), "no environment 'tacit/Nothing-v0'")
    assert is_error(cli("learn", "stub", GRID, "--demos", "none.npz"), "none.npz does not exist")
    assert is_error(cli("learn", "stub", GRID, "--layout", "none.txt"), "'none.txt' is neither")
    assert is_error(cli("learn", "stub", "CartPole-v1"), "--demos FILE")
    assert not (tmp_path / "runs").exists(), "nothing is left behind"
    cli("demos", "make", "-o", "a.npz", "--n", 2, "--slip", 0.5)
    assert is_error(cli("learn", "stub", "CartPole-v1", "--demos", "a.npz"), "made in tacit/Gridworld-v0")
    assert is_error(cli("learn", "stub", GRID, "--demos", "a.npz", "--slip", 0), "do not fit")
    (tmp_path / "runs").write_text("")
    assert is_error(cli("learn", "stub", GRID), "cannot make the run folder")
    for args in (["learn"], ["learn", "stub"], ["learn", "stub", GRID, "--beta", "hot"], ["resume"]):
        output = cli(*args)
        assert output.status == 2
        assert "Traceback" not in output.stderr


def test_a_failed_run_is_status_1_and_can_be_looked_at(cli):
    assert is_error(cli("learn", "stub", GRID, "--fail"), "told to fail", status=1)
    (folder,) = Path("runs").iterdir()
    assert not Run.open(folder).done


def test_learn_help_lists_algorithms_and_their_settings(cli):
    assert "for tests" in cli("learn", "--help").stdout
    text = cli("learn", "stub", "--help").stdout
    for word in ("--beta", "--pause", "--slip", "--demos", "KEY=VALUE", "Seconds to sleep"):
        assert word in text


def test_resume_mistakes(cli, tmp_path):
    assert is_error(cli("resume", "nothing"), "no run folder nothing")
    run = Path(cli("learn", "stub", GRID, "--json").json()["run"])
    (run / "DONE").unlink()
    (run / "config.json").write_text((run / "config.json").read_text().replace('"pause"', '"paws"'))
    assert is_error(cli("resume", run), "paws", "does not know")
    (run / "config.json").write_text('{"schema": 1')
    assert is_error(cli("resume", run), "config.json", "not valid JSON")


def test_resume_refuses_changed_demonstrations(cli):
    run = Path(cli("learn", "stub", GRID, "--json").json()["run"])
    (run / "DONE").unlink()
    cli("demos", "make", "-o", run / "demos.npz", "--n", 2)
    assert is_error(cli("resume", run), "other demonstrations")
    (run / "demos.npz").unlink()
    assert is_error(cli("resume", run), "demos.npz is missing")


SLOW = """
import sys
from tacit.cli import main
from tacit import algorithms as registry
sys.path.insert(0, sys.argv[1])
registry.ALGORITHMS["stub"] = registry.Algorithm("stub", "for tests", "stub_algorithm")
sys.exit(main(["learn", "stub", "tacit/Gridworld-v0", "--pause", "0.03"]))
"""


@pytest.mark.parametrize("deadly", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_resumes(cli, tmp_path, deadly):
    command = [sys.executable, "-c", SLOW, str(Path(__file__).parent)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONWARNINGS": "error"}
    ) as victim:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("runs/*/checkpoints/step-*3.safetensors")) and time.monotonic() < deadline:
            time.sleep(0.01)
        victim.send_signal(deadly)
        _, stderr = victim.communicate(timeout=60)
    (folder,) = (tmp_path / "runs").iterdir()
    if deadly == signal.SIGINT:
        assert victim.returncode == 130
        assert stderr.splitlines()[-1] == f"stopped; continue with `tacit resume {folder.relative_to(tmp_path)}`"
        assert "Traceback" not in stderr
    summary = cli("resume", folder.name, "--json").json()["summary"]
    assert summary["resumed_from"] >= 3
    run = Run.open(folder)
    assert [record["iteration"] for record in run.metrics()] == list(range(1, 51))


# -- progress ----------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_progress_is_rate_limited_and_ends_with_the_last_line(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with terminal.live("count", total=10, stream=stream) as update:
        for i in range(10):
            now[0] += 0.5
            update(f"i={i}")
    lines = stream.getvalue().splitlines()
    assert lines == [
        "count 4/10 i=3 (2.0 s, 3 s left)",
        "count 8/10 i=7 (4.0 s, 1 s left)",
        "count 10/10 i=9 (5.0 s)",
    ]


def test_progress_tells_how_far_it_got_when_stopped():
    stream = io.StringIO()

    def stopped() -> None:
        with terminal.live("solve", stream=stream) as update:
            update("kkt 1e-3")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert stream.getvalue().startswith("solve 1 kkt 1e-3 (")


def test_live_progress_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with terminal.live("count", total=3, stream=stream) as update:
        for i in range(3):
            update(f"[i={i}]")
    assert "3/3" in stream.getvalue()
    assert "[i=2]" in stream.getvalue()


def test_bar_and_time_left_stay_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with terminal.live("learning", total=3, stream=stream) as update:
        for _ in range(3):
            update("16,384 steps  12,345/s  return 1234  cost: learner 1.23, demonstrations 0.0024  feature gap 0.12")
    last = stream.getvalue().split("learning")[-1]
    assert "3/3" in last
    assert "left" in last
    assert "16,384 steps" in last


def test_json_output_is_strict(cli):
    output = cli("doctor", "--json")
    json.loads(output.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
