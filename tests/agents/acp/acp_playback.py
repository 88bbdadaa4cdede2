"""Replays both sides of a recorded ACP connection against a wire.

What the recorded host sent is passed to the wire, turn by turn. What the wire sends by itself must
equal what the host sent: the same methods in the same order, for the same session. Answers of the
agent to requests that our wire never sends (a probe for an unknown method, an unsupported mode) are
left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.acp.rows.agent_rows import rows
from tillerman.agents.gemini import launch as gemini
from tillerman.agents.gemini.dialect import GeminiDialect
from tillerman.agents.jsonrpc.peer import RpcRequest
from tillerman.agents.qwen import launch as qwen
from tillerman.agents.qwen.dialect import QwenDialect
from tillerman.core.agent import File, Prompt, SessionSpec
from tillerman.core.events import Answer, Event, PermissionRequested, TurnEnded
from tillerman.core.session_options import session_spec
from tillerman.core.wire import AttachmentBytes, Wire, WireReply

RECORDINGS = Path(__file__).parents[2] / "recordings" / "acp"
SPEC = session_spec(cwd=Path("/proj"))
OPENS = ("session/new", "session/load", "session/resume", "session/fork")

_DIALECTS: dict[str, type[AcpDialect]] = {
    "gemini": GeminiDialect,
    "qwen-0.15.10": QwenDialect,
    "qwen-0.24.4": QwenDialect,
}
# Agents that have packages of their own, or what of them the plain wire needs to know.
_ROWS = {
    "gemini": gemini.ROW,
    "qwen-0.15.10": qwen.ROW,
    "qwen-0.24.4": qwen.ROW,
    "opencode": AcpAgentRow(
        name="opencode", command=("opencode", "acp"), tool_name="title", usage="call"
    ),
    "copilot": AcpAgentRow(
        name="copilot", command=("copilot", "--acp"), notice_prefixes=("Info: ",)
    ),
}

Said = Event | WireReply | AttachmentBytes


def recordings() -> list[Path]:
    return sorted(path.parent for path in RECORDINGS.rglob("wire.jsonl"))


def name(recording: Path) -> str:
    return f"{recording.parent.name}/{recording.name}"


def row_of(recording: Path) -> AcpAgentRow:
    agent, _, version = recording.parent.name.rpartition("-")
    agent = agent if version[:1].isdigit() else recording.parent.name
    row = _ROWS.get(recording.parent.name) or rows()[agent]
    return replace(row, modes={mode: id for mode, id in row.modes.items() if mode != "agent"})


def agent_of(recording: Path) -> AcpAgent:
    return AcpAgent(row_of(recording), _DIALECTS.get(recording.parent.name, AcpDialect))


def lines(recording: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (recording / "wire.jsonl").read_text().splitlines()]


def play(recording: Path) -> list[Said]:
    return Player(agent_of(recording), lines(recording)).play()


def encoded(received: Iterable[Said]) -> str:
    """As in a golden file: an event or a reply on each line, without the bytes of images."""
    return "".join(
        msgspec.json.encode({"reply": one.message} if isinstance(one, WireReply) else one).decode()
        + "\n"
        for one in received
        if not isinstance(one, AttachmentBytes)
    )


class Player:
    """`heard_lines`: the agent's lines with the ids of our own requests."""

    def __init__(self, agent: AcpAgent, messages: list[dict[str, Any]]) -> None:
        self._agent = agent
        self._said = messages
        self._wire: Wire | None = None
        self._ours: dict[str, list[Any]] = {}  # ids of requests that wait to be matched, by method
        self._ids: dict[Any, Any] = {}  # the recorded host's -> ours
        self._hello: dict[str, Any] = {}
        self._refusal: dict[str, Any] = {}
        self._offered: dict[str, list[str]] = {}  # by request: the agent's options that hold once
        self._options: dict[str, dict[str, str]] = {}  # by request: the agent's option -> ours
        self._busy = 0
        self._later: list[dict[str, Any]] = []
        self.received: list[Said] = []
        self.heard_lines: list[bytes] = []

    def play(self) -> list[Said]:
        for one in self._said:
            if one["dir"] == "out":
                self._host(one["msg"])
            else:
                self._receive(one["msg"])
        return self.received

    # -- the recorded host --

    def _host(self, msg: dict[str, Any]) -> None:
        match msg:
            case {"method": "initialize"}:
                self._begin(msg, SPEC)
            case {"method": method} if method in OPENS:
                self._opens(msg)
            case {"method": "session/prompt"} if self._busy:
                self._later.append(msg)
            case {"method": "session/prompt"}:
                self._prompt(msg)
            case {"method": "session/cancel"}:
                sent = list(self._need().cancel())
                assert [one["method"] for one in sent if "method" in one] == ["session/cancel"]
                self._options.clear()
            case {"id": id, "result": result}:
                self._answer(id, result)

    def _begin(self, msg: dict[str, Any], spec: SessionSpec) -> None:
        self._wire = self._agent.wire(spec)
        self._ours, self._ids, self._busy = {}, {}, 0
        self._sent(self._wire.greet())
        self._matched(msg)

    def _opens(self, msg: dict[str, Any]) -> None:
        """Whether it opens a second session, which our wire never does."""
        waits = self._ours.get(msg["method"])
        if not waits or "sessionId" in msg["params"]:
            spec = SPEC
            if resume := msg["params"].get("sessionId"):
                spec = replace(SPEC, resume=resume, fork=msg["method"] == "session/fork")
            self._begin({"method": "initialize"}, spec)
            self._feed({**self._answered(msg["method"]), "id": self._ours["initialize"].pop()})
        if msg["method"] in self._ours:
            self._matched(msg)

    def _answered(self, method: str) -> dict[str, Any]:
        """The agent's response to initialize, changed so that our wire does what the host did."""
        hello = json.loads(json.dumps(self._hello or {"result": {"protocolVersion": 1}}))
        can = hello["result"].setdefault("agentCapabilities", {"loadSession": True})
        sessions = can.setdefault("sessionCapabilities", {})
        if method in ("session/load", "session/resume"):
            sessions.pop("resume", None)
        if method != "session/load":
            sessions[method.removeprefix("session/")] = {}
        return hello

    def _prompt(self, msg: dict[str, Any]) -> None:
        if self._wire is None:
            self._begin_in_the_middle(msg["params"]["sessionId"])
        self._busy = 1
        self._sent(self._need().prompt(_prompt(msg["params"]["prompt"])))
        for method in OPENS if not self._ours.get("session/prompt") else ():
            for id in self._ours.pop(method, ()):  # it tries again what had failed
                self._feed({**self._refusal, "id": id})
                return
        self._matched(msg)

    def _begin_in_the_middle(self, session: str) -> None:
        self._begin({"method": "initialize", "id": "made-1"}, SPEC)
        self._receive({"id": "made-1", "result": {"protocolVersion": 1}})
        self._matched({"method": "session/new", "id": "made-2"})
        self._receive({"id": "made-2", "result": {"sessionId": session}})

    def _answer(self, id: Any, result: Any) -> None:
        key = RpcRequest(id, "", {}).key
        match result:
            case {"outcome": {"outcome": "selected", "optionId": option}}:
                chosen = self._options.get(key, {})
                # What the recorded host took for ever is taken once here.
                answer = Answer(chosen.get(option, "allow" if "always" in option else "deny"))
            case _:
                answer = Answer("deny")
        sent = list(self._need().answer(key, answer))
        if sent and "answers" not in result and key in self._options:
            assert [one["id"] for one in sent] == [id]
            if result["outcome"].get("optionId") in self._options[key]:
                assert sent[0]["result"] == result

    # -- the recorded agent --

    def _receive(self, msg: dict[str, Any]) -> None:
        if "method" in msg:
            self._feed(msg)
            return
        if self._hello == {} and "agentCapabilities" in (msg.get("result") or {}):
            self._hello = msg
        if "error" in msg:
            self._refusal = msg
        if msg["id"] in self._ids:
            self._feed({**msg, "id": self._ids.pop(msg["id"])})

    def _feed(self, msg: dict[str, Any]) -> None:
        line = json.dumps(msg, separators=(",", ":"), ensure_ascii=False).encode()
        self.heard_lines.append(line)
        if msg.get("method") == "session/request_permission":
            key = RpcRequest(msg["id"], "", {}).key
            once = [one for one in msg["params"]["options"] if one["kind"].endswith("_once")]
            self._offered[key] = [one["optionId"] for one in once]
        received = list(self._need().decode(line))
        self.received += received
        for one in received:
            match one:
                case WireReply({"method": "session/prompt", "id": id}) if _is_over(msg):
                    self._feed({"id": id, "result": {"stopReason": "end_turn"}})
                case WireReply(message):
                    self._sent([message])
                case PermissionRequested(request_id=request_id, options=options):
                    ours = [option.id for option in options]
                    theirs = self._offered[request_id]
                    self._options[request_id] = dict(zip(theirs, ours, strict=True))
                case TurnEnded():
                    self._busy = 0
                    if self._later:
                        self._prompt(self._later.pop(0))

    def _sent(self, messages: Iterable[dict[str, Any]]) -> None:
        for message in messages:
            if "method" in message and "id" in message:
                self._ours.setdefault(message["method"], []).append(message["id"])

    def _matched(self, msg: dict[str, Any]) -> None:
        if "id" not in msg:
            return
        ours = self._ours.get(msg["method"])
        assert ours, f"our wire does not say {msg['method']} where the host did"
        self._ids[msg["id"]] = ours.pop(0)

    def _need(self) -> Wire:
        assert self._wire is not None
        return self._wire


def _prompt(blocks: list[dict[str, Any]]) -> Prompt:
    words = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    files = [
        File("picture", block["mimeType"], base64.b64decode(block["data"]))
        for block in blocks
        if block["type"] == "image"
    ]
    return Prompt(words, tuple(files))


def _is_over(msg: dict[str, Any]) -> bool:
    """Whether a prompt is answered: what our wire prompts by itself afterwards was not recorded."""
    return "stopReason" in (msg.get("result") or {})
