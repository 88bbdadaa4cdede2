"""Minimal handler of Claude's callback: allows every call immediately.

python -m bench.plain_callback CLAUDE PROMPT
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def main(program: str, prompt: str) -> None:
    process = subprocess.Popen(
        [
            *(program, "-p", "--input-format=stream-json", "--output-format=stream-json"),
            *("--verbose", "--include-partial-messages", "--permission-prompt-tool=stdio"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin and process.stdout

    def say(message: dict[str, Any]) -> None:
        assert process.stdin
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()

    hook = {"matcher": None, "hookCallbackIds": ["call"], "timeout": 60}
    greeting = {"subtype": "initialize", "hooks": {"PreToolUse": [hook]}}
    say({"type": "control_request", "request_id": "hello", "request": greeting})
    words = {"role": "user", "content": prompt}
    say({"type": "user", "message": words, "parent_tool_use_id": None, "session_id": ""})
    allow = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    for line in process.stdout:
        message = json.loads(line)
        if message["type"] == "control_request":
            answer = {"subtype": "success", "request_id": message["request_id"], "response": allow}
            say({"type": "control_response", "response": answer})
        elif message["type"] == "result":
            process.stdin.close()
            print(message["subtype"])
    sys.exit(process.wait())


if __name__ == "__main__":
    main(*sys.argv[1:])
