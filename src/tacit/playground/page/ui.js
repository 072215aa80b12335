// Small pieces of the page: messages, what the browser remembers, colours, buttons of which one is on.

import { element } from "./boards.js";

const STORED = "tacit-playground";
export const $ = (id) => document.getElementById(id);

export function say(text) {
  $("says").textContent = text;
}

export function toast(text, label, action) {
  const made = element("div", { className: "toast" }, text);
  if (label) made.append(element("button", { textContent: label, onclick: () => { made.remove(); action(); } }));
  $("toasts").replaceChildren(made);
  setTimeout(() => made.remove(), label ? 9000 : 4000);
}

export function remember(key, value) {
  try { localStorage.setItem(`${STORED}-${key}`, JSON.stringify(value)); } catch { /* private windows may not */ }
}

export function recall(key) {
  try { return JSON.parse(localStorage.getItem(`${STORED}-${key}`)); } catch { return null; }
}

export function problem(text, ...buttons) {
  $("problem").hidden = !text;
  $("problem").replaceChildren();
  if (text) $("problem").append(element("span", { textContent: text }));
  if (buttons.length) {
    $("problem").append(element("span", { className: "row-of" }, ...buttons.map(([label, action]) =>
      element("button", { textContent: label, onclick: action }))));
  }
}

export function badge(text, mood = "") {
  $("badge").textContent = text;
  $("badge").className = `badge ${mood}`;
}

/** Buttons of which one is on, as radio buttons: arrows choose, Tab leaves. */
export function radio(group, entries, choose) {
  group.replaceChildren(...entries.map(([value, label, swatch, text], index) => {
    const button = element("button", { type: "button", role: "radio", onclick: () => choose(value) });
    button.dataset.value = value;
    if (swatch !== undefined) {
      button.append(element("span", { className: `swatch ${swatch}`, textContent: text, "aria-hidden": "true" }));
      button.title = `${label} (${index + 1})`;
    }
    button.append(label);
    return button;
  }));
  group.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const buttons = [...group.children];
    const next = buttons[(buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length];
    next.focus();
    next.click();
  });
}

const THEMES = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  $("theme").textContent = THEMES[name][0];
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[name][1]}`);
  remember("theme", name);
}
$("theme").onclick = () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % names.length]);
};

/** As it was left, or as the system is. */
export function startTheme() {
  const stored = recall("theme");
  setTheme(Object.hasOwn(THEMES, stored ?? "") ? stored : "auto");
}
