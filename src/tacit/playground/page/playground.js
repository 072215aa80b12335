// The page: controls, keys, and the conversation with the server.

import { MOVES, KINDS, History, copy, draw, find, fits, height, kind, line, logarithmic, meant, resize, solvable, step, way, width } from "./world.js";
import { Board, describe, element, showInferred, showWorld } from "./boards.js";
import { MOODS, comparison, legend, verdict } from "./panels.js";
import { startFiles } from "./files.js";
import { Conversation, post } from "./talk.js";
import { $, badge, problem, radio, recall, remember, say, startTheme, toast } from "./ui.js";

const TOOLS = [
  ["walk", "Demonstrate", "agent", ""],
  ["#", "Wall", "wall", ""],
  ["X", "Constraint", "hidden", ""],
  [".", "Erase", "", ""],
  ["S", "Start", "start", "S"],
  ["G", "Goal", "goal", "G"],
];
const VIEWS = [
  ["cost", "Forbidden"],
  ["learned", "Learned agent"],
  ["unconstrained", "Unconstrained"],
  ["demonstrations", "Demos"],
];
const HINTS = {
  walk: "Drag from the orange dot to G, or use the arrow keys.",
  S: "Click where the start shall be.",
  G: "Click where the goal shall be.",
  draw: "Click or drag; on a cell that has it already, it is taken away.",
  look: "Point at a cell to read its numbers.",
};
const OBJECTIVES = {
  auto: "The smallest rule for walks by hand, the plug-in for the expert’s.",
  rule: "The fewest forbidden cells that explain the walks. For a few walks by people, who are clumsy now and then.",
  plugin: "Always has a solution, and a proof that it is the best.",
  likelihood: "Always has a solution; not convex, so there is no proof of a global optimum.",
  moments: "The paper’s. On a slippery floor and with a small budget it often has no solution, and says so.",
};
const page = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
const history = new History();
const scales = { beta: logarithmic(0.005, 1, false), budget: logarithmic(1e-4, 10, true) };
const world = new Board($("world"), "The world");
const inferred = new Board($("inferred"), "What the learner infers");
let presets = [];
let limits = null;
let scene = null;
let result = null;
let walk = null;
let tool = "walk";
let view = "cost";
let used = null; // learn from the first so many demonstrations; null: from all

// --- the conversation with the server -------------------------------------------------------------------------------

const GONE = "The server does not answer. Is `tacit playground` still running in the terminal?";

function failed(words, text, ...buttons) {
  badge(words, "bad");
  problem(text, ...buttons);
  $("inferred-card").classList.add("stale");
}

const conversation = new Conversation({
  question: () => ({ page, scene: firstOnes(), compare: $("compare").checked }),
  busy: (yes) => $("inferred-card").setAttribute("aria-busy", yes),
  slow: () => badge("solving …", "busy"),
  answered: (data) => {
    result = data;
    problem("");
    $("inferred-card").classList.remove("stale");
    render();
    announce();
  },
  refused: (why) => failed("not solved", why),
  gone: () => failed("no answer", GONE, ["Try again", ask]),
});

const available = () => scene.demonstrations.length + scene.expert.n;

/** The scene with as many demonstrations as are to be used: yours first, then the expert's. */
function firstOnes() {
  if (used === null) return scene;
  const own = scene.demonstrations.slice(0, used);
  return { ...scene, demonstrations: own, expert: { ...scene.expert, n: Math.max(0, used - own.length) } };
}

function ask() {
  if (solvable(scene)) return conversation.ask();
  conversation.stop();
  failed("no way to the goal", "The goal cannot be reached from the start: open a wall between them.");
}

// --- changing the scene ---------------------------------------------------------------------------------------------

function restart() {
  walk = { cells: [find(scene, "S")], actions: [] };
}

/** After any change: drop what no longer fits, draw, remember, ask. */
function changed() {
  used = null;
  const before = scene.demonstrations.length;
  scene.demonstrations = scene.demonstrations.filter((path) => fits(scene, path));
  const lost = before - scene.demonstrations.length;
  if (lost) toast(`${lost} of your demonstrations no longer fit${lost === 1 ? "s" : ""} this world and ${lost === 1 ? "is" : "are"} gone.`, "Undo", undo);
  if (!fits(scene, walk)) restart();
  if (result && (result.reachable.length !== height(scene) || result.reachable[0].length !== width(scene))) result = null;
  remember("scene", scene);
  render();
  ask();
}

/** One change that can be undone. */
function change(make) {
  history.keep(scene);
  make();
  changed();
}

function replaceScene(next) {
  scene = copy(next);
  result = null;
  restart();
  changed();
}

function undo() {
  if (walk.cells.length > 1) { // a walk in the making: one step back
    walk.cells.pop();
    walk.actions.pop();
    return render();
  }
  const earlier = history.undo(scene);
  if (earlier) replaceScene(earlier);
}

function redo() {
  const later = history.redo(scene);
  if (later) replaceScene(later);
}

// --- walking and drawing --------------------------------------------------------------------------------------------

function act(action) {
  if (walk.actions.length >= limits.steps) {
    toast(`A demonstration has at most ${limits.steps} steps; this walk starts again.`);
    restart();
    return false;
  }
  const at = walk.cells.at(-1);
  const next = step(scene, at, action, $("slippery").checked);
  const bumped = next[0] === at[0] && next[1] === at[1];
  if (bumped && !$("slippery").checked) {
    say("blocked");
    return false;
  }
  walk.cells.push(next);
  walk.actions.push(action);
  say(`row ${next[0]}, column ${next[1]}${kind(scene, ...next) === "X" ? ", a hidden constraint" : ""}`);
  if (kind(scene, ...next) !== "G") return true;
  if (scene.demonstrations.length >= limits.own) {
    toast(`There can be at most ${limits.own} demonstrations of your own; remove some first.`);
    restart();
    return false;
  }
  const finished = walk;
  restart();
  change(() => scene.demonstrations.push(finished));
  toast("Demonstration kept. Show another, or watch what it says.");
  return false;
}

/** Walk to a cell on a shortest way that enters no hidden cell, unless that is the cell. */
function walkTo(target) {
  for (let n = 0; n < 60; n++) {
    const at = walk.cells.at(-1);
    if (at[0] === target[0] && at[1] === target[1]) break;
    const actions = way(scene, at, target);
    if (!actions?.length || !act(actions[0])) break;
  }
  render();
}

let stroke = null; // {mark, last, dirty}

function beginStroke(cell) {
  const same = kind(scene, ...cell) === tool;
  stroke = { mark: same && "#X".includes(tool) ? "." : tool, last: cell, kept: false };
  paint(cell);
}

function paint(cell) {
  const before = copy(scene);
  const marked = line(stroke.last, cell).filter(([r, c]) => draw(scene, r, c, stroke.mark)).length;
  stroke.last = cell;
  if (!marked) return;
  if (!stroke.kept) history.keep(before);
  stroke.kept = true;
  changed();
}

world.root.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  event.preventDefault();
  const cell = world.at(event);
  world.root.setPointerCapture(event.pointerId);
  world.moveTo(...cell, true);
  if (tool === "walk") {
    stroke = { last: cell, point: world.point(event) };
    walkTo(cell);
    // A walk that has just been kept starts anew only with a new press.
    if (walk.cells.length === 1 && kind(scene, ...cell) === "G") stroke = null;
  } else beginStroke(cell);
});
world.root.addEventListener("pointermove", (event) => {
  const cell = world.at(event);
  $("world-readout").textContent = readout(cell);
  if (!stroke) return;
  if (tool === "walk") return follow(event);
  if (cell[0] === stroke.last[0] && cell[1] === stroke.last[1]) return;
  world.moveTo(...cell);
  paint(cell);
});
/** Walk where the pointer has been: through the cells whose middle it has crossed, and no others. */
function follow(event) {
  const kept = scene.demonstrations.length;
  // A browser tells of several movements at once; the path between them matters.
  const events = event.getCoalescedEvents?.() ?? [];
  for (const one of events.length ? events : [event]) {
    const point = world.point(one);
    for (const cell of meant(stroke.point, point)) {
      walkTo(cell);
      if (scene.demonstrations.length > kept) {
        stroke = null; // the walk is kept; a new one begins with a new press
        return;
      }
    }
    stroke.point = point;
  }
  world.moveTo(...walk.cells.at(-1));
}

for (const end of ["pointerup", "pointercancel"]) world.root.addEventListener(end, () => { stroke = null; });
world.root.addEventListener("pointerleave", () => { $("world-readout").textContent = HINTS[tool] ?? HINTS.draw; });
inferred.root.addEventListener("pointermove", (event) => { $("inferred-readout").textContent = describe(scene, result, ...inferred.at(event)); });
inferred.root.addEventListener("pointerleave", () => { $("inferred-readout").textContent = HINTS.look; });
for (const board of [world, inferred]) {
  board.root.addEventListener("focusin", () => {
    if (board === inferred) $("inferred-readout").textContent = describe(scene, result, ...board.cursor);
    else $("world-readout").textContent = readout(board.cursor);
  });
}

const readout = ([r, c]) => `row ${r}, column ${c}: ${KINDS[kind(scene, r, c)]}`;

const ARROWS = { ArrowRight: 0, ArrowLeft: 1, ArrowDown: 2, ArrowUp: 3, PageDown: 4, PageUp: 5, End: 6, Home: 7 };

function onBoardKey(board, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const action = ARROWS[event.key];
  if (action !== undefined) {
    event.preventDefault();
    if (board === world && tool === "walk") {
      if (action >= scene.moves) return toast("Diagonal steps need 8 moves (settings).");
      act(action);
      render();
      world.moveTo(...walk.cells.at(-1));
    } else {
      const [dr, dc] = MOVES[action];
      board.moveTo(board.cursor[0] + dr, board.cursor[1] + dc);
    }
  } else if ((event.key === " " || event.key === "Enter") && board === world) {
    event.preventDefault();
    if (tool === "walk") return walkTo(world.cursor);
    beginStroke(world.cursor);
    stroke = null;
    say(readout(world.cursor));
  } else if (event.key === "Escape" && board === world) discard();
}
world.root.addEventListener("keydown", (event) => onBoardKey(world, event));
inferred.root.addEventListener("keydown", (event) => onBoardKey(inferred, event));

function discard() {
  restart();
  stroke = null;
  render();
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.preventDefault();
    return event.shiftKey ? redo() : undo();
  }
  const typing = event.target.matches("input[type=number], select") || event.ctrlKey || event.metaKey || event.altKey;
  if (typing || !scene) return;
  // Arrow keys walk at once, also before anything on the page has been chosen.
  if (tool === "walk" && event.target === document.body && event.key.startsWith("Arrow")) {
    world.moveTo(...walk.cells.at(-1), true);
    return onBoardKey(world, event);
  }
  const number = Number(event.key);
  if (number >= 1 && number <= TOOLS.length) choose(TOOLS[number - 1][0]);
  else if (event.key === "e") change(() => { scene.expert.n = Math.min(limits.expert, scene.expert.n + 10); });
  else if (event.key === "t") $("compare").click();
});

// --- showing --------------------------------------------------------------------------------------------------------

function render() {
  showWorld(world, scene, { expert: result?.expert ?? [], walk, demonstrating: tool === "walk", used: used ?? Infinity });
  const shown = showInferred(inferred, scene, result, { view, arrows: $("arrows").checked, compare: $("compare").checked });
  const own = scene.demonstrations.length;
  $("counts").replaceChildren(element("span", { className: "dot mine" }), `${own} of yours`, element("span", { className: "dot theirs" }), `${scene.expert.n} of the expert`);
  $("discard").hidden = walk.cells.length < 2;
  $("forget").hidden = !own;
  $("used-control").hidden = available() < 2;
  $("empty").hidden = Boolean(own || scene.expert.n) || view === "unconstrained";
  $("undo").disabled = !history.past.length && walk.cells.length < 2;
  $("redo").disabled = !history.future.length;
  showControls();
  showAnswer(shown);
}

function showControls() {
  const set = (id, value) => { if (document.activeElement !== $(id) || $(id).type !== "number") $(id).value = value; };
  set("slip", scene.slip);
  set("moves", scene.moves);
  set("height", height(scene));
  set("width", width(scene));
  set("expert-n", scene.expert.n);
  set("expert-beta", scales.beta.position(scene.expert.beta));
  set("beta", scales.beta.position(scene.beta));
  set("budget", scales.budget.position(scene.budget));
  set("objective", scene.objective);
  $("used").max = Math.max(1, available());
  $("used").value = used ?? available();
  $("used-out").textContent = used === null ? `all ${available()}` : `the first ${used} of ${available()}`;
  $("used").setAttribute("aria-valuetext", $("used-out").textContent);
  $("slip-out").textContent = scene.slip;
  $("expert-n-out").textContent = scene.expert.n;
  $("expert-beta-out").textContent = scene.expert.beta;
  $("beta-out").textContent = scene.beta;
  $("budget-out").textContent = scene.budget;
  $("objective-hint").textContent = OBJECTIVES[scene.objective];
  for (const [id, text] of [["expert-beta", scene.expert.beta], ["beta", scene.beta], ["budget", scene.budget]]) $(id).setAttribute("aria-valuetext", String(text));
  const chosen = presets.find((preset) => preset.title === scene.name && preset.scene.rows.join() === scene.rows.join());
  $("preset").value = chosen ? chosen.title : "";
  $("about").textContent = chosen ? chosen.about : "A map of your own. The learner sees the walls, but not the crosses.";
  for (const [group, value] of [["tools", tool], ["views", view]]) {
    for (const button of $(group).children) {
      const on = button.dataset.value === value;
      button.setAttribute("aria-checked", on);
      button.tabIndex = on ? 0 : -1;
    }
  }
}

function showAnswer(shown) {
  const compared = $("compare").checked;
  const hidden = scene.rows.some((row) => row.includes("X"));
  $("legend").replaceChildren(...legend(shown, compared && hidden));
  if (result && !conversation.running) badge(...(MOODS[result.status] ?? [result.status, ""]));
  $("verdict").replaceChildren(...verdict(scene, result, shown.marks, limits.budget[1], (make) => change(() => make(scene))));
  $("truth").hidden = !compared || !result?.comparison;
  if (!$("truth").hidden) $("truth").replaceChildren(...comparison(result.comparison));
}

function announce() {
  if (result.status !== "empty") say(`${(MOODS[result.status] ?? [result.status])[0]}. ${$("verdict").firstChild?.textContent ?? ""}`);
}

// --- controls -------------------------------------------------------------------------------------------------------

function choose(value) {
  if (TOOLS.some(([name]) => name === value)) {
    tool = value;
    $("world-readout").textContent = HINTS[tool] ?? HINTS.draw;
  } else view = value;
  render();
}

/** A slider: one entry in the history from the first movement to the last. */
function slider(id, apply) {
  let moving = false;
  $(id).addEventListener("input", () => {
    if (!moving) history.keep(scene);
    moving = true;
    apply(Number($(id).value));
    changed();
  });
  $(id).addEventListener("change", () => { moving = false; });
}

$("used").addEventListener("input", () => {
  const wanted = Number($("used").value);
  used = wanted >= available() ? null : wanted;
  render();
  ask();
});
slider("slip", (value) => { scene.slip = value; });
slider("expert-n", (value) => { scene.expert.n = value; });
slider("expert-beta", (value) => { scene.expert.beta = scales.beta.value(value); });
slider("beta", (value) => { scene.beta = scales.beta.value(value); });
slider("budget", (value) => { scene.budget = scales.budget.value(value); });
$("moves").onchange = () => change(() => { scene.moves = Number($("moves").value); });
$("objective").onchange = () => change(() => { scene.objective = $("objective").value; });
for (const id of ["height", "width"]) {
  $(id).onchange = () => {
    const [low, high] = limits.side;
    const wanted = ["height", "width"].map((side) => Math.min(high, Math.max(low, Math.round(Number($(side).value)) || low)));
    change(() => resize(scene, ...wanted));
    $(id).value = id === "height" ? height(scene) : width(scene);
  };
}
$("reroll").onclick = () => change(() => { scene.expert.seed = (scene.expert.seed + 1) % limits.seed; scene.expert.n ||= 50; });
$("ask").onclick = () => change(() => { scene.expert.n = 50; });
$("discard").onclick = discard;
$("forget").onclick = () => change(() => { scene.demonstrations = []; });
$("undo").onclick = undo;
$("redo").onclick = redo;
$("arrows").onchange = render;
$("compare").onchange = () => { render(); ask(); };
$("preset").onchange = () => {
  const chosen = presets.find((preset) => preset.title === $("preset").value);
  if (!chosen) return;
  history.keep(scene);
  replaceScene({ ...chosen.scene, expert: { ...chosen.scene.expert, n: scene.expert.n } });
};

startFiles({ current: () => scene, replace: (next) => { history.keep(scene); replaceScene(next); } });

// --- start ----------------------------------------------------------------------------------------------------------

async function start() {
  startTheme();
  radio($("tools"), TOOLS, choose);
  radio($("views"), VIEWS, choose);
  $("world-readout").textContent = HINTS.walk;
  $("inferred-readout").textContent = HINTS.look;
  try {
    ({ presets, limits } = await (await fetch("/api/presets")).json());
  } catch {
    return failed("no answer", GONE, ["Try again", () => location.reload()]);
  }
  $("preset").replaceChildren(element("option", { value: "", textContent: "your own" }), ...presets.map(({ title }) => element("option", { value: title, textContent: title })));
  let first = presets[0].scene;
  const remembered = recall("scene");
  if (remembered) {
    const [status, checked] = await post("/api/check", { scene: remembered }).catch(() => [0, null]);
    if (status === 200) first = checked.scene;
  }
  replaceScene(first);
  world.moveTo(...find(scene, "S"));
}

start();
