// The reader owns the scroll: what is read stays where it is, and the end stays the end.
const log = document.getElementById("log"), end = document.querySelector(".to-end");
const NEAR = 48, MOST = 1500;
let following = true;

const distance = () => log.scrollHeight - log.scrollTop - log.clientHeight;

// Runs a change of the conversation; afterwards the same block is under the reader's eye.
export const keep = (change) => {
  if (!log) { change(); return; }
  const atEnd = following, top = log.getBoundingClientRect().top;
  const eye = atEnd ? null : [...log.querySelectorAll(".blk, .prompt")].find((one) => one.getBoundingClientRect().bottom > top);
  const id = eye?.id, was = eye?.getBoundingClientRect().top;
  change();
  if (atEnd) { log.scrollTop = log.scrollHeight; return; }
  const now = id && document.getElementById(id);
  if (now) log.scrollTop += now.getBoundingClientRect().top - was;
};

// Too many blocks make typing slow: those far above the reader are taken out, and can be loaded again.
export const trim = () => {
  const turns = document.getElementById("turns");
  if (!following || !turns || log.querySelectorAll(".blk").length <= MOST) return;
  const first = turns.firstElementChild;
  if (!first || first === turns.lastElementChild) return;
  keep(() => first.remove());
  document.body.dataset.first = turns.firstElementChild.id.slice(2);
  document.dispatchEvent(new CustomEvent("earlier-removed"));
};

const loadEarlier = async (link) => {
  link.setAttribute("aria-busy", "true");
  const first = document.body.dataset.first;
  const answer = await fetch(`/s/${document.body.dataset.session}/earlier?before=${first}`);
  if (!answer.ok) { link.removeAttribute("aria-busy"); return; }
  const { first: start, left, html } = await answer.json();
  const { fragment } = await import("./patches.js");
  keep(() => {
    document.getElementById("turns").prepend(fragment(html));
    const place = document.getElementById("earlier");
    if (left) place.replaceWith(fragment(left)); else place.remove();
  });
  document.body.dataset.first = start;
};

export const attachScroll = () => {
  if (!log) return;
  const look = () => {
    following = distance() < NEAR;
    end.hidden = following;
    const link = log.querySelector("#earlier a:not([aria-busy])");
    if (link && log.scrollTop < 2 * log.clientHeight && !following) loadEarlier(link);
  };
  log.scrollTop = log.scrollHeight;
  log.addEventListener("scroll", look, { passive: true });
  log.addEventListener("click", (event) => {
    const link = event.target.closest("#earlier a");
    if (link) { event.preventDefault(); loadEarlier(link); }
  });
  end.addEventListener("click", () => { log.scrollTop = log.scrollHeight; following = true; log.focus(); });
  const pin = new ResizeObserver(() => { if (following) log.scrollTop = log.scrollHeight; });
  pin.observe(log);
  pin.observe(log.firstElementChild);
};

export const follow = () => { following = true; };
