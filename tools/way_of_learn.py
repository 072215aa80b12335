"""Count the files of Tacit that one command runs through, and their lines.

    python tools/way_of_learn.py                               tacit learn mce, a short run on Pendulum
    python tools/way_of_learn.py learn mce-exact tacit/Gridworld-v0      any other command

A file counts if one of its functions runs; importing it is not enough. Files are listed by the number of functions that
ran, so a file that is opened for one small function comes first. The sums of all rooms follow. The last lines say how
much of it runs while the agent learns (below `run.trainer.train`), without checks, evaluation, explanation and report,
and how long the functions are that ran.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import CodeType, FrameType

import tacit
from tacit.cli import main as run_command

ROOT = str(Path(tacit.__file__).parent)
LEARN = ["learn", "mce", "tacit/Pendulum-v0", "--total-steps", "4000", "--bootstrap-steps", "2048"]


def main(words: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the run folder is made there
        status, ran, learning = followed(words)
    lines = {file: len(Path(file).read_text("utf-8").splitlines()) for file in ran}
    for file in sorted(ran, key=lambda file: (len(ran[file]), file)):
        names = sorted({code.co_qualname for code in ran[file]})
        print(
            f"{len(names):4} functions of {lines[file]:3} lines  {os.path.relpath(file, ROOT)}: {', '.join(names[:3])}"
        )
    files_of, lines_of = Counter(map(room_of, ran)), Counter[str]()
    for file in ran:
        lines_of[room_of(file)] += lines[file]
    for room, count in files_of.most_common():
        print(f"{room:12} {count:3} files {lines_of[room]:6,} lines")
    print(f"tacit {' '.join(words)}: {len(ran)} files, {sum(lines.values()):,} lines")
    print(f"while it learns: {len(learning)} files, {sum(lines[file] for file in learning):,} lines")
    print(f"the functions that ran have {sum(len(lines_within(codes)) for codes in ran.values()):,} lines")
    return status


def room_of(file: str) -> str:
    first, *rest = Path(os.path.relpath(file, ROOT)).parts
    return first if rest else "top level"


def lines_within(codes: set[CodeType]) -> set[int]:
    """Numbers of the lines of these functions of one file."""
    last = {code: max(line or 0 for _, _, line in code.co_lines()) for code in codes}
    return {line for code in codes for line in range(code.co_firstlineno, last[code] + 1)}


def followed(words: list[str]) -> tuple[int, dict[str, set[CodeType]], set[str]]:
    """Run the command: (its exit status, {file: the functions that ran}, the files that ran while it learned)."""
    ran: dict[str, set[CodeType]] = defaultdict(set)
    learning: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT) and not is_importing(frame):
            ran[frame.f_code.co_filename].add(frame.f_code)
            if is_learning(frame):
                learning.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        return run_command(words), ran, learning
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def is_importing(frame: FrameType | None) -> bool:
    """Whether the frame is the body of a module or a class, or was called by one."""
    while frame is not None and frame.f_code.co_filename.startswith(ROOT):
        if frame.f_code.co_name == "<module>" or "__qualname__" in frame.f_locals:
            return True
        frame = frame.f_back
    return False


def is_learning(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "train" and frame.f_code.co_filename == f"{ROOT}/run/trainer.py":
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or LEARN))
