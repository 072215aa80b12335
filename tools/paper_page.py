"""The page results/paper.md, the paper figure by figure: `python tools/paper_page.py` writes it.

What theirs says is in `tacit.reproduce.paper`. Costs and numbers of runs come from the results.
"""

from __future__ import annotations

from pathlib import Path

from tacit.reproduce import EXPERIMENTS, Measured
from tacit.reproduce.paper import PAPER, Numbered
from tacit.reproduce.results import read

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGE = RESULTS / "paper.md"
HEAD = """# The paper, figure by figure

Every figure and table of the paper has a command here, under the number that it has in the paper. *Theirs* is what the
paper reads from it. *Core-minutes* are what our runs took, on one core each. *Open* says what keeps ours from being the
same measurement. [Against the paper](../docs/claims.md) says what follows. `python tools/paper_page.py` writes this
page.
"""


def page() -> str:
    """The whole page: a table of contents, and a section per figure and table."""
    rows = ["| in the paper | what it shows | command | ours | core-minutes |", "|---|---|---|---|---|"]
    for number, entry in PAPER.items():
        name = in_words(number)
        command = f"`tacit reproduce {number}`"
        cells = [f"[{name}](#{number})", entry.shows, command, state(entry.experiment), cost(entry.experiment)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([HEAD, *rows, "", *(section(number, entry) for number, entry in PAPER.items())])


def section(number: str, entry: Numbered) -> str:
    """What theirs says, the command, its cost, and our picture or table."""
    name = in_words(number)
    lines = [
        f"## {name.capitalize()}",
        "",
        f"*Shows:* {entry.shows}.",
        "",
        f"*Theirs:* {entry.theirs}",
        "",
        f"    tacit reproduce {number}",
        "",
        f"*Ours:* `{entry.experiment}`, {state(entry.experiment)}. *Core-minutes:* {cost(entry.experiment)}.",
    ]
    if entry.open:
        lines[-1] += f" *Open:* {entry.open}"
    if entry.instead:
        others = ", ".join(link(other) for other in entry.instead)
        lines += ["", f"*The same question with other settings:* {others}."]
    shown = next((other for other in (entry.experiment, *entry.instead) if there(other)), None)
    if shown is not None:
        what = f"Our {name}" if shown == entry.experiment else f"In place of {name}, the experiment {shown}"
        lines += ["", f"[![{what}: {entry.shows}]({shown}.png)]({shown}.png)", "", f"[All numbers]({shown}.md)"]
    return "\n".join([*lines, ""])


def in_words(number: str) -> str:
    return number.replace("-", " ")


def there(experiment: str) -> bool:
    return (RESULTS / f"{experiment}.png").exists() and (RESULTS / f"{experiment}.md").exists()


def link(experiment: str) -> str:
    return f"[`{experiment}`]({experiment}.md)" if there(experiment) else f"`{experiment}` (not run)"


def state(experiment: str) -> str:
    """How much of the experiment is done."""
    if not there(experiment):
        return "not run"
    results = read(RESULTS / f"{experiment}.json", curves=False)
    if "runs" not in results:
        return "complete"
    done, missing = len(results["runs"]), len(results.get("missing") or [])
    return f"{done} of {done + missing} runs" if missing else f"complete, {done} runs"


def cost(experiment: str) -> str:
    """Core-minutes of the runs that are done; runs that were interrupted count as the mean of the others."""
    if not there(experiment):
        return "not measured"
    entry, results = EXPERIMENTS[experiment], read(RESULTS / f"{experiment}.json", curves=False)
    if isinstance(entry, Measured):
        minutes = entry.seconds(results) * results.get("sets", 1) / 60
        return "less than 1" if minutes < 1 else f"{minutes:.0f}"
    seconds = [run["seconds"] for run in results["runs"] if run.get("seconds")]
    minutes = sum(seconds) / len(seconds) * len(results["runs"]) / 60
    return f"{minutes:.0f} so far" if results.get("missing") else f"{minutes:.0f}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
