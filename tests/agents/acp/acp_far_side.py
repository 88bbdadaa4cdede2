"""The agent's side of ACP for tests of the wire: answers to what a client sends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import Event
from tillerman.core.session_options import session_spec, with_options
from tillerman.core.wire import AttachmentBytes, Wire, WireReply

ROW = AcpAgentRow(name="acme", command=("acme", "--acp"), title="Acme")
SPEC = session_spec(cwd=Path("/proj"))
HELLO = {
    "protocolVersion": 1,
    "agentInfo": {"name": "acme", "version": "1.2.3"},
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": True, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": False},
        "sessionCapabilities": {"resume": {}, "fork": {}, "additionalDirectories": {}},
    },
}
OPTIONS = [
    {"id": "m", "category": "mode", "currentValue": "code",
     "options": [{"value": "code", "name": "Code"}, {"value": "plan", "name": "Plan"}]},
    {"id": "which", "category": "model", "currentValue": "small",
     "options": [{"name": "Group", "options": [{"value": "small", "name": "Small"},
                                               {"value": "big", "name": "Big One"}]}]},
    {"id": "hard", "category": "thought_level", "currentValue": "low",
     "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}]},
]  # fmt: skip
SESSION = {"sessionId": "s1", "configOptions": OPTIONS}

Said = Event | WireReply | AttachmentBytes


def far_side(message: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """An agent with all capabilities, which accepts every setting."""
    match message:
        case {"method": "initialize", "id": id}:
            yield {"jsonrpc": "2.0", "id": id, "result": HELLO}
        case {"method": "session/prompt"}:
            return
        case {"id": id, "method": _}:
            yield {"jsonrpc": "2.0", "id": id, "result": SESSION}


class Talk:
    """A wire, and all messages of both sides."""

    def __init__(
        self,
        spec: SessionSpec = SPEC,
        row: AcpAgentRow = ROW,
        dialect: type[AcpDialect] = AcpDialect,
    ) -> None:
        self.wire: Wire = AcpAgent(row, dialect).wire(spec)
        self.sent = list(self.wire.greet())  # by us
        self.received: list[Event] = []
        self.kept: list[bytes] = []

    def receives(self, message: dict[str, Any]) -> list[Event]:
        """The events that the wire decodes; what it sends is in `sent`."""
        messages = list(self.wire.decode(json.dumps({"jsonrpc": "2.0", **message}).encode()))
        self.sent += [one.message for one in messages if isinstance(one, WireReply)]
        self.kept += [one.data for one in messages if isinstance(one, AttachmentBytes)]
        events = [one for one in messages if not isinstance(one, WireReply | AttachmentBytes)]
        self.received += events
        return events

    def send_update(self, what: str, /, *, session: str = "s1", **update: Any) -> list[Event]:
        params = {"sessionId": session, "update": {"sessionUpdate": what, **update}}
        return self.receives({"method": "session/update", "params": params})

    def send_text(self, text: str, **more: Any) -> list[Event]:
        content = {"type": "text", "text": text}
        return self.send_update("agent_message_chunk", content=content, **more)

    def request_permission(self, id: Any, call: dict[str, Any], *kinds: str) -> list[Event]:
        """Requests permission; options are named after their kinds."""
        kinds = kinds or ("allow_always", "allow_once", "reject_once")
        options = [{"optionId": f"the-{kind}", "name": kind, "kind": kind} for kind in kinds]
        params = {"sessionId": "s1", "toolCall": call, "options": options}
        return self.receives({"id": id, "method": "session/request_permission", "params": params})

    def answers(self, result: Any = None, *, error: Any = None) -> list[Event]:
        """The agent answers our last request."""
        id = next(one["id"] for one in reversed(self.sent) if "method" in one and "id" in one)
        return self.receives({"id": id, "error": error} if error else {"id": id, "result": result})

    def prompt(self, prompt: Prompt | str = "go") -> None:
        self.sent += self.wire.prompt(Prompt(prompt) if isinstance(prompt, str) else prompt)

    @property
    def sent_methods(self) -> list[str]:
        """The methods of all our requests and notifications."""
        return [one["method"] for one in self.sent if "method" in one]


def opened(
    spec: SessionSpec = SPEC,
    row: AcpAgentRow = ROW,
    dialect: type[AcpDialect] = AcpDialect,
    **more: Any,
) -> Talk:
    """A connection with an open session, `s1`, and a first prompt."""
    talk = Talk(with_options(spec, **more), row, dialect)
    answered = 0
    talk.prompt()
    while answered < len(talk.sent):
        for message in far_side(talk.sent[answered]):
            talk.receives(message)
        answered += 1
    talk.received.clear()
    return talk
