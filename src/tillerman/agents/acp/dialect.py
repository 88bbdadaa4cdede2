"""How one agent speaks ACP where a row of data cannot say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tillerman.agents.acp.agent_row import AcpAgentRow
from tillerman.agents.decoding.fields import Table, at, table, text
from tillerman.core.agent import SessionSpec, Word
from tillerman.core.wire import Launch

if TYPE_CHECKING:  # the program is started before these are loaded
    from tillerman.agents.jsonrpc.peer import RpcError, RpcNotification, RpcRequest
    from tillerman.core.events import Answer, Event, Question
    from tillerman.core.failure import Failure

IGNORED = ("_auth/status_update",)  # methods of several agents that tell nothing for the log
Outcome = Literal["completed", "failed", "denied", "cancelled"]


class AcpQuestions(NamedTuple):
    """Questions to the user, and the result that an answer to them becomes."""

    questions: tuple[Question, ...]
    result: Callable[[Answer], Any]
    call_id: str | None = None


class AcpDialect:
    """A vendor's package overrides what its agent does differently; the rest is plain ACP."""

    def __init__(self, row: AcpAgentRow) -> None:
        self.row = row

    def launch(self, spec: SessionSpec) -> Launch:
        """The command and what goes with it. What is placed here is not said over the wire."""
        row = self.row
        argv: list[Word] = list(row.command)
        if row.model_flag and spec.model:
            argv += _flag(row.model_flag, spec.model)
        for folder in spec.folders if row.folder_flag else ():
            argv += _flag(row.folder_flag, str(folder))
        return Launch(argv, env=row.env)

    def client(self, spec: SessionSpec) -> Table:
        """More members of `initialize`'s clientCapabilities."""
        return {}

    def session(self, spec: SessionSpec) -> Table:
        """More params of session/new, load, resume and fork."""
        meta = dict(self.row.meta)
        if spec.system and self.row.system:
            value: Any = spec.system
            for key in reversed(self.row.system):
                value = {key: value}
            meta |= value
        return {"_meta": meta} if meta else {}

    def preamble(self, spec: SessionSpec) -> str:
        """What is said before the words of the first prompt, if the session has no place for it."""
        return "" if self.row.system else spec.system or ""

    def tool_name(self, call: Table) -> str:
        """The agent's own name of a tool, from a tool call or an update to one."""
        match self.row.tool_name:
            case "":
                return text(call, "name")
            case "title":
                return text(call, "title")
            case "id":
                return text(call, "toolCallId").rpartition("__")[0]
            case place:
                name = at(call, *place.split("."))
                return name if isinstance(name, str) else text(call, "name")

    def input(self, call: Table) -> Table:
        """A call's input, as far as a tool call, an update or a request tells it."""
        return table(call, "rawInput")

    def parent(self, update: Table) -> str | None:
        """The call that a subagent works inside."""
        found = at(update, *self.row.parent.split(".")) if self.row.parent else None
        return found if isinstance(found, str) and found else None

    def outcome(self, status: str, call: Table) -> Outcome | None:
        """How a call ended that says `completed` or `failed`; None leaves it to the common reading.

        `call` has all that was told of it: `rawOutput`, `content`, `kind`, …
        """
        return None

    def output(self, call: Table) -> str | None:
        """The output of a finished call; None leaves it to the common reading."""
        return None

    def model(self, id: str) -> str:
        """What the model is called that the session began with."""
        return id

    def failure(self, error: RpcError) -> Failure | None:
        """Why a prompt or an opening failed; None leaves it to the common reading."""
        return None

    def asking(self, asked: RpcRequest) -> AcpQuestions | None:
        """The questions in a request, its own or for permission; None: it asks none."""
        return None

    def asks_early(self, call: Table) -> bool:
        """Whether a request may come before the call that it is about, and tells less of it."""
        return False

    def denial(self, note: str) -> str:
        """An option that was not offered, and says why a call is denied: where the agent passes on
        to the model what it cannot make out. "": the model hears nothing of the reason."""
        return ""

    def told(self, told: RpcNotification) -> Iterable[Event] | None:
        """What a notification of its own means; None: nobody knows."""
        return () if told.method in IGNORED or told.method in self.row.ignores else None


def _flag(flag: str, value: str) -> list[str]:
    """One word where the flag allows it: a value may begin with a dash."""
    return [f"{flag}={value}"] if flag.startswith("--") else [flag, value]
