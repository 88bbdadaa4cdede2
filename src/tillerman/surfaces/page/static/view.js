// What belongs to this browser alone: theme, panel, screen of the phone, times, title, notifications.
const root = document.documentElement, body = document.body;
const plain = document.title.replace(/^\(\d+\) /, "");
let told = 0;

const shown = (seconds) => {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
};

const times = () => {
  for (const one of document.querySelectorAll("time[data-since]")) {
    const text = shown((Date.now() - Date.parse(one.dateTime)) / 1000);
    if (one.textContent !== text) one.textContent = text;
  }
};

const notify = (count) => {
  if (count <= told || !document.hidden || localStorage.notify !== "on" || !("Notification" in window)) return;
  const row = document.querySelector("#rail .need .srow .t");
  new Notification("tillerman needs you", { body: row?.textContent ?? "", tag: "tillerman" }).onclick = () => focus();
};

export const updateTitle = () => {
  const count = document.querySelectorAll("#rail .need .srow").length;
  document.title = (count ? `(${count}) ` : "") + plain;
  notify(count);
  told = count;
  times();
};

// Asking all agents takes seconds: the list comes first.
const showAgents = async () => {
  const places = [...document.querySelectorAll("[data-agent]")];
  if (!places.length) return;
  const answer = await fetch("/api/v1/agents");
  if (!answer.ok) return;
  const agents = new Map((await answer.json()).map((one) => [one.name, one]));
  for (const place of places) {
    const agent = agents.get(place.dataset.agent), row = place.closest("li");
    if (!agent) continue;
    place.textContent = agent.state;
    row.querySelector("b").textContent = agent.title;
    row.classList.toggle("off", agent.state === "not installed");
    if (agent.state === "not installed") row.parentElement.append(row); // usable ones come first
  }
};

const choose = (name, value) => { body.dataset[name] = value; };

export const attachView = () => {
  if (localStorage.theme) root.dataset.theme = localStorage.theme;
  const wanted = new URLSearchParams(location.search).get("screen");
  if (wanted) choose("screen", wanted);
  document.addEventListener("click", async (event) => {
    const target = event.target.closest?.("button, a");
    if (!target) return;
    if (target.matches("[data-theme-switch]")) {
      const dark = root.dataset.theme === "dark" || (root.dataset.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
      localStorage.theme = root.dataset.theme = dark ? "light" : "dark";
    } else if (target.matches("[data-panel]")) {
      const narrow = matchMedia("(max-width: 1180px)").matches;
      choose("side", narrow ? (body.dataset.side === "over" ? "open" : "over") : body.dataset.side === "closed" ? "open" : "closed");
      target.setAttribute("aria-expanded", String(narrow ? body.dataset.side === "over" : body.dataset.side === "open"));
    } else if (target.matches(".tab, .back") && document.getElementById("log")) {
      event.preventDefault();
      choose("screen", new URL(target.href).searchParams.get("screen"));
    } else if (target.matches("[data-copy]")) {
      await navigator.clipboard?.writeText(target.closest(".codeblk").querySelector("code").textContent);
    } else if (target.matches("[data-notify]")) {
      const on = localStorage.notify !== "on" && (await Notification.requestPermission()) === "granted";
      localStorage.notify = on ? "on" : "off";
      target.setAttribute("aria-pressed", String(on));
    }
  });
  document.querySelector("[data-notify]")?.setAttribute("aria-pressed", String(localStorage.notify === "on"));
  setInterval(times, 1000);
  showAgents();
  updateTitle();
};
