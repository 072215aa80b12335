"""Say in words what a run has learned: the cost as a short rule over named features, and what cannot be known.

  tacit explain RUN [--of map|cost] [--ensemble N]

The rule comes with its fidelity to the cost, and where the environment knows the truth with precision and recall, which
nothing was fitted to. For each bound it says how far the demonstrations go and where the boundary might as well be. The
picture, explanation.svg and .png, and explanation.json are written into the run folder; the report shows them too.

--ensemble N fits N costs to resampled demonstrations, once (some seconds each), and keeps them in the run folder: from
then on boundaries have intervals, and states about which the costs disagree are counted.

Examples:
  tacit explain mce-halfcheetah-s0-bbc00592
  tacit explain mce-halfcheetah-s0-bbc00592 --ensemble 10
  tacit explain mce-exact-gridworld-s0-996e6166 --json
"""

from __future__ import annotations

from typing import Any, Literal

from tacit.commands import RunPath, call, open_run, print_json
from tacit.errors import UserError


def explain(
    run: RunPath, /, *, of: Literal["map", "cost"] | None = None, ensemble: int = 0, seed: int = 0, json: bool = False
) -> None:
    """Explain a run.

    Args:
        run: Run folder, or its name within ./runs.
        of: The constraint map, or the cost that drove the policy; the map when there is one.
        ensemble: Fit so many costs to resampled demonstrations first.
        seed: Of the resampling.
        json: Print the explanation as JSON.
    """
    from tacit.explain import explain as explained
    from tacit.explain import in_words, save_explanation

    opened = open_run(run)
    if not opened.done:
        raise UserError(f"{opened.path} is not finished: `tacit resume {opened.path}` first")
    if ensemble:
        from tacit.inverse.ensemble import fit_ensemble

        fitted = fit_ensemble(opened, ensemble, seed)
        with opened:
            opened.save_model("ensemble", *fitted.to_arrays())
    found = explained(opened, of)
    with opened:
        paths = save_explanation(opened, found)
    if json:
        return print_json({"run": opened.path, **found, "files": paths})
    print("\n".join(in_words(found)))
    print(f"The picture: {paths[-1]}")


def main(args: list[str]) -> Any:
    return call(explain, "explain", __doc__, args)
