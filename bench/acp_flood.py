"""ACP agent that answers a prompt with many updates: `python acp_flood.py COUNT`."""

import json
import sys

SESSION = "bf4d89cd-90e9-4dc7-a5e5-f368152319df"
BLOCK = 500


def say(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def flood(count: int) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "word "}}
    params = {"sessionId": SESSION, "update": update}
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}) + "\n"
    for _ in range(count // BLOCK):
        sys.stdout.write(line * BLOCK)


for line in sys.stdin:
    match json.loads(line):
        case {"id": id, "method": "initialize"}:
            say(id=id, result={"protocolVersion": 1, "agentCapabilities": {}})
        case {"id": id, "method": "session/new"}:
            say(id=id, result={"sessionId": SESSION})
        case {"id": id, "method": "session/prompt"}:
            flood(int(sys.argv[1]))
            say(id=id, result={"stopReason": "end_turn"})
