"""The `tillerman` of command blocks: the real program, with the mock agent in place of others.

Commands that run until they are interrupted are interrupted after a moment, and a pipeline when it
waits at a gate.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

ELSEWHERE = ("claude", "codex", "cursor", "gemini", "qwen", "opencode", "copilot", "acp:")
ENDLESS = (["requests", "watch"], ["mcp", "serve"])
MOMENT = 4.0


def with_mock(words: list[str]) -> list[str]:
    if words[:1] in (["hooks"], ["hook"], ["agents"], ["status"], ["policy"], ["doctor"]):
        return words  # these need no agent
    return [
        "mock" if before in ("-a", "--agent") and word.startswith(ELSEWHERE) else word
        for before, word in zip(["", *words], words, strict=False)
    ]


def until_a_gate(command: list[str]) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        at_gate = False
        for line in program.stdout:
            print(line, end="")
            if not at_gate and "tillerman pipeline approve " in line:
                at_gate = True
                program.send_signal(signal.SIGINT)
        code = program.wait(60)
        return 0 if at_gate and code == 130 else code


def main() -> int:
    words = with_mock(sys.argv[1:])
    command = [sys.executable, "-m", "tillerman", *words]
    if words[:2] == ["pipeline", "run"]:
        return until_a_gate(command)
    if words[:2] not in ENDLESS:
        os.execv(sys.executable, command)
    with subprocess.Popen(command) as program:
        try:
            return program.wait(MOMENT)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGINT)
            code = program.wait(20)
            return 0 if code in (0, 130, -signal.SIGINT) else code


if __name__ == "__main__":
    sys.exit(main())
