"""MCP server for gate probes; its calls create a file: `speak`, and `peek`, marked read-only."""

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "speak", "description": "Says it.", "inputSchema": TEXT},
    {
        "name": "peek",
        "description": "Looks at it.",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
    },
]


def result(method: str, params: dict[str, Any], folder: Path) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "gate", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            (folder / params["name"]).touch()
            return {"content": [{"type": "text", "text": params["arguments"]["text"].upper()}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = result(message["method"], message.get("params", {}), Path(sys.argv[1]))
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
