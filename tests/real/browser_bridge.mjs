// Drives Chromium for a test: a command a line on stdin, its result a line on stdout.
import { createInterface } from "node:readline";
const { chromium } = await import(process.argv[2]);

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
  "--disable-background-networking", "--disable-component-update"];
const browser = await chromium.launch({ executablePath: process.argv[3], args: flags });
let context, pages = [], faults = [], bytes = 0;

const open = async () => {
  const page = await context.newPage();
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith("http://127.0.0.1:")) faults.push(`foreign request: ${request.url()}`); });
  page.on("requestfinished", async (request) => { const sizes = await request.sizes().catch(() => null); if (sizes) bytes += sizes.responseBodySize + sizes.responseHeadersSize; });
  pages.push(page);
};

const commands = {
  async open({ width, height, cookies = [], scripts = true }) {
    await context?.close();
    pages = []; faults = []; bytes = 0;
    context = await browser.newContext({ viewport: { width, height }, javaScriptEnabled: scripts });
    await context.addCookies(cookies);
    await open();
  },
  tab: open,
  goto: ({ tab = 0, url }) => pages[tab].goto(url, { waitUntil: "load" }).then((answer) => answer.status()),
  eval: ({ tab = 0, code }) => pages[tab].evaluate(code),
  async until({ tab = 0, code }) { // by evaluating: the page's policy forbids `waitForFunction`
    for (const end = Date.now() + 30000; ;) {
      if (await pages[tab].evaluate(code).catch(() => false)) return true;
      if (Date.now() > end) throw new Error(`it never came true: ${code}`);
      await new Promise((later) => setTimeout(later, 50));
    }
  },
  click: ({ tab = 0, selector }) => pages[tab].click(selector, { timeout: 10000 }),
  fill: ({ tab = 0, selector, text }) => pages[tab].fill(selector, text, { timeout: 10000 }),
  press: ({ tab = 0, key }) => pages[tab].keyboard.press(key),
  select: ({ tab = 0, selector, value }) => pages[tab].selectOption(selector, value),
  reload: ({ tab = 0 }) => pages[tab].reload().then(() => true),
  offline: ({ value }) => context.setOffline(value),
  axe: async ({ tab = 0, script }) => {
    await pages[tab].evaluate(script);
    const found = await pages[tab].evaluate("axe.run(document, {resultTypes: ['violations']})");
    return found.violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map((one) => one.html.slice(0, 200)) }));
  },
  shot: ({ tab = 0, path }) => pages[tab].screenshot({ path }).then(() => true),
  faults: () => faults.splice(0),
  bytes: () => bytes,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...options } = JSON.parse(line);
  let answer;
  try { answer = { result: (await commands[command](options)) ?? null }; } catch (error) { answer = { error: String(error.message) }; }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
await browser.close();
