"""Runs workspace tool calls of a session: requests approval, executes and logs each call."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from tillerman.core.errors import TillermanError
from tillerman.core.events import (
    Content,
    Diff,
    PermissionRequested,
    Text,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.tools import title
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.sessions.enforcement.settings import SessionEnforcement
from tillerman.sessions.permissions.request_broker import Ask, RequestBroker
from tillerman.sessions.permissions.session_rules import denies
from tillerman.sessions.run_settings import SERVER, WorkspaceToolSettings
from tillerman.sessions.workspace_tools.call_requests import (
    ToolDenied,
    acts_of_call,
    changed_fields,
    check_placeholders,
    with_members,
    workspace_files_of,
)
from tillerman.sessions.workspace_tools.process_calls import Caller, IsServed, ProcessCalls
from tillerman.sessions.workspace_tools.progress import ProgressReport, SendProgress
from tillerman.store.process_table import ProcessTable
from tillerman.supervision.isolation.readable_files import closed_here
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.path_locks import PathLocks
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.processes.process_place import ProcessPlace
from tillerman.workspace.processes.shell_processes import Processes
from tillerman.workspace.tools import file_results, tool_results, tool_schemas
from tillerman.workspace.tools.file_calls import run_at_once, run_file_call
from tillerman.workspace.tools.tool_results import ShownImage, ToolResult
from tillerman.workspace.tools.tool_schemas import ToolCallArguments, read_call

Outcome = Literal["completed", "failed", "denied", "cancelled"]

SHOWN = 20  # processes in the overview
QUOTED = 2_000  # characters of a refusal, which may quote the input
DEEPEST = 64  # nested dicts and lists in the arguments of a call
EVERYBODY = Caller()
ASK_USER = "continue without it, or ask the user to allow it in `[[rules]]`"
WAITING = "needs approval: the user sees it with `tillerman requests list`"

_logger = logging.getLogger(__name__)


class ToolCallResult(msgspec.Struct, frozen=True):
    """The result of a call: `text` for the model, `data` for programs."""

    outcome: Outcome
    text: str
    data: Mapping[str, Any] = {}
    diff: Diff | None = None
    image: ShownImage | None = None

    @classmethod
    def refused(cls, error: TillermanError, outcome: Outcome = "failed") -> ToolCallResult:
        message = error.message
        if len(message) > QUOTED:
            message = f"{message[: QUOTED // 2]} […] {message[-QUOTED // 2 :]}"
        text = f"{message}\n{error.hint}".strip()
        return cls(outcome, text, {"error": message, "hint": error.hint})


class ToolRunner:
    """Created by `open`. Calls may be concurrent, and from several clients."""

    def __init__(
        self,
        cwd: Path,
        bench: WorkspaceToolSettings,
        broker: RequestBroker,
        *,
        secrets: Secrets,
        files: Files,
        processes: Processes,
        process_calls: ProcessCalls,
    ) -> None:
        self._cwd = cwd
        self._bench = bench
        self._broker = broker
        self._secrets = secrets
        self._files = files
        self._processes = processes
        self._process_calls = process_calls

    @classmethod
    async def open(
        cls,
        session: str,
        cwd: Path,
        bench: WorkspaceToolSettings,
        broker: RequestBroker,
        *,
        secrets: Secrets,
        table: ProcessTable,
        processes: Path,
        records: Path,
        exports: Path,
        locks: Path,
        supervision: str,
        enforcement: SessionEnforcement,
        is_served: IsServed,
    ) -> ToolRunner:
        """Finds processes of an earlier server.

        `processes`, `records`, `exports` and `locks` are folders.
        """
        place = ProcessPlace(cwd, processes, records, supervision, exec_rules=enforcement)
        found = await Processes.open(session, table, place, secrets.redact_text)
        path_locks = await asyncio.to_thread(_open_locks, locks)
        closed = partial(closed_here, bench.isolation, cwd)
        files = Files(ConfinedRoot(cwd, locks=path_locks), exports, secrets, closed)
        process_calls = ProcessCalls(
            bench, files.root, found, enforcement.protection, secrets, is_served
        )
        opened = cls(
            cwd,
            bench,
            broker,
            secrets=secrets,
            files=files,
            processes=found,
            process_calls=process_calls,
        )
        await process_calls.open()
        return opened

    async def close(self) -> None:
        await self._process_calls.close()
        self._files.root.close()

    def admits(self, pid: int) -> bool:
        """Refuses processes of these tools: a command must not start another with less
        isolation."""
        return not self._processes.started(pid)

    def clean(self, text: str) -> str:
        """Redacts secrets."""
        return self._secrets.redact_text(text)

    async def overview(self, caller: Caller = EVERYBODY) -> str:
        """Describes the workspace: its path, its tree two levels deep, its running processes."""
        listing = await asyncio.to_thread(self._files.list_directory, ".", 2)
        running = self.processes(caller, "live")[:SHOWN]
        parts = [
            f"workspace: {self._cwd}",
            f"commands run at isolation {self._bench.isolation}, or stricter if requested",
            file_results.tree(listing).text,
            tool_results.listing(running).text if running else "no processes are running",
        ]
        return self.clean("\n".join(parts))

    async def output(self, process: str, stream: str, caller: Caller = EVERYBODY) -> str:
        return self.clean(await self._process_calls.written(caller, process, stream))

    def processes(
        self, caller: Caller = EVERYBODY, status: str = "all"
    ) -> Sequence[WorkspaceProcess]:
        """Lists the caller's processes, newest first."""
        return self._process_calls.list(caller, status)

    # -- calls -----------------------------------------------------------------------------------

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        progress: SendProgress | None = None,
        ask: Ask | None = None,
        caller: Caller = EVERYBODY,
    ) -> ToolCallResult:
        report = ProgressReport(progress)
        call_id = f"{SERVER}-{os.urandom(4).hex()}"
        if _is_too_deep(arguments):  # too deep to be logged
            self._begin(call_id, None, "MCP", tool, {})
            why = f"the arguments of {tool} are nested deeper than {DEEPEST} levels"
            return self._end(
                call_id, None, ToolCallResult.refused(Refused(why, hint="see tools/list"))
            )
        parent = self._broker.caller_of(tool, arguments)
        try:
            call = read_call(tool, arguments)
        except Refused as error:
            self._begin(call_id, parent, "MCP", tool, dict(arguments))
            return self._end(call_id, parent, ToolCallResult.refused(error))
        acts = acts_of_call(call)
        self._begin(call_id, parent, *acts[-1][:1], tool, acts[-1][1])
        members = None
        try:
            check_placeholders(call, self._secrets)
            for word, input in acts:
                asked = input
                if isinstance(call, tool_schemas.ImportFile) and call.unpack and word == "Write":
                    members = await asyncio.to_thread(self._files.archive_members, call.source)
                    asked = await with_members(call, input, members, self._broker.decide)
                async with report.while_waiting(WAITING):
                    call = await self._decided(call, word, asked, call_id, ask)
            outcome_ = await self._do(call, caller, report, members)
        except asyncio.CancelledError:
            self._end(call_id, parent, ToolCallResult("cancelled", "it was cancelled"))
            raise
        except ToolDenied as error:
            return self._end(call_id, parent, ToolCallResult.refused(error, "denied"))
        except TillermanError as error:
            return self._end(call_id, parent, ToolCallResult.refused(error))
        except Exception as error:
            _logger.exception("%s failed", tool)
            text = f"internal error in tillerman: {type(error).__name__}: {error}"
            return self._end(call_id, parent, ToolCallResult("failed", text, {"error": text}))
        outcome: Outcome = "failed" if outcome_.failed else "completed"
        done = ToolCallResult(outcome, outcome_.text, outcome_.data, outcome_.diff, outcome_.image)
        return self._end(call_id, parent, done)

    def _begin(
        self, call_id: str, parent: str | None, word: str, tool: str, input: dict[str, Any]
    ) -> None:
        name = f"{SERVER}.{tool}"
        shown = title(word, input, name=name, cwd=str(self._cwd))
        self._broker.record(
            ToolStarted(
                call_id=call_id, tool=word, name=name, title=shown, input=input, parent=parent
            ),
            more_follows=True,
        )

    def _end(self, call_id: str, parent: str | None, done: ToolCallResult) -> ToolCallResult:
        """Logs the end of a call; redacts the result for the model like the stored one."""
        done = ToolCallResult(
            done.outcome,
            self.clean(done.text),
            self._secrets.redact_value(done.data),
            done.diff,
            done.image,
        )
        content: tuple[Content, ...] = (Text(done.text),)
        if done.diff:
            content = (done.diff, *content)
        self._broker.record(
            ToolFinished(call_id=call_id, outcome=done.outcome, content=content, parent=parent)
        )
        return done

    async def _decided(
        self,
        call: ToolCallArguments,
        word: str,
        input: dict[str, Any],
        call_id: str,
        ask: Ask | None,
    ) -> ToolCallArguments:
        """Requests approval; returns the call, which a user or a rule may have changed."""
        name = f"{SERVER}.{call.name}"
        request = PermissionRequested(
            request_id=os.urandom(8).hex(),
            tool=word,
            title=title(word, input, name=name, cwd=str(self._cwd)),
            input=input,
            call_id=call_id,
        )
        self._refuse_outside(call, request)
        answer = await self._broker.ask_for_tool(request, ask)
        if denies(request, answer):
            raise ToolDenied(answer.note or "this was denied", hint=ASK_USER)
        if answer.input is None:
            return call
        fields = {**msgspec.structs.asdict(call), **changed_fields(call, word, answer.input)}
        changed = read_call(call.name, {k: v for k, v in fields.items() if v is not UNSET})
        check_placeholders(changed, self._secrets)
        return changed

    def _refuse_outside(self, call: ToolCallArguments, request: PermissionRequested) -> None:
        """Refuses files outside the workspace, unless a rule denies the call with its own reason.

        No approval could make such a call succeed.
        """
        try:
            for path in workspace_files_of(call):
                self._files.root.parts(path)
        except Refused:
            decision = self._broker.decide(request)
            if decision is None or decision.verdict != "deny":
                raise

    # -- execution -------------------------------------------------------------------------------

    async def _do(
        self,
        call: ToolCallArguments,
        caller: Caller,
        report: ProgressReport,
        members: Sequence[str] | None,
    ) -> ToolResult:
        if result := await self._process_calls.run(call, caller, report):
            return result
        known = frozenset(members) if members is not None else None
        if result := run_at_once(self._files, call):
            return result
        return await asyncio.to_thread(run_file_call, self._files, call, known)


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner = [one.values() if isinstance(one, Mapping) else one
                 for one in level if isinstance(one, Mapping | list)]  # fmt: skip
        if not inner:
            return False
        level = [item for items in inner for item in items]
    return True


def _open_locks(folder: Path) -> PathLocks:
    found = PathLocks(folder)
    found.recover()
    return found
