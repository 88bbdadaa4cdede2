// Sends a form without leaving the page; what went wrong is said where screen readers hear it too.
export const say = (text) => { document.getElementById("say").textContent = text; };

export const problem = (form, text) => {
  let place = form.querySelector(".form-problem");
  if (!place) { place = document.createElement("p"); place.className = "form-problem"; place.setAttribute("role", "alert"); form.append(place); }
  place.textContent = text;
  place.hidden = !text;
};

export const send = async (form, submitter, data = new FormData(form, submitter ?? null), url = submitter?.getAttribute("formaction") ?? form.getAttribute("action")) => {
  problem(form, "");
  try {
    const answer = await fetch(url, {
      method: "POST", body: data, headers: { Accept: "application/json" }, redirect: "manual" });
    if (answer.ok) return { ok: true, body: await answer.json() };
    const error = await answer.json().catch(() => ({}));
    problem(form, [error.message ?? `The server answered ${answer.status}.`, error.hint].filter(Boolean).join(" "));
  } catch {
    problem(form, "Not sent: there is no connection. Your text is kept.");
  }
  return { ok: false };
};
