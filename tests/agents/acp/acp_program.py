"""A small ACP agent as a separate program: `python acp_program.py --acp`.

It echoes; "write NAME" requests permission and writes a file, "wait" waits until it is cancelled,
"die" exits. It stores its sessions in a separate folder, and replays their history when one is
loaded.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

LISTS = "--no-list" not in sys.argv
MEMORY = Path(os.environ["HOME"]) / ".program"


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session: str, kind: str, **more: Any) -> None:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **more}}
    send(method="session/update", params=params)


def send_text(session: str, text: str, kind: str = "agent_message_chunk") -> None:
    update(session, kind, content={"type": "text", "text": text})


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def write(session: str, name: str, cwd: str) -> str:
    path = str(Path(cwd) / name)
    diff = {"type": "diff", "path": path, "oldText": None, "newText": "written\n"}
    call = {"toolCallId": f"w-{name}", "title": f"Writing {name}", "kind": "edit"}
    call |= {"locations": [{"path": path}], "content": [diff]}
    kinds = ("allow_always", "allow_once", "reject_once")
    options = [{"optionId": f"o{n}", "name": kind, "kind": kind} for n, kind in enumerate(kinds)]
    params = {"sessionId": session, "toolCall": call, "options": options}
    send(id="ask-1", method="session/request_permission", params=params)
    while (answer := receive()).get("id") != "ask-1":
        pass
    chosen = answer["result"]["outcome"].get("optionId")
    if chosen != "o1":
        update(session, "tool_call_update", toolCallId=call["toolCallId"], status="failed")
        return f"not written ({chosen})"
    Path(path).write_text("written\n")
    update(session, "tool_call_update", toolCallId=call["toolCallId"], status="completed")
    return "written"


def prompt(session: str, blocks: list[dict[str, Any]], cwd: str) -> str:
    text = " ".join(block["text"] for block in blocks if block["type"] == "text")
    match text.split():
        case ["write", name]:
            send_text(session, write(session, name, cwd))
        case ["wait"]:
            send_text(session, "waiting")
            while receive().get("method") != "session/cancel":
                pass
            return "cancelled"
        case ["die"]:
            print("a sad end", file=sys.stderr)
            sys.exit(3)
        case ["variable", name]:
            send_text(session, os.environ.get(name, "unset"))
        case _:
            history = MEMORY / session
            before = history.read_text().count("\n") if history.exists() else 0
            for word in (f"{before} before; ", "you said ", text):
                send_text(session, word)
            with history.open("a") as file:
                file.write(text + "\n")
    return "end_turn"


def main() -> None:
    assert sys.argv[1:2] == ["--acp"], sys.argv
    MEMORY.mkdir(parents=True, exist_ok=True)
    cwd = ""
    while True:
        match receive():
            case {"id": id, "method": "initialize"}:
                can: dict[str, Any] = {"loadSession": True, "promptCapabilities": {"image": True}}
                if LISTS:
                    can["sessionCapabilities"] = {"list": {}}
                info = {"name": "program", "version": "4.5.6"}
                send(
                    id=id,
                    result={"protocolVersion": 1, "agentInfo": info, "agentCapabilities": can},
                )
            case {"id": id, "method": "session/list", "params": {"cwd": cwd}} if LISTS:
                one = {"sessionId": "s1", "title": "One", "updatedAt": "2026-01-02T03:04:05Z"}
                send(
                    id=id, result={"sessions": [{**one, "cwd": cwd}, {**one, "cwd": "/elsewhere"}]}
                )
            case {"id": id, "method": "session/new", "params": params}:
                cwd = params["cwd"]
                send(id=id, result={"sessionId": f"s{len(list(MEMORY.iterdir())) + 1}"})
            case {"id": id, "method": "session/load", "params": params}:
                cwd, session = params["cwd"], params["sessionId"]
                for line in (MEMORY / session).read_text().splitlines():
                    send_text(session, line, "user_message_chunk")
                    send_text(session, f"you said {line}")
                send(id=id, result={})
            case {"id": id, "method": "session/prompt", "params": params}:
                reason = prompt(params["sessionId"], params["prompt"], cwd)
                send(id=id, result={"stopReason": reason})
            case {"id": id, "method": method}:
                send(id=id, error={"code": -32601, "message": f"no {method}"})


main()
