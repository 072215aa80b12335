// The two boards: the world as its maker sees it, and what the learner infers.

import { MOVES, KINDS, height, width, kind, enterable } from "./world.js";

const SVG = "http://www.w3.org/2000/svg";
const UNKNOWN = 0.5;
const MOST_LINES = 60;

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export const number = (value, digits = 2) => {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) {
    const [mantissa, power] = value.toExponential(1).split("e");
    const raised = String(Number(power)).replace(/[-0-9]/g, (d) => (d === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]));
    return `${mantissa} × 10${raised}`.replace(/^-/, "−");
  }
  return String(Number(value.toPrecision(digits))).replace("-", "−");
};

/** A grid of cells that can be focused one at a time, and lines above them. */
export class Board {
  constructor(root, label) {
    this.root = root;
    this.cursor = [0, 0];
    root.setAttribute("role", "grid");
    root.setAttribute("aria-label", label);
    new ResizeObserver(() => this.measure()).observe(root);
  }

  fit(scene) {
    const [rows, columns] = [height(scene), width(scene)];
    if (this.rows === rows && this.columns === columns) return;
    Object.assign(this, { rows, columns });
    this.cells = Array.from({ length: rows }, () => Array.from({ length: columns }, () =>
      element("div", { className: "at", role: "gridcell", tabIndex: -1 })));
    this.lines = shape("svg", { class: "lines", viewBox: `0 0 ${columns} ${rows}`, "aria-hidden": "true" });
    const lines = this.cells.map((row) => element("div", { className: "row", role: "row" }, ...row));
    this.root.replaceChildren(...lines, this.lines);
    this.root.style.gridTemplateColumns = `repeat(${columns}, 1fr)`;
    // As large as the column allows, but never taller than most of the window.
    this.root.style.width = `min(100%, calc(max(20rem, 62vh) * ${columns} / ${rows}))`;
    this.cursor = [Math.min(this.cursor[0], rows - 1), Math.min(this.cursor[1], columns - 1)];
    this.focusable();
    this.measure();
  }

  measure() {
    if (!this.columns) return;
    this.size = this.root.clientWidth / this.columns;
    this.root.style.setProperty("--letters", `${Math.max(8, Math.min(26, this.size * 0.5))}px`);
    this.root.classList.toggle("small", this.size < 30);
  }

  focusable() {
    this.cells.forEach((row, r) => row.forEach((cell, c) => {
      cell.tabIndex = r === this.cursor[0] && c === this.cursor[1] ? 0 : -1;
    }));
  }

  /** Put the cursor on a cell; and the keyboard's focus, if it is on this board. */
  moveTo(r, c, focus = this.root.contains(document.activeElement)) {
    this.cursor = [Math.max(0, Math.min(this.rows - 1, r)), Math.max(0, Math.min(this.columns - 1, c))];
    this.focusable();
    if (focus) this.cells[this.cursor[0]][this.cursor[1]].focus({ preventScroll: true });
  }

  /** Where a pointer is, in units of cells; the nearest place of the board if it is outside. */
  point(event) {
    const box = this.root.getBoundingClientRect();
    const [row, column] = [((event.clientY - box.top) / box.height) * this.rows, ((event.clientX - box.left) / box.width) * this.columns];
    return [Math.max(0, Math.min(this.rows - 1e-6, row)), Math.max(0, Math.min(this.columns - 1e-6, column))];
  }

  /** The cell under a pointer. */
  at(event) {
    return this.point(event).map(Math.floor);
  }
}

const nameOf = (r, c) => `row ${r}, column ${c}`;

function base(cell, mark) {
  cell.className = "at";
  cell.replaceChildren();
  if (mark === "#") cell.classList.add("wall");
  if (mark === "S" || mark === "G") {
    cell.classList.add(mark === "S" ? "start" : "goal");
    cell.append(element("span", { className: "letter", textContent: mark }));
  }
}

/** The polyline of a path; each has its own small offset, so that they can be told apart. */
function polyline(cells, className, index) {
  const angle = index * 2.4;
  const radius = className === "now" ? 0 : 0.04 + 0.16 * ((index * 0.618) % 1);
  const points = cells.map(([r, c]) => `${(c + 0.5 + radius * Math.cos(angle)).toFixed(3)},${(r + 0.5 + radius * Math.sin(angle)).toFixed(3)}`);
  return shape("polyline", { class: className, points: points.join(" ") });
}

export function showWorld(board, scene, { expert, walk, demonstrating, used }) {
  board.fit(scene);
  board.cells.forEach((row, r) => row.forEach((cell, c) => {
    const mark = kind(scene, r, c);
    base(cell, mark);
    if (mark === "X") cell.classList.add("hidden");
    cell.setAttribute("aria-label", `${nameOf(r, c)}: ${KINDS[mark]}`);
  }));
  const lines = [
    ...expert.slice(0, MOST_LINES).map((path, i) => polyline(path.cells, "theirs", i)),
    ...scene.demonstrations.map((path, i) => polyline(path.cells, i < used ? "mine" : "mine unused", i)),
  ];
  if (walk.cells.length > 1) lines.push(polyline(walk.cells, "now", 0));
  if (demonstrating) {
    const [r, c] = walk.cells.at(-1);
    board.cells[r][c].classList.add("here");
    lines.push(shape("circle", { class: "walker", cx: c + 0.5, cy: r + 0.5, r: 0.27 }));
  }
  board.lines.replaceChildren(...lines);
}

const SURE = 0.9;
const likelihood = (p) => (p >= SURE ? "forbidden" : p > 1 - SURE ? `perhaps forbidden (${Math.round(100 * p)} %)` : "no sign that it is forbidden");

/** What is known about one cell, in words; the answer may still be one to a smaller map. */
export function describe(scene, result, r, c) {
  const mark = kind(scene, r, c);
  if (mark === "#") return `${nameOf(r, c)}: wall`;
  const parts = [];
  if (mark === "G") parts.push("goal: the episode ends here, so a cost could not matter");
  else if (result?.cost?.[r]?.[c] !== undefined) {
    parts.push(result.rule ? likelihood(result.cost[r][c]) : `cost ${number(result.cost[r][c])}`);
    if (result.rule) { /* that says it all */ }
    else if (!result.reachable[r][c]) parts.push("nobody can get here");
    else if (result.never[r][c] > UNKNOWN) parts.push("cannot be known, ever");
    else if (result.unknown[r][c] > UNKNOWN) parts.push("not known yet");
  }
  const visits = result?.visits ?? {};
  for (const [name, words] of [["learned", "learned agent"], ["unconstrained", "without constraint"], ["demonstrations", "demonstrations"]]) {
    if (visits[name]?.[r]?.[c] !== undefined) parts.push(`${words} ${number(visits[name][r][c])} visits`);
  }
  return `${nameOf(r, c)}: ${parts.join(" · ")}`;
}

/** Whether the cost of a cell is "never" to be known, "unsure" with these demonstrations, or known (""). */
function knowledge(result, r, c) {
  if (!result.reachable[r][c] || result.never[r][c] > UNKNOWN) return "never";
  return result.unknown[r][c] > UNKNOWN ? "unsure" : "";
}

const largest = (rows) => Math.max(0, ...rows.flat().map((v) => v ?? 0));

/** Opacity: costs linear, visits over three decades, as in the reports. */
const shadeOf = (value, top, log) => {
  if (!(value > 0) || !(top > 0)) return 0;
  return log ? Math.max(0, 1 + Math.log10(value / top) / 3) : value / top;
};

/** Draw the answer; returns {top, isCost, marks} for the legend. */
export function showInferred(board, scene, result, { view, arrows, compare }) {
  board.fit(scene);
  const isCost = view === "cost";
  const values = isCost ? result?.cost : result?.visits?.[view];
  const matches = values && values.length === board.rows && values[0].length === board.columns;
  // A cost of rounding size is no cost.
  const isRule = isCost && Boolean(result?.rule);
  const top = isRule ? 1 : matches ? Math.max(largest(values), isCost ? 1e-6 : 0) : 0;
  const marks = { unsure: 0, never: 0 };
  const busy = new Set(); // cells with a letter or a number
  const blame = matches || !result?.diagnosis ? null : result.diagnosis.blame;
  board.cells.forEach((row, r) => row.forEach((cell, c) => {
    const mark = kind(scene, r, c) === "X" ? "." : kind(scene, r, c);
    base(cell, mark);
    if (compare && kind(scene, r, c) === "X") cell.classList.add("true-cell");
    if (blame?.[r]?.[c] > 1e-3) cell.classList.add("blamed");
    if (mark === "S" || mark === "G") busy.add(`${r},${c}`);
    if (matches && mark !== "#") {
      const value = values[r][c] ?? 0;
      const share = shadeOf(value, top, !isCost);
      const shade = element("div", { className: "shade" });
      shade.style.backgroundColor = `color-mix(in srgb, var(--${isCost ? "cost" : "visits"}) ${(100 * share).toFixed(1)}%, transparent)`;
      cell.prepend(shade);
      const state = result.cost && mark !== "G" ? knowledge(result, r, c) : "";
      if (state) {
        marks[state] += 1;
        if (isCost) {
          cell.classList.add(state);
          cell.append(element("div", { className: "mark" }));
        }
      }
      if (mark === "." && board.size >= 30 && share > 0.03 && value >= 0.05 && (isCost || !arrows)) {
        cell.append(element("span", { className: "value", textContent: isRule ? (value >= SURE ? "✗" : "?") : value.toFixed(1) }));
        busy.add(`${r},${c}`);
      }
    }
    cell.setAttribute("aria-label", describe(scene, result, r, c));
  }));
  board.lines.replaceChildren(...(arrows ? darts(scene, result, view, busy) : []));
  return { top, isCost, isRule, marks, shown: Boolean(matches) };
}

/** One dart an action, as long as it is likely, where the agent goes. */
function darts(scene, result, view, busy) {
  const agent = view === "unconstrained" ? "unconstrained" : "learned";
  const [policy, visits] = [result?.policy?.[agent], result?.visits?.[agent]];
  const cells = scene.rows.join("").replaceAll("#", "").length;
  if (policy?.length !== cells || !visits || view === "demonstrations") return []; // none, or of another map
  const made = [];
  let state = -1;
  for (let r = 0; r < height(scene); r++) {
    for (let c = 0; c < width(scene); c++) {
      if (!enterable(scene, r, c)) continue;
      state += 1;
      const often = visits[r]?.[c] ?? 0;
      if (often < 0.004 || kind(scene, r, c) === "G" || !policy[state]) continue;
      policy[state].forEach((chance, action) => {
        if (chance < 0.06) return;
        const [dr, dc] = MOVES[action];
        const norm = Math.hypot(dr, dc);
        const [y, x] = [dr / norm, dc / norm];
        // Away from the middle, where letters and numbers are.
        const from = busy.has(`${r},${c}`) ? 0.3 : 0.12;
        const long = Math.min(0.47, from + 0.08 + 0.24 * chance);
        const wide = 0.04 + 0.05 * chance;
        const [my, mx] = [r + 0.5, c + 0.5];
        const [cy, cx] = [my + from * y, mx + from * x];
        const points = [[cx - wide * y, cy + wide * x], [cx + wide * y, cy - wide * x], [mx + long * x, my + long * y]];
        made.push(shape("polygon", {
          class: "dart",
          points: points.map((p) => p.map((v) => v.toFixed(3)).join(",")).join(" "),
          opacity: Math.min(0.9, 0.22 + 0.7 * often ** 0.6).toFixed(2),
        }));
      });
    }
  }
  return made;
}
