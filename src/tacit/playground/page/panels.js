// What stands below the board of the learner: legend, verdict, certificate, comparison with the truth.

import { element, number } from "./boards.js";

const TIPS = {
  KKT: "How far the weights are from satisfying the conditions of optimality; 0 exactly at a solution.",
  gap: "Bound on what any policy within the limits can reach, minus what this one reaches. Near zero at a solution.",
  infeasibility: "By how much the worst limit (visits of the demonstrations plus budget) is broken.",
  backward: "The policy is exactly optimal for a budget that differs by at most this much.",
};

export const MOODS = { optimal: ["certified optimal", "good"], stationary: ["stationary point", "fair"], "iteration limit": ["not converged", "fair"], infeasible: ["no solution: proved", "bad"], empty: ["no demonstrations", ""] };

function fact(name, tip, value) {
  const term = element("dt", {}, tip ? element("abbr", { tabIndex: 0, "data-tip": tip, textContent: name, "aria-description": tip }) : name);
  return element("div", {}, term, element("dd", { textContent: value }));
}

/** What the colours and lines of the board mean. */
export function legend({ top, isCost, marks, shown }, truth) {
  const made = [];
  if (shown) {
    made.push(element("span", {}, "0", element("span", { className: `ramp ${isCost ? "cost" : "visits"}` }),
      isCost ? `${number(top)} reward a visit` : `${number(top)} visits per episode; faint is rare`));
  }
  if (isCost && marks.unsure) made.push(element("span", {}, element("span", { className: "key unsure" }, element("span", { className: "mark" })), `not known yet (${marks.unsure})`));
  if (isCost && marks.never) made.push(element("span", {}, element("span", { className: "key never" }, element("span", { className: "mark" })), `never knowable (${marks.never})`));
  if (truth) made.push(element("span", {}, element("span", { className: "key true-cell" }), "the truth"));
  return made;
}

/** The answer in words, the certificate in numbers; where there is no solution, `repair(change)` buttons. */
export function verdict(scene, result, marks, largestBudget, repair) {
  if (!result || result.status === "empty") return [];
  const certificate = result.certificate;
  const made = [element("p", { textContent: inWords(scene, result, marks) })];
  if (result.diagnosis) {
    const enough = result.diagnosis.budget;
    const fixes = element("p", { className: "row-of" });
    if (enough !== null && enough <= largestBudget) {
      fixes.append(element("button", { className: "primary", textContent: `Use a budget of ${enough}`, onclick: () => repair((asked) => { asked.budget = enough; }) }), " ");
    }
    fixes.append(element("button", { textContent: "Fit the estimated expert instead", onclick: () => repair((asked) => { asked.objective = "plugin"; }) }));
    made.push(fixes);
  } else {
    const convex = result.status !== "stationary";
    made.push(element("dl", { className: "facts" },
      fact("KKT residual", TIPS.KKT, number(certificate.kkt)),
      fact("duality gap", TIPS.gap, convex ? number(certificate.gap) : "none: not convex"),
      ...(convex ? [fact("infeasibility", TIPS.infeasibility, number(certificate.infeasibility)), fact("backward error", TIPS.backward, number(certificate.backward_error))] : []),
      fact("solved in", "", result.seconds < 1 ? `${Math.round(1000 * result.seconds)} ms` : `${result.seconds.toFixed(1)} s`)),
      element("p", { className: "hint", textContent: certificate.statement }));
  }
  return made;
}

function inWords(scene, result, marks) {
  const n = result.own + result.expert.length;
  const from = `From ${n} demonstration${n === 1 ? "" : "s"}: `;
  if (result.diagnosis) {
    const cells = result.diagnosis.cells.slice(0, 3).map(([r, c]) => `row ${r}, column ${c}`).join("; ");
    return `${from}no policy at all keeps to these limits; every one exceeds some of them by at least ${number(result.diagnosis.violation)}. ${scene.slip > 0 ? "The floor is slippery, and the demonstrations were lucky. " : ""}To blame (framed red): ${cells}.`;
  }
  const costs = result.cost.flat().filter((value) => value !== null);
  const top = Math.max(...costs);
  if (!(top > 1e-6)) return `${from}nothing needs to cost anything. What was shown is what an agent without constraints would do, as far as the budget can tell.`;
  const dear = costs.filter((value) => value > 0.05 * top).length;
  const at = result.cost.flatMap((row, r) => row.map((value, c) => [value ?? -1, r, c])).sort((a, b) => b[0] - a[0])[0];
  const open = marks.unsure + marks.never;
  const rest = open ? ` Of ${costs.length} cells, ${open} cannot be judged.` : "";
  return `${from}${dear} cell${dear === 1 ? "" : "s"} must cost something; the dearest, row ${at[1]}, column ${at[2]}, as much as ${number(top)} steps.${rest}`;
}

/** How the answer compares with what was hidden. */
export function comparison({ agents, quality, constrained }) {
  const percent = (value) => (value === null ? "–" : value === 0 ? "0 %" : `${(100 * value).toPrecision(3)} %`);
  const rows = [["expert", "expert"], ["unconstrained", "without constraint"], ["learned", "learned constraint"]].filter(([name]) => agents[name]);
  const parts = [
    element("h3", { textContent: "Compared with the truth" }),
    element("p", { textContent: "Only for you: nothing of this was used for learning." }),
  ];
  if (!constrained) parts.push(element("p", { textContent: "There is no hidden constraint on this map." }));
  if (quality) {
    parts.push(element("dl", { className: "facts" },
      fact("AUROC", "Chance that a truly constrained cell costs more than another one; 0.5 is guessing, 1 perfect.", quality.auroc === null ? "–" : quality.auroc.toFixed(3)),
      fact("best IoU", "Overlap of the true cells with the dearest ones, at the best threshold; 1 is perfect.", quality.best_iou === null ? "–" : quality.best_iou.toFixed(3))));
  }
  if (constrained) {
    parts.push(element("table", {},
      element("thead", {}, element("tr", {}, element("th", { textContent: "agent" }), element("th", { textContent: "return" }), element("th", { textContent: "episodes that violate" }))),
      element("tbody", {}, ...rows.map(([name, words]) => element("tr", {}, element("th", { scope: "row", textContent: words }),
        element("td", { textContent: number(agents[name].return, 3) }), element("td", { textContent: percent(agents[name].violating_episodes) }))))));
  }
  return parts;
}
