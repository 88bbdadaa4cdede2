// A request takes an answer only after it stood still for 300 ms, and only the one that was shown.
import { send } from "./forms.js";

const STILL = 300;
let timer, last = "", observer;

const dock = () => document.getElementById("dock");
const connected = () => document.body.dataset.net !== "lost";

const disable = () => {
  for (const button of dock()?.querySelectorAll(".acts button") ?? []) button.disabled = !connected();
};

const arm = () => {
  const form = dock();
  if (!form) return;
  clearTimeout(timer);
  form.dataset.armed = "false";
  timer = setTimeout(() => { form.dataset.armed = "true"; }, STILL);
};

const look = () => {
  const acts = dock()?.querySelector(".acts.step-ask, .acts.two");
  if (!acts) return;
  const place = acts.getBoundingClientRect();
  const now = `${dock().dataset.request}|${place.top}|${place.left}|${place.width}`;
  if (now !== last) { last = now; arm(); }
};

const watch = () => {
  const form = dock();
  const waits = form?.dataset.request ? (form.classList.contains("question") ? "question" : "permission") : "none";
  if (document.body.dataset.dock !== waits) document.body.dataset.dock = waits;
  observer?.disconnect();
  if (form) { observer = new ResizeObserver(look); observer.observe(form); }
  look();
  disable();
};

const seenWhole = (form) => {
  const body = form.querySelector(".dock-body");
  return !body || body.scrollTop + body.clientHeight >= body.scrollHeight - 4;
};

// An approval needs the end of the command in view.
const mayAllow = (form) => {
  if (seenWhole(form) || form.dataset.seen) return true;
  const body = form.querySelector(".dock-body");
  body.scrollTop = body.scrollHeight;
  body.focus();
  form.dataset.seen = "1";
  arm();
  return false;
};

const ask = (form, name, label, text = "") => {
  const old = form.querySelector(`[name=${name}]`);
  if (old) { old.focus(); return; }
  const row = document.createElement("p"), box = document.createElement("textarea");
  box.name = name; box.value = text; box.rows = Math.min(10, text.split("\n").length); box.setAttribute("aria-label", label); box.placeholder = label;
  row.className = "extra"; row.append(box);
  form.querySelector(".dock-body").append(row);
  box.focus();
};

export const press = (selector) => {
  const form = dock();
  if (form?.dataset.armed === "true" && connected()) form.querySelector(selector)?.click();
};

export const attachDock = () => {
  document.addEventListener("patched", watch);
  document.addEventListener("net", disable);
  document.addEventListener("visibilitychange", arm);
  document.addEventListener("click", (event) => {
    const form = event.target.closest("#dock");
    if (!form) return;
    if (event.target.closest("[data-reason]")) ask(form, "note", "What to do instead");
    if (event.target.closest("[data-change]")) ask(form, "input", "Changed input (JSON)", form.querySelector(".whole code")?.textContent ?? "");
    const narrow = matchMedia("(max-width: 720px)").matches;
    const step = event.target.closest("[data-step-to]")?.dataset.stepTo ?? (narrow && event.target.closest(".step-ask .always-b") ? "always" : "");
    if (step) { event.preventDefault(); form.dataset.step = step; arm(); }
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.id !== "dock") return;
    event.preventDefault();
    const option = event.submitter?.value;
    if (form.dataset.armed !== "true" || !connected()) return;
    if (option !== "deny" && !mayAllow(form)) return;
    form.dataset.armed = "false";
    const answer = await send(form, event.submitter);
    if (!answer.ok) arm();
  });
  watch();
};
