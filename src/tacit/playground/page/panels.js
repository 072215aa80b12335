// What stands below the board of the learner: legend, verdict, certificate, comparison with the truth.

import { element, number } from "./boards.js";

const TIPS = {
  KKT: "How far the weights are from satisfying the conditions of optimality; 0 exactly at a solution.",
  gap: "Bound on what any policy within the limits can reach, minus what this one reaches. Near zero at a solution.",
  infeasibility: "By how much the worst limit (visits of the demonstrations plus budget) is broken.",
  backward: "The policy is exactly optimal for a budget that differs by at most this much.",
};

// No green: "solved exactly" is about the arithmetic, and a larger rule than the smallest may be the true one.
export const MOODS = {
  "rule found": ["smallest rule found", ""],
  "rule somewhere": ["not enough to tell where", "fair"],
  "rule nothing": ["no rule needed", ""],
  optimal: ["solved exactly", ""],
  stationary: ["solved, perhaps not the best", ""],
  "iteration limit": ["not solved to the end", "fair"],
  infeasible: ["no solution: proved", "bad"],
  empty: ["no demonstrations", ""],
};

function fact(name, tip, value) {
  const term = element("dt", {}, tip ? element("abbr", { tabIndex: 0, "data-tip": tip, textContent: name, "aria-description": tip }) : name);
  return element("div", {}, term, element("dd", { textContent: value }));
}

/** What the colours and lines of the board mean. */
export function legend({ top, isCost, isRule, marks, shown }, truth) {
  const made = [];
  if (shown) {
    made.push(element("span", {}, "0", element("span", { className: `ramp ${isCost ? "cost" : "visits"}` }),
      isRule ? "forbidden, if the rule is as small as it can be" : isCost ? `${number(top)} per visit, in units of reward` : `${number(top)} visits per episode; faint is rare`));
  }
  if (isCost && marks.unsure) made.push(element("span", {}, element("span", { className: "key unsure" }, element("span", { className: "mark" })), `${isRule ? "nobody went there: not known" : "not known yet"} (${marks.unsure})`));
  if (isCost && marks.never) made.push(element("span", {}, element("span", { className: "key never" }, element("span", { className: "mark" })), `never knowable (${marks.never})`));
  if (truth) made.push(element("span", {}, element("span", { className: "key true-cell" }), "the truth"));
  return made;
}

/** The answer in words, the certificate in numbers; where there is no solution, `repair(change)` buttons. */
export function verdict(scene, result, marks, largestBudget, repair) {
  if (!result || result.status === "empty") return [];
  const certificate = result.certificate;
  const made = [element("p", { textContent: inWords(scene, result, marks) }), ...telling(result, marks)];
  if (result.rule) {
    made.push(element("p", { className: "hint", textContent: `Found in ${seconds(result)}: the fewest cells that explain why nobody took a shorter way, with clumsy steps allowed for.` }));
  } else if (result.diagnosis) {
    const enough = result.diagnosis.budget;
    const fixes = element("p", { className: "row-of" });
    if (enough !== null && enough <= largestBudget) {
      fixes.append(element("button", { className: "primary", textContent: `Use a budget of ${enough}`, onclick: () => repair((asked) => { asked.budget = enough; }) }), " ");
    }
    fixes.append(element("button", { textContent: "Fit the estimated expert instead", onclick: () => repair((asked) => { asked.objective = "plugin"; }) }));
    made.push(fixes);
  } else {
    const convex = result.status !== "stationary";
    made.push(element("details", {}, element("summary", { textContent: "How exactly it was solved" }), element("p", { className: "hint", textContent: "This is about the arithmetic: for these demonstrations and settings, no better numbers exist. Whether the demonstrations show what is really forbidden is another question (above)." }), element("dl", { className: "facts" },
      fact("KKT residual", TIPS.KKT, number(certificate.kkt)),
      fact("duality gap", TIPS.gap, convex ? number(certificate.gap) : "none: not convex"),
      ...(convex ? [fact("infeasibility", TIPS.infeasibility, number(certificate.infeasibility)), fact("backward error", TIPS.backward, number(certificate.backward_error))] : []),
      fact("solved in", "", seconds(result))),
      element("p", { className: "hint", textContent: certificate.statement })));
  }
  return made;
}

const seconds = (result) => (result.seconds < 1 ? `${Math.round(1000 * result.seconds)} ms` : `${result.seconds.toFixed(1)} s`);
const cellsInWords = (cells) => cells.map(([r, c]) => `row ${r}, column ${c}`).join("; ");
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const LONGER = 1.5; // steps more than needed from which on a walk is called a detour

/** How much these demonstrations can tell at all, whatever was made of them. */
function telling(result, marks) {
  const { walks, shortest, steps, cells, walked } = result.telling;
  const open = marks.unsure + marks.never;
  return [
    element("h3", { textContent: "How much can these tell?" }),
    element("dl", { className: "facts plain" },
      fact("walks", "More walks say more. Fewer than five say little.", String(walks)),
      fact("steps of a walk", "The mean. A walk that is longer than needed avoided something, or was a detour.", `${number(steps, 3)}; the shortest way has ${shortest}`),
      fact("cells walked on", "Somebody chose to go there, so they are allowed.", `${walked} of ${cells}`),
      ...(open ? [fact("cells not known", "Nobody went there, and nobody would have gained anything by it.", `${open} of ${cells}`)] : [])),
  ];
}

function ruleInWords(result, from) {
  const { verdict: said, cells, or_else: orElse, allowed } = result.rule;
  const { shortest, steps, walks } = result.telling;
  const longer = `the shortest way has ${shortest} steps, and the walks have ${number(steps, 3)}`;
  if (said === "found") {
    const other = orElse.length ? ` Perhaps it is ${cellsInWords(orElse.slice(0, 3))} instead: walk there to rule that out.` : "";
    return `${from}the smallest rule that explains them forbids ${plural(cells.length, "cell")}: ${cellsInWords(cells)}. With it nobody can do better than ${allowed} steps; without it ${shortest} would do.${other}`;
  }
  if (said === "somewhere") return `${from}something is in the way, because ${longer}. But many places would explain it equally well. Not enough to tell which: walk closer to it, from both sides.`;
  if (steps - shortest > LONGER) return `${from}not enough to tell: ${longer}, but detours are as good a reason as a rule. ${walks < 5 ? "Walk a few times more." : "Walk more directly."}`;
  return `${from}nothing needs to be forbidden: ${longer}.`;
}

function inWords(scene, result, marks) {
  const n = result.own + result.expert.length;
  const from = `From ${plural(n, result.rule ? "walk" : "demonstration")}: `;
  if (result.rule) return ruleInWords(result, from);
  if (result.diagnosis) {
    const cells = result.diagnosis.cells.slice(0, 3).map(([r, c]) => `row ${r}, column ${c}`).join("; ");
    return `${from}no policy at all keeps to these limits; every one exceeds some of them by at least ${number(result.diagnosis.violation)}. ${scene.slip > 0 ? "The floor is slippery, and the demonstrations were lucky. " : ""}To blame (framed red): ${cells}.`;
  }
  const costs = result.cost.flat().filter((value) => value !== null);
  const top = Math.max(...costs);
  if (!(top > 1e-6)) return `${from}nothing needs to cost anything. What was shown is what an agent without constraints would do, as far as the budget can tell.`;
  const costly = costs.filter((value) => value > 0.05 * top).length;
  const at = result.cost.flatMap((row, r) => row.map((value, c) => [value ?? -1, r, c])).sort((a, b) => b[0] - a[0])[0];
  const open = marks.unsure + marks.never;
  const rest = open ? ` Of ${costs.length} cells, ${open} ${open === 1 ? "is" : "are"} not known.` : "";
  return `${from}${costly} cell${costly === 1 ? "" : "s"} must cost something; the highest cost (row ${at[1]}, column ${at[2]}) is worth ${number(top)} steps.${rest}`;
}

/** How the answer compares with what was hidden. */
export function comparison({ agents, quality, constrained }) {
  const percent = (value) => (value === null ? "–" : value === 0 ? "0 %" : value < 1 && value >= 0.9995 ? "over 99.9 %" : `${(100 * value).toPrecision(3)} %`);
  const rows = [["expert", "expert"], ["unconstrained", "without constraint"], ["learned", "learned constraint"]].filter(([name]) => agents[name]);
  const parts = [
    element("h3", { textContent: "Compared with the truth" }),
    element("p", { textContent: "Only for you: nothing of this was used for learning." }),
  ];
  if (!constrained) parts.push(element("p", { textContent: "There is no hidden constraint on this map." }));
  if (quality) {
    parts.push(element("dl", { className: "facts" },
      fact("AUROC", "Chance that a truly constrained cell costs more than another one; 0.5 is guessing, 1 perfect.", quality.auroc === null ? "–" : quality.auroc.toFixed(3)),
      fact("best IoU", "Overlap of the true cells with those of the highest cost, at the best threshold; 1 is perfect.", quality.best_iou === null ? "–" : quality.best_iou.toFixed(3))));
  }
  if (constrained) {
    parts.push(element("table", {},
      element("thead", {}, element("tr", {}, element("th", { textContent: "agent" }), element("th", { textContent: "return" }), element("th", { textContent: "episodes that violate" }))),
      element("tbody", {}, ...rows.map(([name, words]) => element("tr", {}, element("th", { scope: "row", textContent: words }),
        element("td", { textContent: number(agents[name].return, 3) }), element("td", { textContent: percent(agents[name].violating_episodes) }))))));
  }
  return parts;
}
