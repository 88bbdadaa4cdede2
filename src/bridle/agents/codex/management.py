"""Codex as an agent of bridle: where it is, who is signed in, what it offers and keeps."""

from __future__ import annotations

from bridle.agents.codex.launch import launch
from bridle.agents.stdio import StdioAgent
from bridle.core.agent import AgentInfo, Launch, SessionSpec, Wire

_CAN = frozenset(
    {"streaming", "thinking", "resume", "fork", "steer", "cancel", "permissions", "questions",
     "modes", "model", "effort", "images", "mcp", "system", "folders", "schema", "subagents",
     "usage"}
)  # fmt: skip
INFO = AgentInfo(
    name="codex",
    title="Codex",
    can=_CAN,
    binary="codex",
    install="npm install -g @openai/codex",
    variables=("OPENAI_*", "CODEX_*"),
)
EXEC_INFO = AgentInfo(
    name="codex-exec",
    title="Codex (exec)",
    can=frozenset(
        {"thinking", "resume", "fork", "cancel", "model", "effort", "system", "folders", "schema",
         "usage"}
    ),
    binary=INFO.binary,
    install=INFO.install,
    variables=INFO.variables,
)  # fmt: skip


def _wire(spec: SessionSpec) -> Wire:
    from bridle.agents.codex.wire import CodexWire  # not before the program has been started

    return CodexWire(spec)


def _exec_wire(spec: SessionSpec) -> Wire:
    from bridle.agents.codex.exec_wire import CodexExecWire

    return CodexExecWire(spec)


class Codex(StdioAgent):
    def __init__(self) -> None:
        super().__init__(INFO, _wire)

    def program(self, spec: SessionSpec) -> Launch:
        return launch(spec)


class CodexExec(StdioAgent):
    """By name, not by version: to ask the program for its version would cost each start."""

    def __init__(self) -> None:
        super().__init__(EXEC_INFO, _exec_wire)
