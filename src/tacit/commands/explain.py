"""Explain what a run has learned: the cost as a short rule over named features, and what the data leave open.

  tacit explain RUN [--of map|cost] [--ensemble N]

The rule comes with the share of the rejected states that it covers (recall), its precision, and the share of the
demonstrations that it forbids. Where the environment states the true constraint, precision and recall are measured
against it as well. For each bound you see how far the demonstrations go and where else the boundary could be. Up to
three pictures (explanation.svg and .png, explanation-2, explanation-3) and explanation.json are written into the run
folder. The report shows them too.

--ensemble N fits N costs to resampled demonstrations (a few seconds each) and keeps them in the run folder. Boundaries
then have intervals, and states about which the costs disagree are counted.

Examples:
  tacit explain mce-halfcheetah-s0-bbc00592
  tacit explain mce-halfcheetah-s0-bbc00592 --ensemble 10
  tacit explain mce-exact-gridworld-s0-996e6166 --json
"""

from __future__ import annotations

import itertools
from typing import Annotated, Literal, cast

import tyro

from tacit import explain as explaining
from tacit.commands import RunPath, open_run, print_json, require_finished
from tacit.explain.alarms import alarms
from tacit.run.find import other_seeds
from tacit.run.summary import Summary

Of = Annotated[Literal["map", "cost"] | None, tyro.conf.arg(metavar="{map,cost}")]


def explain(run: RunPath, /, *, of: Of = None, ensemble: int = 0, seed: int = 0, json: bool = False) -> None:
    """Explain a run.

    Args:
        of: Explain the constraint map, or the cost that drove the policy. Default: the map if there is one.
        ensemble: Number of costs to fit to resampled demonstrations first.
        seed: Random seed of the resampling.
        json: Print the explanation as JSON.
    """
    opened = open_run(run)
    require_finished(opened)
    if ensemble:
        from tacit.inverse.ensemble import fit_ensemble  # needs JAX

        fitted = fit_ensemble(opened, ensemble, seed)
        with opened:
            opened.save_model("ensemble", *fitted.to_arrays())
    explanation = explaining.explain(opened, of)
    with opened:
        paths = explaining.save_explanation(opened, explanation)
    if json:
        return print_json({"run": opened.path, **explanation, "files": paths})
    print("\n".join(explaining.in_words(explanation)))
    for one in alarms(cast(Summary, opened.read("summary.json")), opened.metrics(), other_seeds(opened)):
        print(f"\n{one.level}: {one}")
    pictures = [path for path in paths if path.suffix == ".png"]
    entries = explanation["pictures"] if explanation["kind"] == "features" else []
    for path, entry in itertools.zip_longest(pictures, entries):
        print(f"\n{path}" if entry is None else f"\n{path}\n  {entry['title']}. {entry['caption']}")
