"""Hook dialect of OpenCode: a generated plugin sends the request and throws unless it is allowed.

A plugin that throws blocks the call; one that cannot be loaded blocks nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import ClassVar

from tillerman.agents.opencode import tool_names
from tillerman.core.json_fields import Table
from tillerman.hooks.dialects import hook_events
from tillerman.hooks.dialects.common_dialect import CommonHookDialect
from tillerman.hooks.dialects.dialect import HookConfigPaths
from tillerman.hooks.dialects.hook_events import HookKind
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload, reply
from tillerman.hooks.protocol import HookReply, refusal

EVENT = "tool.execute.before"
_PLUGIN = """\
// Written by tillerman. `tillerman hooks remove opencode` removes it.
import {{ spawn }} from "node:child_process"

const ask = (payload) =>
  new Promise((resolve, reject) => {{
    const shim = spawn("/bin/sh", ["-c", {command}], {{ timeout: {timeout} }})
    let out = "", said = ""
    shim.stdout.on("data", (data) => (out += data))
    shim.stderr.on("data", (data) => (said += data))
    shim.stdin.on("error", () => {{}})
    shim.on("error", reject)
    shim.on("close", (code) =>
      code === 0 ? resolve(out) : reject(new Error(said.trim() || "tillerman gave no answer")))
    shim.stdin.end(JSON.stringify(payload))
  }})

export const Tillerman = async ({{ directory }}) => ({{
  "tool.execute.before": async (call, output) => {{
    const answer = JSON.parse(await ask({{
      cwd: directory,
      session_id: call.sessionID,
      tool_name: call.tool,
      tool_use_id: call.callID,
      tool_input: output.args,
    }}))
    if (answer.decision !== "allow") throw new Error(answer.reason || "denied by tillerman")
    if (answer.input) output.args = Object.assign(output.args, answer.input)
  }},
}})
"""


class OpenCodeHooks(CommonHookDialect):
    EVENTS: ClassVar = {EVENT: HookKind(hook_events.BeforeTool)}
    CALLS = (EVENT,)
    CHANGES_INPUT = frozenset({EVENT})
    NAMES = tool_names.NAMES
    PLACE = HookConfigPaths(
        project=".opencode/plugin/tillerman.js",
        user=".config/opencode/plugin/tillerman.js",
        code=True,
        moved=("XDG_CONFIG_HOME", ".config"),
    )

    def allow(self, event: HookEvent, *, input: Table | None = None) -> HookReply:
        if isinstance(event, UnreadablePayload):
            return refusal(event.why)
        return reply({"decision": "allow"} | ({} if input is None else {"input": input}))

    def deny(self, event: HookEvent, message: str) -> HookReply:
        if isinstance(event, UnreadablePayload):
            return refusal(message)
        return reply({"decision": "deny", "reason": message})

    def ask(self, event: HookEvent, message: str) -> HookReply:
        """Denies: a plugin cannot ask the user."""
        return self.deny(event, message)

    def config(
        self, commands: Mapping[str, str], version: str | None = None, *, timeout: int = 600
    ) -> dict[str, bytes]:
        command = commands.get(EVENT, f"echo {shlex.quote('no command was given')} >&2; exit 2")
        text = _PLUGIN.format(command=json.dumps(command), timeout=timeout * 1000)
        return {self.PLACE.file: text.encode()}


dialect = OpenCodeHooks()
