"""Reading grade and length of the pages: `python tools/reading.py [FOLDER]`, one row per page.

The grade is Flesch and Kincaid's: years of school. It counts sentences and syllables of running text, so code, tables,
formulas and headings are left out. Syllables are estimated from groups of vowels, which is right to a few per cent.
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
    text = re.sub(r"^(#|\||!\[|    ).*$", "", text, flags=re.MULTILINE)
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


def main(folder: Path) -> None:
    print("| page | words of text | words a sentence | grade |\n|---|---|---|---|")
    for page in sorted(folder.glob("*.md")):
        words, sentence, grade = reading(page.read_text(encoding="utf-8"))
        print(f"| {page.name} | {words} | {sentence:.0f} | {grade:.1f} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
