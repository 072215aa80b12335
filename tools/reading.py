"""Reading grade and length of the pages: `python tools/reading.py [FOLDER] [--update]`, one row per page.

The grade is Flesch and Kincaid's: years of school. It counts sentences and syllables of running text, so code, tables,
formulas and headings are left out. Syllables are estimated from groups of vowels, which is right to a few per cent.
`--update` renews the table of docs/development.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Reading(NamedTuple):
    words: int
    """of running text"""
    sentence: float
    """words per sentence"""
    grade: float


def prose(text: str) -> str:
    """Running text: no front matter, code, formulas, tables, headings, pictures or addresses."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(#|\||\[?!\[|    ).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$|</?[a-zA-Z][^<>]*>", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    # A name or a formula is one word, whatever is in it.
    return re.sub(r"`[^`\n]*`|\$[^$\n]+\$", "name", text)


def syllables(word: str) -> int:
    word = re.sub(r"(?<=[^aeiouy])e$|es$|ed$", "", word.lower())
    return max(1, len(re.findall(r"[aeiouy]+", word)))


def reading(text: str) -> Reading:
    text = prose(text)
    # A paragraph or an item of a list ends a sentence, too.
    parts = re.split(r"[.!?]+(?=\s|$)|\n\s*\n|\n\s*(?:[*-]|\d+\.) ", text)
    sentences = [words for part in parts if (words := re.findall(r"[A-Za-z][A-Za-z'-]*", part))]
    words = [word for sentence in sentences for word in sentence]
    if not words:
        return Reading(0, 0.0, 0.0)
    length = len(words) / len(sentences)
    grade = 0.39 * length + 11.8 * sum(map(syllables, words)) / len(words) - 15.59
    return Reading(len(words), length, grade)


def updated(text: str, folder: Path) -> str:
    """The table of docs/development.md with the words and the grade that the pages of the folder have now."""
    pages = {page.name: reading(page.read_text(encoding="utf-8")) for page in folder.glob("*.md")}
    for name, now in pages.items():
        row = rf"^(\| `{re.escape(name)}` \|[^|\n]*\|[^|\n]*\|).*$"
        text = re.sub(row, rf"\g<1> {now.words:,} | {now.grade:.1f} |", text, flags=re.MULTILINE)
    words = sum(now.words for now in pages.values())
    grade = sum(now.words * now.grade for now in pages.values()) / max(words, 1)
    row = r"^(\| \*\*all: \d+ pages, then )\d+(\*\* \|[^|\n]*\|[^|\n]*\|).*$"
    return re.sub(row, rf"\g<1>{len(pages)}\g<2> **{words:,}** | **{grade:.1f}** |", text, flags=re.MULTILINE)


def main(folder: Path) -> None:
    print("| page | words of text | words a sentence | grade |\n|---|---|---|---|")
    for page in sorted(folder.glob("*.md")):
        words, sentence, grade = reading(page.read_text(encoding="utf-8"))
        print(f"| {page.name} | {words} | {sentence:.0f} | {grade:.1f} |")


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if word != "--update"]
    chosen = Path(arguments[0]) if arguments else ROOT / "docs"
    main(chosen)
    if "--update" in sys.argv:
        page = ROOT / "docs" / "development.md"
        page.write_text(updated(page.read_text(encoding="utf-8"), chosen), encoding="utf-8")
