// A client of the protocol's TypeScript SDK: plays the steps on standard input, prints what came.
// node acp_client.mjs SDK COMMAND [ARGUMENT…]
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, command, ...words] = process.argv.slice(2);
const acp = await import(pathToFileURL(sdk));
const steps = JSON.parse(readFileSync(0, "utf8"));
const agent = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const { agent: calls, client: named } = acp.methods;

let permit = "allow_once";
let updates = [];
let heard = () => {};
const client = acp
  .client({ name: "test" })
  .onRequest(named.session.requestPermission, ({ params }) => {
    const option = params.options.find((one) => one.kind === permit);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(named.session.update, ({ params }) => {
    updates.push(params.update);
    heard(params.update);
  });

async function play(context, step, state) {
  const session = { sessionId: state.session };
  const folder = { cwd: process.cwd(), mcpServers: [] };
  const prompt = (text) =>
    context.request(calls.session.prompt, { ...session, prompt: [{ type: "text", text }] });
  switch (step.op) {
    case "initialize":
      return context.request(calls.initialize, { protocolVersion: 1, clientCapabilities: {} });
    case "new": {
      const told = await context.request(calls.session.new, folder);
      state.session = told.sessionId;
      return told;
    }
    case "load":
      state.session = step.session ?? state.session;
      return context.request(calls.session.load, { ...folder, sessionId: state.session });
    case "list":
      return context.request(calls.session.list, { cwd: process.cwd() });
    case "prompt":
      permit = step.permit ?? permit;
      return prompt(step.text);
    case "cancelled": {
      const speaks = new Promise((resolve) => {
        heard = (update) => update.sessionUpdate === step.at && resolve();
      });
      const turn = prompt(step.text);
      await speaks;
      await context.notify(calls.session.cancel, session);
      return turn;
    }
    case "mode":
      return context.request(calls.session.setMode, { ...session, modeId: step.value });
    case "option":
      return context.request(calls.session.setConfigOption, {
        ...session,
        configId: step.id,
        value: step.value,
      });
    default:
      throw new Error(`no step ${step.op}`);
  }
}

const results = [];
await client.connectWith(stream, async (context) => {
  const state = { session: "" };
  for (const step of steps) {
    updates = [];
    try {
      results.push({ result: await play(context, step, state), updates });
    } catch (error) {
      results.push({ error: { code: error.code, message: error.message, data: error.data }, updates });
    }
  }
});
agent.stdin.end();
await new Promise((resolve) => agent.on("exit", resolve));
process.stdout.write(JSON.stringify(results));
