"""What a file *is*, not what it says: links, pipes, devices and folders in place of the files of a run.

Readers and writers are found from the source, so a new one is tested or the tests fail.
"""

import ast
import inspect
import os
import shutil
import signal
import socket
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import demos, load_cost
from tacit.cli import main
from tacit.cost.ensemble import CostEnsemble
from tacit.errors import UserError
from tacit.run import Run, disk, in_use, storage

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links")

SOURCE = Path(tacit.__file__).parent
SECRET = b'{"secret": 1}\n{"secret": 2}\nunfinished'


@contextmanager
def soon(seconds=2):
    """A hang is a failure."""

    def late(*_):
        raise AssertionError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# The types ----------------------------------------------------------------------------------------------------------


def link_to_a_file(path, elsewhere):
    path.symlink_to(elsewhere / "secret")


def link_to_nothing(path, elsewhere):
    path.symlink_to(elsewhere / "nothing")


def link_to_a_folder(path, elsewhere):
    path.symlink_to(elsewhere)


def link_to_an_endless_device(path, elsewhere):
    path.symlink_to("/dev/zero")


def link_to_itself(path, elsewhere):
    path.symlink_to(path.name)


def pipe(path, elsewhere):
    os.mkfifo(path)


def folder(path, elsewhere):
    path.mkdir()


def unix_socket(path, elsewhere):
    with socket.socket(socket.AF_UNIX) as server, inside(path.parent):
        server.bind(path.name)


@contextmanager
def inside(where):
    """Names of sockets are short."""
    before = os.getcwd()
    os.chdir(where)
    try:
        yield
    finally:
        os.chdir(before)


TYPES = (
    link_to_a_file,
    link_to_nothing,
    link_to_a_folder,
    link_to_an_endless_device,
    link_to_itself,
    pipe,
    folder,
    unix_socket,
)


def content(where):
    return {
        str(path.relative_to(where)): path.read_bytes() if path.is_file() else None for path in sorted(where.rglob("*"))
    }


@pytest.fixture
def elsewhere(tmp_path):
    """A folder that nothing may touch."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "secret").write_bytes(SECRET)
    for name in ("step-00000001", "step-00000002", "step-00000003", "cost"):
        (place / f"{name}.safetensors").write_bytes(SECRET)
    (place / ".a.12345678.tmp").write_bytes(SECRET)
    before = content(place)
    yield place
    assert content(place) == before


# Functions of storage and disk --------------------------------------------------------------------------------------

ARRAYS = {"a": np.zeros(3)}
READERS = {
    "storage.read_json": storage.read_json,
    "storage.load_arrays": storage.load_arrays,
    "storage.sha256_of_file": storage.sha256_of_file,
    "storage.read_jsonl": storage.read_jsonl,
    "storage.count_jsonl": storage.count_jsonl,
    "disk.reading": disk.reading,
    "disk.read_bytes": disk.read_bytes,
    "disk.read_text": disk.read_text,
}


def write_through(opener):
    def write(path):
        with opener(path) as file:
            file.write(b"x")

    return write


def write_elsewhere(path):
    with disk.written_elsewhere(path) as draft:
        draft.write_bytes(b"x")


WRITERS = {
    "storage.atomic_write_bytes": lambda path: storage.atomic_write_bytes(path, b"x"),
    "storage.write_zip": lambda path: storage.write_zip(path, {"a": b"x"}, zipfile.ZIP_DEFLATED),
    "storage.atomic_write_text": lambda path: storage.atomic_write_text(path, "x"),
    "storage.write_json": lambda path: storage.write_json(path, {}),
    "storage.save_arrays": lambda path: storage.save_arrays(path, ARRAYS),
    "storage.append_jsonl": lambda path: storage.append_jsonl(path, {"a": 1}),
    "storage.truncate_jsonl": lambda path: storage.truncate_jsonl(path, 0),
    "storage.sync": storage.sync,
    "disk.writing": write_through(disk.writing),
    "disk.appending": write_through(disk.appending),
    "disk.opened_in_place": write_through(disk.opened_in_place),
    "disk.written_elsewhere": write_elsewhere,
    "disk.move": lambda path: disk.move(path, path.with_name("new")),
}
OTHERS = {
    "disk.remove",
    "disk.subfolder",
    "disk.listed",
    "disk.drafts",
    "disk.exists",
    "disk.guard",
    "disk.guarded_root",
}
"""Tested by themselves below."""


def test_every_function_with_a_path_is_tested():
    takers = set()
    for module, name in ((storage, "storage"), (disk, "disk")):
        for key, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == module.__name__ and not key.startswith("_")
            if own and {"path", "folder", "old"} & set(inspect.signature(function).parameters):
                takers.add(f"{name}.{key}")
    assert takers == {*READERS, *WRITERS, *OTHERS}


@pytest.mark.parametrize("name", [*READERS, *WRITERS])
@pytest.mark.parametrize("make", TYPES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("where", ["file", "inner/file"])
def test_nothing_but_regular_files(name, make, where, tmp_path, elsewhere):
    root = tmp_path / "run"
    (root / "inner").mkdir(parents=True)
    disk.guard(root)
    make(root / where, elsewhere)
    with soon(), pytest.raises(UserError, match=r"is a |does not exist"):
        (READERS | WRITERS)[name](root / where)
    assert os.path.lexists(root / where)


@pytest.mark.parametrize("name", [*READERS, *WRITERS])
def test_no_folder_on_the_way_is_a_link(name, tmp_path, elsewhere):
    root = tmp_path / "run"
    root.mkdir()
    disk.guard(root)
    (root / "inner").symlink_to(elsewhere)
    for file in ("secret", "new"):
        with suppress(FileNotFoundError), soon(), pytest.raises(UserError, match=r"inner.* is a link|does not exist"):
            (READERS | WRITERS)[name](root / "inner" / file)


@pytest.mark.parametrize("name", [*READERS, *WRITERS])
@pytest.mark.parametrize("make", [pipe, folder, unix_socket, link_to_an_endless_device], ids=lambda make: make.__name__)
def test_paths_that_were_typed_are_regular_files_too(name, make, tmp_path, elsewhere):
    if make is link_to_an_endless_device and name in WRITERS and "append" not in name:
        pytest.skip("the new file takes the place of the link")
    make(tmp_path / "file", elsewhere)
    with soon(), pytest.raises(UserError, match="is a "):
        (READERS | WRITERS)[name](tmp_path / "file")


def test_links_that_were_typed_are_followed_in_reading_and_replaced_in_writing(tmp_path, elsewhere):
    link_to_a_file(tmp_path / "link", elsewhere)
    assert storage.read_bytes(tmp_path / "link") == SECRET
    storage.atomic_write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").read_bytes() == b"new"


def test_the_run_folder_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    disk.guard(tmp_path / "run")
    storage.write_json(tmp_path / "run" / "model" / "a.json", {"a": 1})
    storage.append_jsonl(tmp_path / "run" / "log.jsonl", {"a": 1})
    assert storage.read_json(tmp_path / "real" / "model" / "a.json") == {"a": 1}
    assert storage.read_jsonl(tmp_path / "run" / "log.jsonl") == [{"a": 1}]


def test_a_file_with_a_second_name_is_copied_before_it_grows(tmp_path, elsewhere):
    os.link(elsewhere / "secret", tmp_path / "log.jsonl")
    storage.append_jsonl(tmp_path / "log.jsonl", {"a": 1})
    assert storage.read_jsonl(tmp_path / "log.jsonl") == [{"secret": 1}, {"secret": 2}, {"a": 1}]


def test_removing(tmp_path, elsewhere):
    disk.guard(tmp_path)
    link_to_a_file(tmp_path / "link", elsewhere)
    disk.remove(tmp_path / "link")
    assert not os.path.lexists(tmp_path / "link")
    disk.remove(tmp_path / "link")  # gone already
    (tmp_path / "inner").symlink_to(elsewhere)
    with pytest.raises(UserError, match="is a link"):
        disk.remove(tmp_path / "inner" / "secret")
    with pytest.raises(UserError, match="is a folder"):
        disk.remove(elsewhere)


def test_listing_and_making_folders(tmp_path, elsewhere):
    disk.guard(tmp_path)
    (tmp_path / "inner").symlink_to(elsewhere)
    for call in (lambda: disk.listed(tmp_path / "inner", "*"), lambda: disk.subfolder(tmp_path / "inner")):
        with pytest.raises(UserError, match="is a link"):
            call()
    assert disk.listed(tmp_path / "missing", "*") == []
    assert disk.drafts(tmp_path) == [elsewhere / ".a.12345678.tmp"]  # through the folder itself, not through the link
    assert disk.exists(tmp_path / "inner")
    with pytest.raises(UserError, match="is a link"):
        disk.exists(tmp_path / "inner" / "secret")
    assert disk.guarded_root(tmp_path / "inner" / "x") == tmp_path


def test_without_descriptors(tmp_path, elsewhere, monkeypatch):
    """As on Windows."""
    monkeypatch.setattr(disk, "_DESCRIPTORS", False)
    disk.guard(tmp_path / "run")
    storage.write_json(tmp_path / "run" / "inner" / "a.json", {"a": 1})
    assert storage.read_json(tmp_path / "run" / "inner" / "a.json") == {"a": 1}
    (tmp_path / "run" / "link").symlink_to(elsewhere)
    for name, call in (READERS | WRITERS).items():
        with pytest.raises(UserError, match="is a link"):
            call(tmp_path / "run" / "link" / "secret")
        if name not in ("storage.sync",):
            link = tmp_path / "run" / f"{name}.link"
            link_to_a_file(link, elsewhere)
            with pytest.raises(UserError, match="is a link"):
                call(link)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    for read in READERS.values():
        with soon(), pytest.raises(UserError, match="too many"):
            read(tmp_path / "sparse")


# Run folders --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small exact run with everything that a run folder can hold."""
    root = tmp_path_factory.mktemp("runs")
    assert main(["learn", "mce-exact", "tacit/Gridworld-v0", "--out", str(root)]) == 0
    (run,) = [path for path in root.iterdir() if (path / "config.json").exists()]
    assert main(["eval", str(run)]) == 0
    return run


COMMANDS = ("eval", "explain", "resume", "calibrate", "report", "certify")
NAMES = [
    "config.json",
    "provenance.json",
    "metrics.jsonl",
    "eval.jsonl",
    "demos.npz",
    "checkpoints",
    "model",
    "model/policy.safetensors",
    "model/cost.safetensors",
    "model/cost.json",
    "summary.json",
    ".lock",
    "DONE",
    "samples.safetensors",
    "figures.safetensors",
    "certificate.json",
    "explanation.json",
    "explanation.svg",
    "report.html",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_commands_touch_nothing_else(name, finished, tmp_path, elsewhere, capsys):
    link = link_to_a_folder if name in ("model", "checkpoints") else link_to_a_file
    cases = ((link, False, COMMANDS), (link, True, ("resume",)), (pipe, False, ("eval", "report")))
    for make, unfinished, commands in cases:
        run = tmp_path / f"{make.__name__}-{unfinished}"
        shutil.copytree(finished, run)
        if unfinished:
            (run / "DONE").unlink()
        path = run / name
        with suppress(FileNotFoundError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        path.parent.mkdir(exist_ok=True)
        make(path, elsewhere)
        for command in commands:
            with soon(30):
                status = main([command, str(run)])
            assert status in (0, 1, 2), (command, make.__name__)
            assert "Traceback" not in capsys.readouterr().err
            if name == "config.json":
                assert status == 2


@pytest.mark.parametrize("make", TYPES, ids=lambda make: make.__name__)
def test_locks(make, tmp_path, elsewhere):
    run = Run.start(tmp_path, algo="bc", env="x", env_kwargs={}, seed=0, config={})
    make(run.path / ".lock", elsewhere)
    with soon(), pytest.raises(UserError, match="is a "), run:
        pass
    with soon(), pytest.raises(UserError, match="is a "):
        in_use(run.path)


def test_a_lock_with_a_second_name(tmp_path, elsewhere):
    run = Run.start(tmp_path, algo="bc", env="x", env_kwargs={}, seed=0, config={})
    os.link(elsewhere / "secret", run.path / ".lock")
    with pytest.raises(UserError, match="hard link"), run:
        pass


@pytest.mark.parametrize("make", TYPES, ids=lambda make: make.__name__)
def test_costs_and_demonstrations_of_a_run(make, tmp_path, elsewhere):
    run = Run.start(tmp_path, algo="bc", env="x", env_kwargs={}, seed=0, config={})
    (run.path / "model").mkdir()
    make(run.path / "model" / "cost.safetensors", elsewhere)
    make(run.path / "demos.npz", elsewhere)
    with soon(), pytest.raises(UserError):
        load_cost(run.path)
    with soon(), pytest.raises(UserError):
        CostEnsemble.load(run.path / "model" / "cost.safetensors")
    with soon(), pytest.raises(UserError):
        demos.load(run.path / "demos.npz")
    with soon(), pytest.raises(UserError):
        run.demonstrations()


# Nothing else opens files -------------------------------------------------------------------------------------------

OPENERS = {
    "open", "os.open", "io.open", "os.fdopen", "os.replace", "os.rename", "os.remove", "os.unlink", "os.truncate",
    "np.load", "np.save", "np.savez", "np.loadtxt", "np.genfromtxt", "np.fromfile", "np.memmap", "json.load",
    "json.dump", "tomllib.load", "pickle.load", "safe_open", "zipfile.ZipFile", "gzip.open", "lzma.open",
    "shutil.rmtree", "shutil.copy", "shutil.copyfile", "shutil.copytree", "shutil.move", "h5py.File", "Image.open",
    "np.savez_compressed", "np.savetxt", "ET.parse", "ET.iterparse", "tarfile.open", "bz2.open", "mmap.mmap",
    "load_file", "save_file", "torch.load", "torch.save", "onnx.load", "onnx.save", "sqlite3.connect", "get_writer",
    "imageio.imread", "imageio.imwrite", "imageio.mimsave", "plt.savefig", "plt.imread", "SummaryWriter", "os.mkdir",
    "os.makedirs", "os.symlink", "os.link", "os.chmod", "os.rmdir", "pq.read_table", "pd.read_csv", "pd.read_parquet",
}  # fmt: skip
METHODS = {"read_text", "write_text", "read_bytes", "write_bytes", "unlink", "rename", "rmdir", "symlink_to"}
METHODS |= {"hardlink_to", "touch", "open", "mkdir", "chmod", "tofile", "fromfile", "from_xml_path"}
OWN = ("storage", "disk", "Run", "cls")
"""Whose methods of these names are our own."""

ALLOWED = {
    "run/disk.py": "the one place",
    "cli.py os.open": "the null device, for a pipe whose reader has left",
    "run/machine.py read_text": "/proc/cpuinfo",
    "presets/__init__.py read_text": "comes with the package",
    "report/page.py read_text": "comes with the package",
    "playground/server.py read_bytes": "comes with the package",
    "envs/gridworld_map.py read_text": "built-in layouts",
    "commands/doctor.py read_text": "pyproject.toml and the lock files of the clone that Tacit runs from",
    "demos/files.py zipfile.ZipFile": "of a file that `disk` has opened",
    "run/storage.py zipfile.ZipFile": "of a file that `disk` has opened",
    "envs/traffic/compact.py zipfile.ZipFile": "of a file that `disk` has opened",
    "envs/traffic/highd.py np.loadtxt": "of lines of text",
    "demos/files.py open": "of a part of an archive",
    "commands/playground.py open": "the browser",
    "envs/robots.py from_xml_path": "comes with the package or with Gymnasium",
    "plots/video.py get_writer": "of a draft of `disk.written_elsewhere`",
    "reproduce/stages.py mkdir": "a folder of results that the user has named",
    "run/folder.py mkdir": "the run folder itself, which may be a link",
    "run/sinks.py SummaryWriter": "in a folder of `disk.subfolder`",
    "interop/hdf5.py h5py.File": "HDF5 opens files by name; links inside of them are refused",
    "interop/tensors.py zipfile.ZipFile": "of a file that `disk` has opened",
    "interop/minari.py shutil.rmtree": "a dataset that could not be written, in Minari's own store",
    "reproduce/gridworld.py Image.open": "of bytes in memory",
    "reproduce/pictures.py Image.open": "of bytes in memory",
}
"""file (and call): why it may."""


def calls():
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                if called in OPENERS:
                    yield name, called
                elif method in METHODS and called.split(".")[0] not in OWN:
                    yield name, method


def test_nothing_else_opens_files():
    used = {file if file in ALLOWED else f"{file} {call}" for file, call in calls()}
    assert used <= set(ALLOWED), "open files with the functions of tacit.run.disk or tacit.run.storage"
    assert set(ALLOWED) <= used, "an exception is no longer needed"
