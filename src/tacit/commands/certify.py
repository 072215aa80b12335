"""Check an exact solution: compute its certificate again from the weights of the cost.

The model is rebuilt from the settings in the run folder, and the policy is planned again for these weights. Every
number is then compared with the certificate that the run wrote. The exit status is 1 if a number differs.

Examples:
  tacit certify runs/mce-exact-gridworld-s0-3fa1b2c4
  tacit certify mce-exact-gridworld-s0-3fa1b2c4 --json
"""

from __future__ import annotations

import math
from typing import Any

from tacit.commands import RunPath, new_table, number, open_run, print_json, print_table, require_finished
from tacit.commands.summary import CERTIFICATE, LIKELIHOOD
from tacit.errors import RunFailed, UserError
from tacit.inverse.exact_run import recheck

NUMBERS = {**CERTIFICATE, "dual_value": "dual value (upper bound)", "primal_value": "primal value (reached)"}
TOLERANCE = 1e-7
"""Relative difference of two numbers, and loss of the saved policy, that rounding can explain."""


def certify(run: RunPath, /, *, json: bool = False) -> None:
    """Check a run.

    Args:
        json: Print both certificates as JSON.
    """
    opened = open_run(run)
    if opened.config["algo"] != "mce-exact":
        raise UserError(
            f"only exact solutions have a certificate; {opened.path} was learned with {opened.config['algo']}"
        )
    require_finished(opened)
    stored = opened.read("certificate.json")
    if not isinstance(stored, dict):
        raise UserError(f"{opened.path}/certificate.json does not hold a certificate")
    certificate, loss = recheck(opened)
    recomputed = certificate.to_dict()
    wrong = [label for key, label in NUMBERS.items() if not _agree(stored.get(key), recomputed[key])]
    if stored.get("status") != recomputed["status"]:
        wrong.insert(0, f"status ({recomputed['status']}, not {stored.get('status')})")
    if not abs(loss) <= TOLERANCE * (1.0 + abs(recomputed["primal_value"])) and recomputed["status"] != "infeasible":
        wrong.append(f"policy (it loses {loss:.2g} against the exact one for these weights)")
    if json:
        print_json(
            {"run": opened.path, "agrees": not wrong, "stored": stored, "recomputed": recomputed, "policy_loss": loss}
        )
    else:
        table = new_table("", "stored", "recomputed")
        for key, label in (NUMBERS | (LIKELIHOOD if recomputed["objective"] == "likelihood" else {})).items():
            if math.isfinite(recomputed[key]):  # the others do not exist for this objective, or without a solution
                table.add_row(label, number(stored.get(key)), number(recomputed[key]))
        print_table(table)
        # A proof that there is no solution is told as the run told it, with cells by name.
        print(stored.get("statement") if recomputed["status"] == "infeasible" else recomputed["statement"])
    if wrong:
        raise RunFailed(f"the certificate of {opened.path} does not hold: {', '.join(wrong)}")


def _agree(stored: Any, recomputed: float) -> bool:
    if not isinstance(stored, int | float):
        return False
    if math.isnan(recomputed) or math.isinf(recomputed):
        return math.isnan(stored) if math.isnan(recomputed) else stored == recomputed
    return abs(stored - recomputed) <= TOLERANCE * (1.0 + abs(recomputed))
