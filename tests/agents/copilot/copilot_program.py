#!/usr/bin/env python3
"""A small Copilot over ACP: it runs commands, and calls its plugin's hook before each.

The prompt is the command. If its first word is "stop", the hook's processes are killed as soon as a
file "kill" exists, and it continues when "go-on" exists.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODES = "https://agentclientprotocol.com/protocol/session-modes#"


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(what: str, /, **more: Any) -> None:
    params = {"sessionId": "s1", "update": {"sessionUpdate": what, **more}}
    send(method="session/update", params=params)


def hook() -> str:
    [folder] = [Path(w.partition("=")[2]) for w in sys.argv if w.startswith("--plugin-dir=")]
    plugin = json.loads((folder / "plugin.json").read_text())
    [entry] = json.loads((folder / plugin["hooks"]).read_text())["hooks"]["preToolUse"]
    assert entry["timeoutSec"] > 60
    command: str = entry["bash"]
    return command


def wait_for(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.01)


def asked(command: str, kill: bool) -> dict[str, Any]:
    given = json.dumps({"sessionId": "s1", "toolName": "bash", "toolArgs": {"command": command}})
    pipe = subprocess.PIPE
    argv = ["sh", "-c", hook()]
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0)
    if kill:
        assert process.stdin
        process.stdin.write(given.encode())
        process.stdin.close()
        wait_for("kill")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_for("go-on")
        return {"permissionDecision": "deny", "permissionDecisionReason": "it was killed"}
    out, err = process.communicate(given.encode())
    if process.returncode:
        return {"permissionDecision": "deny", "permissionDecisionReason": err.decode()}
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def prompt(id: int, text: str) -> None:
    first, _, rest = text.partition(" ")
    command = rest if first == "stop" else text
    call = {"toolCallId": f"c{id}", "title": "a command", "kind": "execute"}
    update("tool_call", **call, status="pending", rawInput={"command": command})
    ruling = asked(command, kill=first == "stop")
    if ruling["permissionDecision"] == "allow":
        command = ruling.get("modifiedArgs", {}).get("command", command)
        subprocess.run(["sh", "-c", command], check=True)
        update("tool_call_update", toolCallId=f"c{id}", status="completed", rawOutput={})
    else:
        why = {"message": ruling["permissionDecisionReason"], "code": "denied"}
        update("tool_call_update", toolCallId=f"c{id}", status="failed", rawOutput=why)
        update("agent_message_chunk", content={"type": "text", "text": why["message"].strip()})
    send(id=id, result={"stopReason": "end_turn"})


for line in sys.stdin:
    match json.loads(line):
        case {"id": id, "method": "initialize"}:
            send(id=id, result={"protocolVersion": 1, "agentCapabilities": {}})
        case {"id": id, "method": "session/new"}:
            modes = [{"id": f"{MODES}agent", "name": "Agent"}]
            blocks = {"currentModeId": f"{MODES}agent", "availableModes": modes}
            send(id=id, result={"sessionId": "s1", "modes": blocks})
        case {"id": id, "method": "session/prompt", "params": params}:
            prompt(id, params["prompt"][-1]["text"])
