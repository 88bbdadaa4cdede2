// Keys, read only while no field has the focus.
import { press } from "./dock.js";
import { stop } from "./composer.js";

const log = document.getElementById("log");
let armedStop = 0, chosen = ""; // the id of a block: its element may be replaced

const typing = () => /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName) || document.activeElement?.isContentEditable;

const current = () => document.getElementById(chosen);

const mark = () => current()?.classList.add("current");

const move = (by) => {
  const blocks = [...log.querySelectorAll(".blk, .prompt")].filter((one) => one.id);
  const at = current() ? blocks.indexOf(current()) : blocks.length;
  current()?.classList.remove("current");
  chosen = blocks[Math.max(0, Math.min(blocks.length - 1, at + by))]?.id ?? "";
  mark();
  current()?.scrollIntoView({ block: "nearest" });
};

const session = (by, only = "") => {
  const rows = [...document.querySelectorAll(`#rail ${only} .srow > a`)];
  const at = rows.findIndex((one) => one.getAttribute("aria-current"));
  const next = rows[(at + by + rows.length) % rows.length];
  if (next) location.assign(next.href);
};

const KEYS = {
  y: () => press(".step-ask .primary"), n: () => press(".step-ask .deny"), a: () => press(".step-ask .always-b"),
  e: () => press("[data-change]"), r: () => press("[data-reason]"),
  j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
  Enter: () => {
    const one = current()?.querySelector("details");
    if (one) { one.open = !one.open; one.dataset.touched = "1"; }
  },
  Home: () => { log.scrollTop = 0; }, End: () => document.querySelector(".to-end").click(),
  "[": () => session(-1), "]": () => session(1), "!": () => session(1, ".need"),
  c: () => location.assign("/new"), "/": () => location.assign("/search"),
  ".": () => document.getElementById("composer-text")?.focus(), p: () => document.querySelector("[data-panel]")?.click(),
  Escape: () => { if (Date.now() - armedStop < 2000) stop(); else armedStop = Date.now(); },
};

export const attachKeys = () => {
  document.addEventListener("patched", mark);
  document.addEventListener("keydown", (event) => {
    if (typing() || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const digit = /^[1-9]$/.test(event.key) && document.querySelectorAll("#dock.question .choices input[type=radio], #dock.question .choices input[type=checkbox]")[event.key - 1];
    if (digit) { event.preventDefault(); digit.click(); return; }
    const action = KEYS[event.key];
    if (!action || (!log && event.key !== "c" && event.key !== "/")) return;
    if (/^(BUTTON|A|SUMMARY)$/.test(document.activeElement?.tagName) && event.key === "Enter") return;
    event.preventDefault();
    action();
  });
};
