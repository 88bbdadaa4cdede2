// Follows the session: applies frames as they come, and reconnects without losing or repeating any.
import { apply } from "./patches.js";
import { keep, trim } from "./scroll.js";
import { updateTitle } from "./view.js";

const SILENCE = 15000, DELAYS = [500, 1000, 2000, 4000, 8000];
let source, seq, heard = 0, failures = 0, timer, lost, frames = [];

const draw = () => {
  const ops = frames.flatMap((frame) => frame.ops);
  seq = frames.at(-1).seq;
  frames = [];
  let complete = true;
  keep(() => { complete = apply(ops); });
  trim();
  updateTitle();
  document.dispatchEvent(new CustomEvent("patched"));
  if (!complete) { seq = 0; open(); } // the server sends the blocks whole
};

const online = () => {
  heard = Date.now();
  failures = 0;
  clearTimeout(lost);
  lost = undefined;
  document.body.dataset.net = "ok";
  document.dispatchEvent(new CustomEvent("net"));
};

const offline = () => {
  document.body.dataset.net = "lost";
  document.dispatchEvent(new CustomEvent("net"));
};

const open = () => {
  clearTimeout(timer);
  source?.close();
  const { session, first } = document.body.dataset;
  source = new EventSource(`/s/${session}/stream?since=${seq}&first=${first}`);
  source.onopen = online;
  source.addEventListener("beat", online);
  source.addEventListener("frame", (event) => {
    online();
    if (!frames.length) requestAnimationFrame(draw);
    frames.push(JSON.parse(event.data));
  });
  source.addEventListener("signed-out", () => location.assign("/in"));
  source.onerror = () => {
    source.close();
    lost ??= setTimeout(offline, 1000);
    if (document.hidden) return;
    const delay = DELAYS[Math.min(failures++, DELAYS.length - 1)];
    timer = setTimeout(open, delay * (0.5 + Math.random()));
  };
};

const wake = () => { if (!document.hidden && Date.now() - heard > SILENCE) open(); };

export const connect = () => {
  seq = +document.body.dataset.seq;
  heard = Date.now();
  open();
  for (const name of ["visibilitychange", "pageshow", "online"]) addEventListener(name, wake);
  document.addEventListener("visibilitychange", wake);
  setInterval(() => { if (Date.now() - heard > SILENCE) { offline(); wake(); } }, 5000);
  document.querySelector("[data-reconnect]")?.addEventListener("click", open);
};
