"""Pages of the site that are made from the code and the results: experiments, gallery, notebook, API.

Each function returns {address in the site: Markdown}. Nothing of it is kept in the repository.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium

from make_gallery import VARIANTS
from make_gallery import short as short_name
from tacit.demos import shipped
from tacit.envs.capabilities import capabilities
from tacit.envs.families import EnvInfo, describe_envs
from tacit.metrics import percent
from tacit.reproduce import EXPERIMENTS
from tacit.reproduce.paper import NUMBERED
from tacit.reproduce.results import read

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
NOTES = RESULTS / "notes"

DEFAULT_OPTIONS = {"tacit/Nav-v0": {"shape": "disc"}, "tacit/Reactor-v0": {"rule": "product"}}
"""Of the cards without options."""

WIDE = "---\nhide: [toc]\n---\n\n"
"""For pages of wide tables or many cards, which need the room of the table of contents."""

# Experiments ---------------------------------------------------------------------------------------------------------


@cache
def results(name: str) -> Any:
    return read(RESULTS / f"{name}.json", curves=False)


def experiment_names() -> list[str]:
    return [path.stem for path in sorted(RESULTS.glob("*.json"))]


def summary(name: str) -> str:
    """What it is about: as the catalogue says, or the heading of its notes."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name].summary
    notes = NOTES / f"{name}.md"
    return notes.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") if notes.exists() else name


def title(name: str) -> str:
    words = summary(name)
    return words[:1].upper() + words[1:]


def experiment_pages() -> dict[str, str]:
    pages = {f"results/{name}.md": experiment_page(name) for name in experiment_names()}
    paper = (RESULTS / "paper.md").read_text(encoding="utf-8").replace("](../docs/", "](../")
    return {"results/index.md": experiment_index(), "results/paper.md": WIDE + paper, **pages}


def experiment_page(name: str) -> str:
    """Question and findings as written, then figure, tables and provenance as measured."""
    parts = [f"{WIDE}# {title(name)}", f"```text\n{measured_by(name)}\n```"]
    notes, tables = NOTES / f"{name}.md", RESULTS / f"{name}.md"
    if notes.exists():
        parts.append(seen_from_results(notes.read_text(encoding="utf-8").partition("\n")[2]))
    if (RESULTS / f"{name}.png").exists():
        parts.append(f"## Figure\n\n[![{title(name)}]({name}.png)]({name}.png)")
    if tables.exists():
        parts.append(f"## Tables\n\n{tables.read_text(encoding='utf-8')}")
    return "\n\n".join([*parts, provenance(name)]) + "\n"


def measured_by(name: str) -> str:
    """The command that measures it again."""
    return f"tacit reproduce {name}" if name in EXPERIMENTS else str(origins(name)[0]["command"])


def origins(name: str) -> list[dict[str, Any]]:
    """Command, commit, versions and machine; several where parts were measured one by one."""
    about = results(name)["provenance"]
    if isinstance(about, list):
        return about
    return [about] if "command" in about else [part for part in about.values() if "command" in part]


def seen_from_results(text: str) -> str:
    """Notes lie one folder deeper than the page that they become a part of."""
    return re.sub(r"\]\(\.\./(?!\.\.)", "](", text).replace("](../../docs/", "](../")


def provenance(name: str) -> str:
    """Which code measured it, where and when."""
    content = results(name)
    abouts = origins(name)
    runs = content.get("runs", [])
    rows = {
        "Command": "<br>".join(dict.fromkeys(f"`{about['command']}`" for about in abouts)),
        "Date": str(abouts[0].get("started"))[:10],
        "Processor": abouts[0].get("cpu"),
        "Commit": ", ".join(dict.fromkeys(short(str(about["commit"])) for about in abouts)),
        "Versions": ", ".join(f"{package} {version}" for package, version in abouts[0]["versions"].items()),
        "Numbers": f"[{name}.json]({name}.json)",
    }
    if runs:
        missing = f", {len(content['missing'])} missing" if content.get("missing") else ""
        rows["Runs"] = f"{len(runs)}{missing}; seeds {', '.join(map(str, sorted({run['seed'] for run in runs})))}"
        commits = Counter(str(run["commit"]) for run in runs if "commit" in run)
        rows["Runs by commit"] = ", ".join(f"{short(commit)}: {number}" for commit, number in commits.items())
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    return f"## Where the numbers come from\n\n| | |\n|---|---|\n{table}"


def short(commit: str) -> str:
    return f"`{commit[:7]}`" + (" with uncommitted changes" if "dirty" in commit else "")


def experiment_index() -> str:
    numbered = {name: number for number, name in NUMBERED.items()}
    rows = []
    for name in experiment_names():
        runs = results(name).get("runs")
        number = numbered.get(name, "").replace("-", " ")
        rows.append(f"| [{name}]({name}.md) | {summary(name)} | {number} | {len(runs) if runs else ''} |")
    return (
        f"{WIDE}# Experiments\n\nEvery number of these pages was measured by a command. Each experiment has a page with"
        " what was asked, what was found, every table, and which code measured it. [Run experiments](../experiments.md)"
        " says how to repeat one or to add your own. For a summary, see the [benchmarks](../benchmarks.md); for the"
        " paper's figures by number, [the paper, figure by figure](paper.md).\n\n"
        "| experiment | about | in the paper | runs |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


# Gallery -------------------------------------------------------------------------------------------------------------


def gallery() -> dict[str, str]:
    everything = [(info, options) for info in describe_envs() for options in ({}, *VARIANTS.get(info.id, []))]
    cards = "\n".join(card(info, options) for info, options in everything)
    text = (
        f"{WIDE}# Gallery\n\nOne card per environment: what is hidden, how to learn it, and what was learned. The"
        " pictures show forbidden ground in red; learners never see it. [Environments](environments.md) has the"
        f' details.\n\n<div class="cards">\n{cards}\n</div>\n'
    )
    return {"gallery.md": text}


def card(info: EnvInfo, options: dict[str, str]) -> str:
    name = short_name(info.id, options)
    file = f"images/gallery/{name}.png"
    picture = f'<a href="{file}"><img src="{file}" alt="{name}: one step of an episode" loading="lazy"></a>'
    learned = learned_rule(info.id) or learned_policy(info.id, options) or learned_exactly(info.id)
    learned = learned or learned_elsewhere(info.id) or "No experiment of ours has measured it yet."
    spaces = html.escape(f"Observation {info.observation}. Action {info.action}. {info.horizon} steps.")
    return (
        f'<div class="card">{picture}<div><h3 id="{name.lower()}">{name.replace("-", ", ")}</h3>'
        f"<p><strong>Hidden rule.</strong> {html.escape(hidden_rule(info, options))}</p>"
        f"<p><strong>Learned.</strong> {learned}</p><p>{spaces}</p>"
        f"<pre><code>{html.escape(command(info, options))}</code></pre></div></div>"
    )


def hidden_rule(info: EnvInfo, options: dict[str, str]) -> str:
    """What the environment says about itself; with options, its rule."""
    if not options:
        return info.constraint
    return f"never {capabilities(gymnasium.make(info.id, **options)).rule}"


def command(info: EnvInfo, options: dict[str, str]) -> str:
    """What to type to see something learned here."""
    if info.id == "tacit/Gridworld-v0":
        return "tacit demo"
    words = "".join(f" --env {key}={value}" for key, value in options.items())
    # An environment without demonstrations is there for costs that were learned elsewhere.
    return f"tacit learn mce {info.id}{words}" if shipped(info.id) else f"tacit transfer RUN --to {info.id}"


def learned_rule(env_id: str) -> str:
    """The boundary that MCE-ICRL draws on the hidden rule's feature, as committed results have it."""
    for name in ("table-robots", "traffic"):
        runs = [run for run in results(name)["runs"] if run["env"] == env_id and run["algo"] == "mce"]
        runs = [run for run in runs if "paper" not in run["label"] and run.get("threshold")]
        boundaries = [run["threshold"]["found"] for run in runs if run["threshold"]["found"]]
        if runs:
            page = f'<a href="results/{name}.html">experiment</a>'
            if not boundaries:
                return f"No seed draws a boundary on the hidden feature ({page})."
            first = html.escape(boundaries[0])
            return f"<code>{first}</code>; {len(boundaries)} of {len(runs)} seeds draw a boundary there ({page})."
    return ""


def learned_policy(env_id: str, options: dict[str, str]) -> str:
    """Violating episodes of the policy that MCE-ICRL learns where the rule is a region or a relation."""
    group = ", ".join([short_name(env_id), *(options or DEFAULT_OPTIONS.get(env_id, {})).values()])
    by_method = {}
    for method in ("mce", "ppo"):
        rows = [run["stochastic"] for run in results("shapes")["runs"] if run["label"] == f"{group}: {method}"]
        if not rows:
            return ""
        by_method[method] = f"{sum(row['count'] for row in rows):.0f} of {sum(row['n'] for row in rows):.0f}"
    return (
        f"The policy breaks the rule in {by_method['mce']} episodes, an agent without constraint in"
        f' {by_method["ppo"]} (<a href="shapes.html">pictures</a>, <a href="results/shapes.html">experiment</a>).'
    )


def learned_exactly(env_id: str) -> str:
    """Violating episodes of the exact method's policy on the gridworld of `tacit demo`, beside the expert's."""
    if env_id != "tacit/Gridworld-v0":
        return ""
    content = results("exact-stochasticity")
    agents = {"learned": content["methods"]["likelihood"], **{who: content[who] for who in ("expert", "unconstrained")}}
    violating = {}
    for who, rows in agents.items():
        rates = [row["violation_rate_episode"] for row in rows if row["slip"] == 0.1]
        violating[who] = percent(sum(rates) / len(rates))
    return (
        f"On a floor with slip 0.1 the policy breaks the rule in {violating['learned']} of episodes, the expert in"
        f" {violating['expert']}, an agent without constraint in {violating['unconstrained']}"
        ' (<a href="results/exact-stochasticity.html">experiment</a>).'
    )


def learned_elsewhere(env_id: str) -> str:
    """Violating episodes of agents that are charged a cost which MCE-ICRL has learned on the Ant."""
    by_cost = {}
    for cost, word in (("mce, x alone", "a cost of x"), ("mce", "a cost of x and y"), ("ppo", "no cost")):
        runs = [run for run in results("transfer")["runs"] if run["label"] == f"{short_name(env_id)}: {cost}"]
        rows = [run["stochastic"] for run in runs]
        if rows:
            by_cost[word] = f"{sum(row['count'] for row in rows):.0f} of {sum(row['n'] for row in rows):.0f}"
    if not by_cost:
        return ""
    counts = ", ".join(f"{count} with {word}" for word, count in by_cost.items())
    return (
        "A fresh agent is charged a cost that was learned on the Ant. Episodes that break the rule: "
        f'{counts} (<a href="results/transfer.html">experiment</a>).'
    )


# Notebook ------------------------------------------------------------------------------------------------------------


def tour() -> tuple[dict[str, str], dict[str, bytes]]:
    """examples/tour.ipynb as a page, and its pictures."""
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace("](../docs/", "]("))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if text := "".join(output.get("text", "")):
                parts.append(f"```text\n{text.rstrip()}\n```")
            if picture := output.get("data", {}).get("image/png"):
                address = f"images/tour-{len(pictures) + 1}.png"
                pictures[address] = base64.b64decode(picture)
                parts.append(f"![What the cell above draws]({address})")
    said = "*This page is the notebook `examples/tour.ipynb`, with the output of a run.*"
    return {"tour.md": "\n\n".join([parts[0], said, *parts[1:]]) + "\n"}, pictures


# API -----------------------------------------------------------------------------------------------------------------

LESS_FOUND = "---\nsearch:\n  boost: 0.5\n---\n\n"
"""A search should find the page that explains a thing before the list of its attributes."""

API = {
    "tacit": ("The first names", ["tacit.learned", "tacit.errors"]),
    "exact": (
        "The exact method",
        [
            "tacit.tabular",
            "tacit.forward.soft_policy_iteration",
            "tacit.inverse.certificate",
            "tacit.inverse.feasibility",
            "tacit.inverse.identifiability",
        ],
    ),
    "inverse": (
        "Inverse methods",
        [
            "tacit.inverse.loop",
            "tacit.inverse.mce",
            "tacit.inverse.gacl",
            "tacit.inverse.me_icrl",
            "tacit.inverse.vicrl",
            "tacit.inverse.bc2l",
            "tacit.inverse.irl_correction",
            "tacit.inverse.bc",
            "tacit.inverse.ml_greedy",
        ],
    ),
    "forward": (
        "Forward methods",
        ["tacit.forward.ppo", "tacit.forward.ppo_lagrangian", "tacit.forward.rcpo", "tacit.forward.collect"],
    ),
    "cost": ("Costs and policies", ["tacit.cost", "tacit.cost.calibration", "tacit.cost.ensemble", "tacit.policy"]),
    "envs": (
        "Environments",
        [
            "tacit.envs.capabilities",
            "tacit.envs.registry",
            "tacit.envs.wrappers",
            "tacit.envs.families",
            "tacit.envs.gridworld",
        ],
    ),
    "demos": ("Demonstrations", ["tacit.demos", "tacit.demos.replay", "tacit.imports"]),
    "runs": (
        "Runs, evaluation, statistics",
        ["tacit.run", "tacit.launch", "tacit.sweep", "tacit.evaluate", "tacit.stats", "tacit.explain"],
    ),
    "interop": (
        "Other people's tools",
        ["tacit.interop.onnx", "tacit.interop.torch", "tacit.interop.sb3", "tacit.interop.minari", "tacit.run.sinks"],
    ),
}


def api_pages() -> dict[str, str]:
    pages = {}
    for name, (heading, modules) in API.items():
        blocks = "\n\n".join(f"## `{module}`\n\n::: {module}" for module in modules)
        pages[f"api/{name}.md"] = f"{LESS_FOUND}# {heading} (API)\n\n{blocks}\n"
    rows = "\n".join(
        f"| [{heading}]({name}.md) | {', '.join(f'`{module}`' for module in modules)} |"
        for name, (heading, modules) in API.items()
    )
    text = (
        "# Python API\n\nMade from the docstrings of the code. [Commands and names](../reference.md) says which names"
        f" stay from version to version.\n\n| page | modules |\n|---|---|\n{rows}\n"
    )
    return {"api/index.md": text, **pages}
