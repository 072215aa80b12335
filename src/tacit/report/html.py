"""Small pieces of HTML for the report: numbers with definitions, tables, figures that follow the page's colours."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit import plots
from tacit.metrics import Metric, decimal, figures, lookup
from tacit.plots import grids
from tacit.run.summary import Record, is_number, value_of

_THEME = {
    plots.INK: "currentColor",
    plots.SOFT: "var(--faint)",
    grids.WALL: "var(--wall)",
    **{colour: f"var(--c{i})" for i, colour in enumerate(plots.COLOURS)},
    **{colour: f"var(--{name})" for name, colour in grids.RAMPS.items()},
}


@dataclass(frozen=True)
class Section:
    """One block of the report."""

    title: str
    body: str
    css: str = ""

    def html(self, anchor: str) -> str:
        label = f"{anchor}-{re.sub(r'[^a-z0-9]+', '-', self.title.lower()).strip('-')}"
        return (
            f'<section class="{self.css}" aria-labelledby="{label}">\n<h2 id="{label}">{esc(self.title)}</h2>\n'
            f"{self.body}\n</section>"
        )


def esc(text: object) -> str:
    return html.escape(str(text), quote=True)


def coded(text: object, plain: Callable[[str], str] = esc) -> str:
    """Text with `backticks` turned into code; everything else goes through `plain`, which escapes it."""
    parts = re.split(r"`([^`]+)`", str(text))
    return "".join(f"<code>{esc(part)}</code>" if i % 2 else plain(part) for i, part in enumerate(parts))


def emphasised(text: str) -> str:
    """Plain text with `code`, in which **words** are bold; see `_typeset`."""
    return coded(text, _typeset)


def _typeset(text: str) -> str:
    """Text with **words** in bold. Numbers get a real minus sign, and stay on one line with their relation and %."""
    text = re.sub(r"(?<![\w.])-(?=\d)", "−", text)
    text = re.sub(r"(?<=[<>=]) (?=[−\d])| (?=(?:%|[<>]))", "\N{NO-BREAK SPACE}", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", esc(text))


def define(label: str, definition: str) -> str:
    """A term that shows its definition on hover, tap and keyboard focus."""
    if not definition:
        return esc(label)
    return f'<abbr tabindex="0" data-tip="{esc(definition)}" aria-description="{esc(definition)}">{esc(label)}</abbr>'


def glossary(metrics: Iterable[Metric]) -> str:
    """All definitions in one list, for printed pages."""
    entries = sorted({(m.label, m.definition) for m in metrics if m.definition}, key=lambda entry: entry[0].lower())
    return '<dl class="glossary">' + "".join(f"<dt>{esc(a)}</dt><dd>{esc(b)}</dd>" for a, b in entries) + "</dl>"


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


def number(value: float, unit: str = "") -> str:
    """`tacit.metrics.figures` as HTML, with a real minus sign and powers of ten written out."""
    plain = figures(value, unit)
    if not unit and "e" in plain:
        mantissa, exponent = f"{value:.1e}".split("e")
        power = str(int(exponent)).replace("-", "−")
        return f'<span class="num">{decimal(float(mantissa), 2)} × 10<sup>{power}</sup></span>'.replace("-", "−")
    return plain.replace("-", "−").replace(" %", "\N{NO-BREAK SPACE}%")


def measured(key: str, entry: object) -> str:
    """An entry of a table, with its interval below if it has one."""
    unit, value = lookup(key).unit, value_of(entry)
    if value is None:
        return '<span class="missing">–</span>'
    text = number(value, unit)
    if isinstance(entry, Mapping):
        if _at_most(entry):
            upper = entry["upper"]
            n = f" in {entry['n']} episodes" if is_number(entry.get("n")) else ""
            return f'{text}<span class="interval">none{n}: at most {number(upper, unit)}</span>'
        low, high = entry.get("low"), entry.get("high")
        if is_number(low) and is_number(high) and math.isfinite(high - low):
            return f'{text}<span class="interval">{number(low, unit)} to {number(high, unit)}</span>'
    return text


def _at_most(entry: object) -> bool:
    """Whether the entry is a count of 0, for which only an upper bound is shown."""
    return isinstance(entry, Mapping) and entry.get("count") == 0 and is_number(entry.get("upper"))


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def table(caption: str, head: Sequence[str], rows: Iterable[tuple[Sequence[str], str]], css: str = "") -> str:
    """A table. Cells are HTML; rows: (cells, class of the row)."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr class="{row_css}"><th scope="row">{cells[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in cells[1:])
        + "</tr>\n"
        for cells, row_css in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(caption)}"><table class="{css}">'
        f"<caption>{esc(caption)}</caption><thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )


SIDES = (
    "Ranges are two-sided 95 % intervals; “at most” is the one-sided 95 % bound for a count of 0, so it is slightly "
    "lower than the upper end of such a range."
)


def metric_table(caption: str, rows: Mapping[str, Record], keys: Sequence[str], main: str = "") -> str:
    """A table with one row per agent, and one column per metric that any of them has."""
    present = [key for key in keys if any(value_of(row.get(key)) is not None for row in rows.values())]
    head = ["", *(define(lookup(key).label, lookup(key).definition) for key in present)]

    def cell(key: str, row: Record) -> str:
        return f'<span title="{esc(lookup(key).definition)}">{measured(key, row.get(key))}</span>'

    body = [
        ([esc(name), *(cell(key, row) for key in present)], "main" if name == main else "")
        for name, row in rows.items()
    ]
    sides = any(_at_most(row.get(key)) for key in present for row in rows.values())
    return table(caption, head, body) + (f'<p class="missing">{SIDES}</p>' if sides else "")


def facts(entries: Iterable[tuple[str, str]]) -> str:
    """A list of names and values; values are HTML."""
    return '<dl class="facts">' + "".join(f"<dt>{esc(k)}</dt><dd>{v}</dd>" for k, v in entries) + "</dl>"


def details(summary: str, body: str) -> str:
    return f"<details><summary>{esc(summary)}</summary>{body}</details>"


# ---------------------------------------------------------------------------------------------------------------------
# Figures


def figure(svg: bytes, name: str, title: str, caption: str, more: str = "") -> str:
    """An SVG of `tacit.plots` inside the page, in the page's own colours. `caption` and `more` are HTML."""
    label = f"{title}. {re.sub('<[^>]+>', '', caption)}"
    # Nothing may run on the page, so a box that is ticked shows the figure in the whole window.
    enlarge = f'<input type="checkbox" class="enlarge" aria-label="Enlarge: {esc(title)}" title="Enlarge">'
    words = f"<figcaption><b>{esc(title)}</b>{caption}</figcaption>"
    return f"<figure>{enlarge}{inline_svg(svg, name, label)}{words}{more}</figure>"


def inline_svg(svg: bytes, name: str, label: str) -> str:
    """An SVG as part of a page; `name` keeps the ids of different figures apart."""
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    view = re.search(r'viewBox="([^"]+)"', text)
    assert view is not None
    head = f'<svg viewBox="{view[1]}" role="img" aria-label="{esc(html.unescape(label))}">'
    text = head + text[text.index(">") + 1 :]
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', text)
    text = text.replace("xlink:href=", "href=")
    for colour, variable in _THEME.items():
        text = re.sub(re.escape(colour), variable, text, flags=re.IGNORECASE)
    return re.sub(r"\n\s*", "\n", text).strip()


def cell_numbers(row: np.ndarray, col: np.ndarray, values: np.ndarray) -> str:
    """The numbers behind a map, as a table in the shape of the map."""
    grid: list[list[str]] = [[""] * (int(col.max()) + 1) for _ in range(int(row.max()) + 1)]
    for r, c, v in zip(row, col, values, strict=True):
        grid[int(r)][int(c)] = f"{v:.3g}".replace("-", "−")
    head = "<tr><td></td>" + "".join(f'<th scope="col">{c}</th>' for c in range(len(grid[0]))) + "</tr>"
    body = "".join(
        f'<tr><th scope="row">{r}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        for r, cells in enumerate(grid)
    )
    return details("numbers", f'<div class="scroll" tabindex="0"><table class="cells">{head}{body}</table></div>')
