"""Per-vendor overrides of the ACP driver, for what a row of data cannot express."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.decoding.fields import Table, at, table, text
from tillerman.core.agent import SessionSpec, Word
from tillerman.core.wire import Launch

if TYPE_CHECKING:  # the program is started before these are imported
    from tillerman.agents.jsonrpc.peer import RpcError, RpcNotification, RpcRequest
    from tillerman.core.events import Answer, Event, Question
    from tillerman.core.failure import Failure

IGNORED = ("_auth/status_update",)  # methods of several agents that carry nothing for the log
Outcome = Literal["completed", "failed", "denied", "cancelled"]


class AcpQuestions(NamedTuple):
    """Questions to the user, and a function that turns the answer into the JSON-RPC result."""

    questions: tuple[Question, ...]
    result: Callable[[Answer], Any]
    call_id: str | None = None


class AcpDialect:
    """Default behaviour of an ACP agent; a vendor package overrides what differs."""

    def __init__(self, row: AcpAgentRow) -> None:
        self.row = row

    def launch(self, spec: SessionSpec) -> Launch:
        """The command, its arguments and variables. What is set here is not sent by a request."""
        row = self.row
        argv: list[Word] = list(row.command)
        if row.model_flag and spec.model:
            argv += _flag(row.model_flag, spec.model)
        for folder in spec.folders if row.folder_flag else ():
            argv += _flag(row.folder_flag, str(folder))
        return Launch(argv, env=row.env)

    def client(self, spec: SessionSpec) -> Table:
        """Additional members of `clientCapabilities` in `initialize`."""
        return {}

    def session(self, spec: SessionSpec) -> Table:
        """Additional params of session/new, load, resume and fork."""
        meta = dict(self.row.meta)
        if spec.system and self.row.system:
            value: Any = spec.system
            for key in reversed(self.row.system):
                value = {key: value}
            meta |= value
        return {"_meta": meta} if meta else {}

    def preamble(self, spec: SessionSpec) -> str:
        """Text put before the first prompt, if the session has no field for it."""
        return "" if self.row.system else spec.system or ""

    def tool_name(self, call: Table) -> str:
        """The native name of a tool, from a tool call or an update to one."""
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
        """The input of a call, as far as a tool call, an update or a request contains it."""
        return table(call, "rawInput")

    def parent(self, update: Table) -> str | None:
        """The id of the call that started the subagent."""
        found = at(update, *self.row.parent.split(".")) if self.row.parent else None
        return found if isinstance(found, str) and found else None

    def outcome(self, status: str, call: Table) -> Outcome | None:
        """The outcome of a call with status `completed` or `failed`; None for the default decoding.

        `call` holds everything received about it: `rawOutput`, `content`, `kind`, …
        """
        return None

    def output(self, call: Table) -> str | None:
        """The output of a finished call; None for the default decoding."""
        return None

    def model(self, id: str) -> str:
        """The name of the model that the session started with."""
        return id

    def failure(self, error: RpcError) -> Failure | None:
        """Decodes why a prompt or the session setup failed; None for the default decoding."""
        return None

    def stopped(self, reason: str) -> Failure | None:
        """Decodes a stop reason that is a failure; None for the default decoding."""
        return None

    def asking(self, asked: RpcRequest) -> AcpQuestions | None:
        """The questions in a vendor or permission request; None if it contains none."""
        return None

    def asks_early(self, call: Table) -> bool:
        """Whether a request may arrive before its call, with less detail than the call."""
        return False

    def denial(self, note: str) -> str:
        """An option id that was not offered and carries the reason of a denial.

        For agents that pass an unknown option id on to the model. "": the model does not get the
        reason.
        """
        return ""

    def told(self, reported: RpcNotification) -> Iterable[Event] | None:
        """Decodes a vendor notification; None if it is unknown."""
        return () if reported.method in IGNORED or reported.method in self.row.ignores else None


def _flag(flag: str, value: str) -> list[str]:
    """Returns one argument where the flag allows it, since a value may begin with a dash."""
    return [f"{flag}={value}"] if flag.startswith("--") else [flag, value]
