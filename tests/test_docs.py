"""The documentation is true: its Python blocks, its commands, its examples and its links work.

Fenced blocks of README.md and docs/*.md by language:

python          run, all blocks of a page in one namespace and one temporary folder
python slow     the same, but only with the long tests (a page with such a block is run as a whole there, a page of
                WITH_COMMANDS in two parts)
python sb3      the same, but only where Stable-Baselines3 is installed
shell           `tacit ...` lines are run through the command line (pages of WITH_COMMANDS, in their order,
                together with the Python blocks); a comment `# exit status N` says what to expect; RUN is the newest run
                with a model; `make` and `pip` lines are checked for names that exist
text, or none   not run: output, maps, tables, formulas
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import tomllib
from dataclasses import dataclass, fields
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import moved_pages
import reading
import shapes_table
from tacit.algorithms import ALGORITHMS
from tacit.cli import VERBS, main
from tacit.inverse.certificate import Certificate
from tacit.inverse.feasibility import Diagnosis
from tacit.inverse.mce_exact import Options
from tacit.tabular import Solution

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_COMMANDS = [ROOT / "README.md", ROOT / "docs" / "start.md", ROOT / "docs" / "bring-your-logs.md"]
OTHER_PAGES = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
NOTES = sorted((ROOT / "results" / "notes").glob("*.md"))
"""What was found in each experiment; the site adds the measured tables."""
MOST_PAGES = 22
"""Written pages, the appendix included. Merge before you raise it."""
LARGEST_PAGE = 40_000
"""Bytes. Give a part to the page where a reader would look for it before you raise it."""
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LANGUAGES = {"python", "python slow", "python sb3", "shell", "text", "csv", "toml", "json", ""}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    """of the first line of text, counted from 1"""
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    found, start, language, lines = [], None, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            if start is None:
                start, language, lines = number + 1, line[3:].strip(), []
            else:
                assert line.rstrip() == "```", f"{page.name}:{number}: a block inside a block"
                found.append(Block(page, start, language, "\n".join(lines) + "\n"))
                start = None
        elif start is not None:
            lines.append(line)
    assert start is None, f"{page.name}: the block at line {start} does not end"
    return found


def name_of(page: Path) -> str:
    return page.name


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    if block.language == "python sb3" and find_spec("stable_baselines3") is None:
        return
    # Empty lines in front, so that a traceback names the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
    exec(code, namespace)


def is_slow(page: Path) -> bool:
    return any(block.language == "python slow" for block in blocks(page))


def as_parameters(pages: list[Path]) -> list[Any]:
    return [pytest.param(p, id=name_of(p), marks=[pytest.mark.slow] if is_slow(p) else []) for p in pages]


# Blocks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [f"line {b.line}: {b.language!r}" for b in blocks(page) if b.language not in LANGUAGES]
    assert not unknown, f"{page.name}: {unknown}; nothing would run them"
    looks_like_code = re.compile(r"^(import |from \w+ import |tacit |pip |make )", re.MULTILINE)
    hidden = [b.line for b in blocks(page) if b.language in ("", "text") and looks_like_code.search(b.text)]
    assert not hidden, f"{page.name}: the blocks at lines {hidden} look like code and are not run"
    if page not in WITH_COMMANDS:
        shell = [b.line for b in blocks(page) if b.language == "shell" and "tacit " in b.text]
        assert not shell, f"{page.name}: commands at lines {shell} are run only in {list(map(name_of, WITH_COMMANDS))}"


@pytest.mark.parametrize("page", as_parameters([page for page in PAGES if page not in WITH_COMMANDS]))
def test_python_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language.startswith("python"):
            run_python(block, namespace)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_python_blocks_and_commands(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    commands, printed = 0, ""
    for block in blocks(page):
        if block.language in ("python", "python sb3"):
            run_python(block, namespace)
        elif block.language == "shell":
            for offset, line in enumerate(block.text.splitlines()):
                where = f"{page.name}:{block.line + offset}: {line}"
                commands += run_shell_line(line, where, capsys)
                printed += capsys.readouterr().out
    assert commands > 0
    if page.name == "start.md":
        check_shown_output(page, printed)


@pytest.mark.slow
def test_the_python_of_the_readme_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same words, and nearly the same numbers: another processor rounds differently."""
    monkeypatch.chdir(tmp_path)
    code, shown = (b for b in blocks(ROOT / "README.md") if b.language in ("python slow", "text"))
    run_python(code, {"__name__": "__main__"})
    printed, expected = (text.partition("report:")[0] for text in (capsys.readouterr().out, shown.text))
    number = r"-?\d+(?:\.\d+)?"
    assert re.sub(number, "#", printed) == re.sub(number, "#", expected)
    numbers = (re.findall(rf"{number}(?: %)?", text) for text in (printed, expected))
    for now, then in zip(*numbers, strict=True):
        # A share of 100 episodes has an error of a few per cent.
        assert abs(float(now.strip(" %")) - float(then.strip(" %"))) <= (10 if "%" in then else 0.3), (now, then)


def run_shell_line(line: str, where: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Run it if it is a command of ours, and check it if it is not; whether it was run."""
    words = shlex.split(line, comments=True)
    if not words:
        return False
    program, *args = words
    if program == "make":
        assert set(args) <= make_targets(), where
        return False
    if program == "pip":
        assert args[0] == "install", where
        wanted = {extra for extras in re.findall(r"\[(.*?)\]", line.partition("#")[0]) for extra in extras.split(",")}
        assert wanted <= extras_of_the_package(), where
        return False
    assert program == "tacit", f"{where}: what is this?"
    expected = re.search(r"# exit status (\d+)", line)
    args = [word for arg in args for word in expand(arg)]
    status = main(args)
    errors = capsys.readouterr().err if status else ""
    assert status == (int(expected[1]) if expected else 0), f"{where}\nexit status {status}\n{errors}"
    return True


def expand(word: str) -> list[str]:
    """What a shell makes of a word, and RUN, which stands for a run that the reader has made."""
    if word == "RUN":
        return [str(max(Path("runs").glob("*/model/policy.safetensors"), key=lambda f: f.stat().st_mtime).parents[1])]
    return sorted(glob(word)) if "*" in word else [word]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def extras_of_the_package() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def check_shown_output(page: Path, printed: str) -> None:
    """The output that the page shows is what its `tacit demo` has printed, number by number."""
    known = {" ".join(line.split()) for line in printed.splitlines()}
    (shown,) = [block for block in blocks(page) if block.language == "text"]
    lines = [" ".join(line.split()) for line in shown.text.splitlines() if line.strip()]
    assert len(lines) > 5
    wrong = [line for line in lines if line not in known and not set(line) <= {"─"}]
    assert not wrong, f"{page.name} shows lines that `tacit demo` does not print: {wrong}"


# Examples ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_example(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^# needs: (.+)$", script.read_text(), re.MULTILINE):
        for module in line.split(", "):
            pytest.importorskip(module)
    monkeypatch.syspath_prepend(str(script.parent))  # as Python does
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().out
    assert said.strip(), "an example shows something"
    for file in re.findall(r"^(\S+\.png)$", said, re.MULTILINE):
        assert (tmp_path / file).read_bytes().startswith(b"\x89PNG")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


# Links ---------------------------------------------------------------------------------------------------------------


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


def leads_nowhere(target: str, page: Path) -> bool:
    path, _, anchor = target.partition("#")
    file = page if not path else (page.parent / path).resolve()
    return not file.exists() or bool(anchor and anchor not in anchors(file))


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES, *NOTES], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    folder = os.path.relpath(page.parent, ROOT / "docs")
    text = moved_pages.follow(without_code(page.read_text(encoding="utf-8")), folder)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    broken = [t for t in targets if not re.match(r"https?://|mailto:", t) and leads_nowhere(t, page)]
    assert not broken, f"{page.name}: {broken}"


def test_moved_pages_lead_somewhere() -> None:
    there = ROOT / "docs" / "index.md"
    new = {**moved_pages.PAGES, **moved_pages.SECTIONS}
    assert not [address for address in new.values() if leads_nowhere(address, there)]
    assert not [page for page in moved_pages.PAGES if (ROOT / "docs" / page).exists()]


def test_mentions_of_pages_in_the_code_lead_somewhere() -> None:
    """Comments, messages and settings write `docs/PAGE.md` or `results/NAME.md`."""
    broken = []
    for folder in ("src", "examples", "benchmarks"):
        files = [file for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".toml")]
        for file in files:
            mentions = re.findall(r"\b(?:docs|results)/[\w/-]+\.md(?:#[\w-]+)?", file.read_text(encoding="utf-8"))
            broken += [f"{file.name}: {mention}" for mention in mentions if leads_nowhere(mention, ROOT / "README.md")]
    assert not broken


def test_a_moved_link_is_followed_from_anywhere() -> None:
    assert moved_pages.follow("[x](gacl.md) [y](mce.md)") == "[x](algorithms.md#gacl) [y](mce.md)"
    assert moved_pages.follow("[x](docs/results.md#tuning)", "..") == "[x](results/tuning.md)"
    assert (
        moved_pages.follow("[x](../../docs/robots.md)", "../results/notes") == "[x](../../docs/environments.md#robots)"
    )
    assert moved_pages.follow_in_code("# see docs/sb3.md.") == "# see docs/interop.md#stable-baselines3."


def test_every_page_is_in_the_index() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= listed


# Pages ---------------------------------------------------------------------------------------------------------------


def test_there_are_few_pages_and_none_is_a_book() -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    assert len(pages) <= MOST_PAGES
    assert not [page.name for page in pages if page.stat().st_size > LARGEST_PAGE]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_are_easy_to_read(page: Path) -> None:
    measured = reading.reading(page.read_text(encoding="utf-8"))
    assert measured.grade <= 8.5, f"{measured.sentence:.0f} words a sentence: write shorter ones"


def test_the_film_of_the_readme_moves_and_is_small() -> None:
    file = ROOT / "docs" / "images" / "film.gif"
    assert file.stat().st_size < 2_000_000
    with Image.open(file) as film:
        assert getattr(film, "n_frames", 1) > 50
        assert max(film.size) <= 800


@pytest.mark.parametrize("page", shapes_table.PAGES, ids=name_of)
def test_the_table_of_shapes_has_the_committed_numbers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert shapes_table.block() in text, "run python tools/shapes_table.py"
    if page.name == "shapes.md":
        assert shapes_table.scores_block() in text, "run python tools/shapes_table.py"


def test_benchmarks_are_one_short_page() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1500
    assert len(re.findall(r"^\|---", text, re.MULTILINE)) == 3
    assert len(re.findall(r"!\[", text)) == 3


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commits_are_named_only_where_an_experiment_comes_from(page: Path) -> None:
    commit = r"(?<![\w-])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![\w-])"
    assert not re.findall(commit, page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pictures_have_a_text(page: Path) -> None:
    assert not re.findall(r"!\[\s*\]|<img(?![^>]*\balt=\"[^\"]+\")", page.read_text(encoding="utf-8"))


def test_the_matrix_has_every_algorithm() -> None:
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)
    assert {algorithm.name for algorithm in ALGORITHMS.values() if algorithm.learns} <= set(rows)


# Names ---------------------------------------------------------------------------------------------------------------


def test_the_reference_names_everything() -> None:
    text = (ROOT / "docs" / "exact-method.md").read_text(encoding="utf-8")
    parts = (Options, Solution, Certificate, Diagnosis)
    missing = [f"{part.__name__}.{f.name}" for part in parts for f in fields(part) if not names(text, f.name)]
    # What only repeats what was asked for.
    assert set(missing) <= {"Certificate.objective", "Certificate.beta"}


def names(text: str, word: str) -> bool:
    return re.search(rf"`[^`\n]*\b{word}\b[^`\n]*`", text) is not None


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_is_mentioned(verb: str) -> None:
    assert names((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), verb)


# The checks can fail -------------------------------------------------------------------------------------------------


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```python\nx = 1\n```\ntext\n```\nmap\n```\n\n```shell\ntacit demo\n```\n")
    found = blocks(page)
    assert [(b.line, b.language) for b in found] == [(4, "python"), (8, ""), (12, "shell")]
    namespace: dict[str, Any] = {}
    run_python(found[0], namespace)
    assert namespace["x"] == 1
    page.write_text("```python\nraise KeyError('here')\n")
    with pytest.raises(AssertionError, match="does not end"):
        blocks(page)


def test_a_wrong_command_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="exit status 2"):
        run_shell_line("tacit lern", "here", capsys)
    with pytest.raises(AssertionError):
        run_shell_line("make coffee", "here", capsys)
    with pytest.raises(AssertionError):
        run_shell_line("pip install '.[moonshine]'", "here", capsys)
    assert run_shell_line("tacit lern   # exit status 2", "here", capsys)
