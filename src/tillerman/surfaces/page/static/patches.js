// Applies the operations of a frame. HTML enters the page only here, through a list of what is allowed.
const ELEMENTS = new Set(("article a b bdi blockquote br button code dd del details div dl dt em fieldset footer form h1 h2 h3 " +
  "h4 h5 h6 header hr i input ins kbd label legend li mark meter ol p pre progress q s section span strong summary svg table tbody " +
  "td textarea th thead time tr ul use select option").split(" "));
const ATTRIBUTES = new Set(("action aria-current aria-describedby aria-hidden aria-keyshortcuts aria-label aria-labelledby autocomplete " +
  "checked class data-armed data-change data-copy data-n data-reason data-request data-since data-step data-step-to datetime disabled " +
  "for formaction hidden href high id low max method min multiple name open optimum placeholder rel required role rows selected start " +
  "tabindex target title type value viewBox").split(" "));
const WEB = /^(https?:\/\/|[#?/](?!\/))/i;

const policy = window.trustedTypes?.createPolicy("tillerman", { createHTML: (html) => html });

const cleaned = (root) => {
  for (const node of [...root.querySelectorAll("*")]) {
    if (!ELEMENTS.has(node.localName)) { node.replaceWith(node.textContent); continue; }
    for (const { name, value } of [...node.attributes]) {
      const link = name === "href" || name === "action" || name === "formaction";
      if (!ATTRIBUTES.has(name) || (link && !WEB.test(value))) node.removeAttribute(name);
    }
  }
  return root;
};

export const fragment = (html) => {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return cleaned(template.content);
};

// Open blocks, and what is selected or focused in one, survive its replacement.
const keepOpen = (old, fresh) => {
  const before = old.querySelectorAll("details"), after = fresh.querySelectorAll("details");
  before.forEach((one, at) => { if (after[at] && one.dataset.touched) { after[at].open = one.open; after[at].dataset.touched = "1"; } });
};
const isHeld = (node) => {
  const selection = getSelection();
  return selection.rangeCount > 0 && !selection.isCollapsed && node.contains(selection.anchorNode);
};
const held = new Map(); // puts that wait for the end of a selection

const put = ({ id, parent, after, html }) => {
  const fresh = fragment(html).firstElementChild, old = document.getElementById(id);
  if (old) {
    if (isHeld(old)) { held.set(id, { id, parent, after, html }); return; }
    held.delete(id);
    keepOpen(old, fresh);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    if (focused) document.getElementById(focused)?.focus();
    return;
  }
  const home = document.getElementById(parent);
  if (!home) return;
  const previous = after && document.getElementById(after);
  if (previous && previous.parentElement === home) previous.after(fresh);
  else if (after === null) home.prepend(fresh);
  else { const end = [...home.children].find((one) => one.classList.contains("turn-end")); end ? end.before(fresh) : home.append(fresh); }
};

// Returns false if the text does not have the length that the server expects.
const add = ({ id, at, text }) => {
  const target = document.querySelector(`#${CSS.escape(id)} .source`);
  if (!target || target.textContent.length !== at) return false;
  target.append(text);
  return true;
};

export const apply = (ops) => {
  let complete = true;
  for (const op of ops) {
    if (op.op === "put") put(op);
    else if (op.op === "del") document.getElementById(op.id)?.remove();
    else if (!add(op)) complete = false;
  }
  return complete;
};

document.addEventListener("selectionchange", () => { if (held.size && getSelection().isCollapsed) { const waiting = [...held.values()]; held.clear(); waiting.forEach(put); } });
document.addEventListener("click", (event) => { const one = event.target.closest?.("summary")?.parentElement; if (one) one.dataset.touched = "1"; });
