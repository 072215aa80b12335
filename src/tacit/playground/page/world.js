// The scene: map, settings and own demonstrations, and everything that can be done to it without a page or a server.

export const MOVES = [[0, 1], [0, -1], [1, 0], [-1, 0], [1, 1], [-1, 1], [1, -1], [-1, -1]]; // the order of the gridworld
export const KINDS = { "#": "wall", X: "hidden constraint", S: "start", G: "goal", ".": "free" };

export const copy = (scene) => JSON.parse(JSON.stringify(scene));
export const height = (scene) => scene.rows.length;
export const width = (scene) => scene.rows[0].length;
export const inside = (scene, r, c) => r >= 0 && c >= 0 && r < height(scene) && c < width(scene);
export const kind = (scene, r, c) => scene.rows[r][c];
export const enterable = (scene, r, c) => inside(scene, r, c) && kind(scene, r, c) !== "#";

export function find(scene, mark) {
  for (let r = 0; r < height(scene); r++) {
    const c = scene.rows[r].indexOf(mark);
    if (c >= 0) return [r, c];
  }
  return null;
}

function put(scene, r, c, mark) {
  scene.rows[r] = scene.rows[r].slice(0, c) + mark + scene.rows[r].slice(c + 1);
}

/** Draw `mark` on a cell; start and goal move there, and nothing else is drawn over them. Whether anything changed. */
export function draw(scene, r, c, mark) {
  const before = kind(scene, r, c);
  if (before === mark || before === "S" || before === "G") return false;
  if (mark === "S" || mark === "G") {
    const [row, column] = find(scene, mark);
    put(scene, row, column, ".");
  }
  put(scene, r, c, mark);
  return true;
}

/** Cut or extend at the bottom and on the right; a start or goal that would be lost moves to the nearest free cell. */
export function resize(scene, rows, columns) {
  const marks = ["S", "G"].map((mark) => [mark, find(scene, mark)]);
  scene.rows = Array.from({ length: rows }, (_, r) => (scene.rows[r] ?? "").slice(0, columns).padEnd(columns, "."));
  for (const [mark, [r, c]] of marks) {
    if (find(scene, mark)) continue;
    let best = null;
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const far = (i - r) ** 2 + (j - c) ** 2 + ("SG".includes(kind(scene, i, j)) ? 1e6 : 0);
        if (!best || far < best[0]) best = [far, i, j];
      }
    }
    put(scene, best[1], best[2], mark);
  }
}

/** Whether the goal can be reached from the start. */
export function solvable(scene) {
  const seen = new Set();
  const queue = [find(scene, "S")];
  while (queue.length) {
    const [r, c] = queue.pop();
    if (kind(scene, r, c) === "G") return true;
    for (const [dr, dc] of MOVES.slice(0, scene.moves)) {
      const key = `${r + dr},${c + dc}`;
      if (enterable(scene, r + dr, c + dc) && !seen.has(key)) {
        seen.add(key);
        queue.push([r + dr, c + dc]);
      }
    }
  }
  return false;
}

/** Whether a demonstration is still possible in this world. */
export function fits(scene, path) {
  const start = find(scene, "S");
  if (!path.cells.every(([r, c]) => enterable(scene, r, c))) return false;
  if (path.cells[0][0] !== start[0] || path.cells[0][1] !== start[1]) return false;
  return path.actions.every((action, t) => {
    const [r, c] = path.cells[t];
    const [toRow, toColumn] = path.cells[t + 1];
    if (action >= scene.moves || kind(scene, r, c) === "G") return false;
    const intended = [r + MOVES[action][0], c + MOVES[action][1]];
    if (toRow === intended[0] && toColumn === intended[1]) return true;
    const stays = toRow === r && toColumn === c;
    if (stays) return !enterable(scene, ...intended);
    return scene.slip > 0 && MOVES.slice(0, scene.moves).some(([dr, dc]) => toRow === r + dr && toColumn === c + dc);
  });
}

/** Where an action leads, by chance if `slippery`. */
export function step(scene, [r, c], action, slippery) {
  if (slippery && Math.random() < scene.slip) {
    const near = MOVES.slice(0, scene.moves).map(([dr, dc]) => [r + dr, c + dc]).filter(([i, j]) => enterable(scene, i, j));
    if (near.length) return near[Math.floor(Math.random() * near.length)];
  }
  const [dr, dc] = MOVES[action];
  return enterable(scene, r + dr, c + dc) ? [r + dr, c + dc] : [r, c];
}

/** Actions of a shortest way between two cells that enters no hidden cell but the last; null if there is none. */
export function way(scene, from, to) {
  const moves = MOVES.slice(0, scene.moves);
  const before = new Map([[String(from), null]]);
  const queue = [from];
  while (queue.length) {
    const at = queue.shift();
    if (at[0] === to[0] && at[1] === to[1]) {
      const actions = [];
      for (let step = before.get(String(at)); step; step = before.get(String(step.from))) actions.unshift(step.action);
      return actions;
    }
    moves.forEach(([dr, dc], action) => {
      const next = [at[0] + dr, at[1] + dc];
      const last = next[0] === to[0] && next[1] === to[1];
      if (before.has(String(next)) || !enterable(scene, ...next) || (kind(scene, ...next) === "X" && !last)) return;
      before.set(String(next), { from: at, action });
      queue.push(next);
    });
  }
  return null;
}

const MEANT = 0.36; // half the width of the middle of a cell: a pointer that only touches a corner means another cell
const FINE = 0.08;

/** The cells through whose middle a pointer has gone from one point to another, in units of cells [row, column]. */
export function meant([r0, c0], [r1, c1]) {
  const n = Math.max(1, Math.ceil(Math.hypot(r1 - r0, c1 - c0) / FINE));
  const cells = [];
  for (let i = 1; i <= n; i++) {
    const [r, c] = [r0 + (i / n) * (r1 - r0), c0 + (i / n) * (c1 - c0)];
    const cell = [Math.floor(r), Math.floor(c)];
    const inMiddle = Math.abs(r - cell[0] - 0.5) <= MEANT && Math.abs(c - cell[1] - 0.5) <= MEANT;
    const last = cells.at(-1);
    if (inMiddle && (!last || last[0] !== cell[0] || last[1] !== cell[1])) cells.push(cell);
  }
  return cells;
}

/** Cells on the line between two cells, both ends included. */
export function line([r0, c0], [r1, c1]) {
  const n = Math.max(Math.abs(r1 - r0), Math.abs(c1 - c0));
  return Array.from({ length: n + 1 }, (_, i) => {
    const share = n ? i / n : 0;
    return [Math.round(r0 + share * (r1 - r0)), Math.round(c0 + share * (c1 - c0))];
  });
}

/** Undo and redo, as copies of the scene. */
export class History {
  constructor() {
    this.past = [];
    this.future = [];
  }
  keep(scene) {
    this.past.push(copy(scene));
    if (this.past.length > 200) this.past.shift();
    this.future = [];
  }
  undo(scene) {
    if (!this.past.length) return null;
    this.future.push(copy(scene));
    return this.past.pop();
  }
  redo(scene) {
    if (!this.future.length) return null;
    this.past.push(copy(scene));
    return this.future.pop();
  }
}

/** A slider's 0 ... 100 as a number on a logarithmic scale with two digits; with `zero`, 0 means 0. */
export function logarithmic(low, high, zero) {
  const first = zero ? 1 : 0;
  const span = Math.log(high / low);
  return {
    value: (position) => (zero && position <= 0 ? 0
      : Number(Math.min(high, Math.max(low, low * Math.exp((span * (position - first)) / (100 - first)))).toPrecision(2))),
    position: (value) => (zero && value <= 0 ? 0
      : Math.round(Math.min(100, Math.max(first, first + ((100 - first) * Math.log(value / low)) / span)))),
  };
}
