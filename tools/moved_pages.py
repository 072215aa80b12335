"""Where pages of the documentation went: old address -> new address, as seen from docs/.

The site's build follows the table for links and leaves a signpost at each old page. `python tools/moved_pages.py FILE
...` rewrites old addresses in files: links of pages, and `docs/PAGE.md` in code and messages.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

PAGES = {
    "architecture.md": "development.md",
    "bc.md": "algorithms.md#behaviour-cloning",
    "bc2l.md": "algorithms.md#bc2l",
    "demonstrations.md": "files.md#demonstrations",
    "errata.md": "claims.md#errata",
    "export.md": "interop.md#onnx-and-torch",
    "faq.md": "unknowable.md#questions",
    "gacl.md": "algorithms.md#gacl",
    "gridworld.md": "environments.md#gridworld",
    "irl-correction.md": "algorithms.md#reward-correction",
    "me-icrl.md": "algorithms.md#me-icrl",
    "ml-greedy.md": "algorithms.md#greedy-maximum-likelihood",
    "metrics.md": "reference.md#metrics",
    "own-algorithm.md": "own-environment.md#write-an-algorithm",
    "paper.md": "experiments.md#the-paper-figure-by-figure",
    "ppo.md": "algorithms.md#ppo-and-ppo-lagrangian",
    "reading-the-report.md": "constraint.md#read-the-report",
    "references.md": "algorithms.md#ppo-and-rcpo",
    "releasing.md": "development.md#make-a-release",
    "reproduce.md": "experiments.md",
    "results.md": "benchmarks.md",
    "robots.md": "environments.md#robots",
    "run-folder.md": "files.md#run-folders",
    "sb3.md": "interop.md#stable-baselines3",
    "sweeps.md": "experiments.md#run-a-sweep",
    "tasks.md": "environments.md#hidden-regions-and-relations",
    "traffic.md": "environments.md#highway-traffic",
    "transfer.md": "interop.md#use-it-with-another-agent-or-environment",
    "vicrl.md": "algorithms.md#vicrl",
}

SECTIONS = {
    "concepts.md#what-cannot-be-known": "unknowable.md",
    "concepts.md#why-budget-0-often-has-no-solution": "unknowable.md#why-budget-0-often-has-no-solution",
    "concepts.md#what-the-likelihood-does": "exact-method.md#what-the-likelihood-does",
    "decisions.md#measuring": "exact-method.md#measuring",
    "decisions.md#the-method": "exact-method.md#decisions",
    "decisions.md#the-likelihood-is-the-default-objective": "exact-method.md#the-likelihood-is-the-default-objective",
    "decisions.md#l1--1e-4": "exact-method.md#l1--1e-4",
    "decisions.md#the-gridworld": "exact-method.md#the-layout-paper-is-ours",
    "decisions.md#files-and-software": "development.md#files-and-software",
    "decisions.md#data-of-others": "development.md#data-of-others",
    "demonstrations.md#minari": "bring-your-logs.md#minari-d4rl-and-other-hdf5-files",
    "errata.md#8-length-bias": "claims.md#8-length-bias",
    "gridworld.md#maps": "environments.md#maps",
    "gridworld.md#experts": "environments.md#gridworld-experts",
    "metrics.md#how-good-a-cost-is": "reference.md#how-good-a-cost-is",
    "metrics.md#intervals": "reference.md#intervals",
    "metrics.md#on-which-states": "reference.md#on-which-states",
    "metrics.md#the-same-without-sampling": "reference.md#the-same-without-sampling",
    "me-icrl.md#results": "algorithms.md#me-icrl",
    "ppo.md#constraints": "algorithms.md#ppo-with-a-constraint",
    "ppo.md#metrics": "algorithms.md#metrics-of-ppo",
    "references.md#results": "algorithms.md#ppo-and-rcpo",
    "reproduce.md#an-experiment-of-your-own": "experiments.md#an-experiment-of-your-own",
    "reproduce.md#decisions": "experiments.md#what-is-the-same-for-all",
    "results.md#a-fault-and-what-was-measured-again": "development.md#history",
    "results.md#demonstrations-that-violate": "../results/demos-violating.md",
    "results.md#entropy-weights-and-pre-training-on-the-highway": "../results/traffic-beta.md",
    "results.md#every-method-on-the-robots": "../results/notes/bench-methods.md",
    "results.md#few-demonstrations": "../results/demos-few.md",
    "results.md#five-robots-four-methods": "../results/robots.md",
    "results.md#highway-driving-simulated-traffic": "../results/traffic.md",
    "results.md#later-contenders-and-references": "../results/grid-contenders.md",
    "results.md#later-contenders-on-the-robots": "../results/robots-contenders.md",
    "results.md#one-demonstration-to-fifty": "../results/demos-count.md",
    "results.md#pre-training-and-entropy-weight-in-the-gridworld": "../results/grid-beta.md",
    "results.md#process-noise": "../results/robots-noise.md",
    "results.md#speed": "../results/notes/bench-exact.md",
    "results.md#the-decisions-one-by-one": "../results/decisions.md",
    "results.md#the-deep-method-on-five-robots": "../results/table-robots.md",
    "results.md#the-deep-method-on-the-gridworld": "../results/grid-ppo.md",
    "results.md#the-exact-method-as-the-world-gets-slippery": "../results/exact-stochasticity.md",
    "results.md#the-gridworld-four-methods": "../results/grid-stochasticity.md",
    "results.md#the-papers-ablations": "../results/table-ablation.md",
    "results.md#the-papers-own-settings": "../results/table-robots-paper.md",
    "results.md#the-re-training-test": "../results/retraining.md",
    "results.md#transfer-the-ants-cost-other-agents": "../results/transfer.md",
    "results.md#tuning": "../results/tuning.md",
    "results.md#tuning-in-the-gridworld": "../results/grid-tuning.md",
    "robots.md#experts-and-demonstrations": "environments.md#robot-experts",
    "robots.md#mujoco-3-and-4": "environments.md#mujoco-3-and-4",
    "robots.md#n-copies-at-once": "environments.md#n-copies-at-once",
    "run-folder.md#promises": "files.md#promises",
    "sb3.md#its-agents-demonstrate": "interop.md#its-agents-demonstrate",
    "sb3.md#our-policies-become-its-models": "interop.md#our-policies-become-its-models",
    "transfer.md#1-re-train-a-fresh-agent": "interop.md#re-train-a-fresh-agent",
    "transfer.md#2-choose-what-is-charged": "interop.md#choose-how-the-cost-is-used",
    "transfer.md#3-transfer-to-another-environment": "interop.md#transfer-to-another-environment",
}


def moved(address: str) -> str:
    """The present address of `page.md` or `page.md#section`, as seen from docs/; unchanged if it has not moved."""
    return SECTIONS.get(address) or PAGES.get(address.partition("#")[0], address)


def follow(text: str, folder: str = ".") -> str:
    """A page's text with the links that lead to moved pages put right; `folder` is the page's, as seen from docs/."""

    def replace(link: re.Match[str]) -> str:
        path, hash_sign, section = link[1].partition("#")
        # As seen from docs/, whether the page is in it, beside it (README.md) or below it.
        address = posixpath.relpath(posixpath.join("docs", folder, path), "docs")
        new = moved(address + hash_sign + section)
        if new == address + hash_sign + section:
            return link[0]
        target, hash_sign, section = new.partition("#")
        here = posixpath.relpath(posixpath.join("docs", target), posixpath.join("docs", folder))
        return f"]({here}{hash_sign}{section})"

    return re.sub(r"\]\(([\w./-]+\.md(?:#[\w-]+)?)\)", replace, text)


def follow_in_code(text: str) -> str:
    """Code, comments and messages, which write `docs/PAGE.md`."""

    def replace(mention: re.Match[str]) -> str:
        new = moved(mention[1])
        return mention[0] if new == mention[1] else posixpath.normpath(f"docs/{new}")

    return re.sub(r"\bdocs/([\w-]+\.md(?:#[\w-]+)?)", replace, text)


def main(files: list[str]) -> None:
    for name in files:
        path = Path(name).resolve()
        text = path.read_text(encoding="utf-8")
        folder = posixpath.relpath(path.parent.as_posix(), (ROOT / "docs").as_posix())
        new = follow(text, folder) if path.suffix == ".md" else follow_in_code(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
