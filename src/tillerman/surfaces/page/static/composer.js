// The prompt box: drafts survive everything, files come by paste and drop, Enter sends.
import { send } from "./forms.js";
import { follow } from "./scroll.js";

const form = document.getElementById("composer"), box = document.getElementById("composer-text");
const key = () => `draft:${document.body.dataset.session ?? "new"}`;
const narrow = () => matchMedia("(max-width: 720px)").matches;
let files = [], lastPrompt = "";

const drawFiles = () => {
  const list = form.querySelector(".chips");
  list.hidden = !files.length;
  list.replaceChildren(...files.map((file, at) => {
    const row = document.createElement("li"), remove = document.createElement("button");
    row.className = "chip";
    remove.type = "button"; remove.textContent = "×"; remove.setAttribute("aria-label", `Remove ${file.name}`);
    remove.addEventListener("click", () => { files.splice(at, 1); drawFiles(); });
    row.append(file.name, remove);
    return row;
  }));
};

const attach = (added) => { files.push(...added); drawFiles(); };

const submit = async (submitter, steer = false) => {
  const stop = submitter?.name === "cancel";
  if (!stop && !box.value.trim()) return;
  const data = new FormData(form, stop ? submitter : null);
  data.delete("files");
  for (const file of files) data.append("files", file);
  if (steer) data.set("if_busy", "steer");
  const answer = await send(form, stop ? submitter : null, data);
  if (!answer.ok) return;
  if (stop) return;
  lastPrompt = box.value;
  box.value = "";
  files = [];
  drawFiles();
  localStorage.removeItem(key());
  follow();
  if (answer.body.location) location.assign(answer.body.location);
};

export const stop = () => form?.querySelector(".stop")?.click();

export const attachComposer = () => {
  if (!form) return;
  box.value ||= localStorage.getItem(key()) ?? "";
  box.addEventListener("input", () => { box.value ? localStorage.setItem(key(), box.value) : localStorage.removeItem(key()); });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !narrow()) { event.preventDefault(); submit(null, event.ctrlKey || event.metaKey); }
    else if (event.key === "ArrowUp" && !box.value && lastPrompt) { event.preventDefault(); box.value = lastPrompt; }
    else if (event.key === "Escape") box.blur();
  });
  box.addEventListener("paste", (event) => { if (event.clipboardData.files.length) { event.preventDefault(); attach(event.clipboardData.files); } });
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => { event.preventDefault(); attach(event.dataTransfer.files); });
  form.querySelector("[type=file]").addEventListener("change", (event) => { attach(event.target.files); event.target.value = ""; });
  form.addEventListener("submit", (event) => { event.preventDefault(); submit(event.submitter); });
  for (const select of form.querySelectorAll("select")) select.addEventListener("change", async () => {
    if (!document.body.dataset.session) return;
    const data = new FormData();
    data.set("csrf", form.elements.csrf.value);
    data.set(select.name, select.value);
    await send(form, null, data, `/s/${document.body.dataset.session}/configure`);
  });
};
