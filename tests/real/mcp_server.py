"""A small MCP server on stdin and stdout: `shout` answers in capitals, `flood` with many bytes."""

import json
import sys

TOOLS = [
    {
        "name": "shout",
        "description": "Says it louder.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
    {
        "name": "flood",
        "description": "Says very much.",
        "inputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}},
    },
]


def result(method: str, params: dict) -> dict:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tiny", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call" if params["name"] == "shout":
            text = params["arguments"]["text"].upper()
        case "tools/call":
            size = params["arguments"]["size"]
            text = ("0123456789abcde\n" * (size // 16 + 1))[:size]
        case _:
            return {}
    return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = result(message["method"], message.get("params", {}))
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
