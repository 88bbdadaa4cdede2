"""A session's workspace at work: each call judged by the policy, done, and told in the log."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from bridle.core.errors import BridleError
from bridle.core.events import (
    Content,
    Diff,
    PermissionRequested,
    Text,
    ToolFinished,
    ToolStarted,
)
from bridle.core.process import Process
from bridle.core.tools import title
from bridle.sessions.enforcement import SessionEnforcement
from bridle.sessions.liaison import Ask, Liaison
from bridle.sessions.process_calls import Caller, IsServed, ProcessCalls
from bridle.sessions.progress import ProgressReport, SendProgress
from bridle.sessions.recollection import denies
from bridle.sessions.terms import SERVER, Bench
from bridle.store.processes import ProcessTable
from bridle.supervision.secrets import Secrets
from bridle.workspace import calls, telling
from bridle.workspace.calls import Call, read_call
from bridle.workspace.confined import Root
from bridle.workspace.files import Files
from bridle.workspace.process_place import Place
from bridle.workspace.processes import Processes
from bridle.workspace.refusal import Refused
from bridle.workspace.telling import Told

Outcome = Literal["completed", "failed", "denied", "cancelled"]

SHOWN = 20  # processes in the overview
QUOTED = 2_000  # characters of a refusal, which may quote what was asked
EVERYBODY = Caller()
ASK_USER = "go on without it, or ask the user, whose `[[rules]]` can allow it"
WAITING = "waits for approval: `bridle requests list` shows it to the user"

_logger = logging.getLogger(__name__)


class Done(msgspec.Struct, frozen=True):
    """`text` is for the model, `data` the same for programs."""

    outcome: Outcome
    text: str
    data: Mapping[str, Any] = {}
    diff: Diff | None = None

    @classmethod
    def refused(cls, error: BridleError, outcome: Outcome = "failed") -> Done:
        message = error.message
        if len(message) > QUOTED:
            message = f"{message[: QUOTED // 2]} […] {message[-QUOTED // 2 :]}"
        text = f"{message}\n{error.hint}".strip()
        return cls(outcome, text, {"error": message, "hint": error.hint})


class Denied(Refused):
    """By a rule, a person or the clock."""


class Workbench:
    """Open it with `open`. Calls may come at once, and from several clients."""

    def __init__(
        self,
        cwd: Path,
        bench: Bench,
        liaison: Liaison,
        *,
        secrets: Secrets,
        files: Files,
        processes: Processes,
        process_calls: ProcessCalls,
    ) -> None:
        self._cwd = cwd
        self._bench = bench
        self._liaison = liaison
        self._secrets = secrets
        self._files = files
        self._processes = processes
        self._process_calls = process_calls

    @classmethod
    async def open(
        cls,
        session: str,
        cwd: Path,
        bench: Bench,
        liaison: Liaison,
        *,
        secrets: Secrets,
        table: ProcessTable,
        processes: Path,
        records: Path,
        exports: Path,
        supervision: str,
        enforcement: SessionEnforcement,
        is_served: IsServed,
    ) -> Workbench:
        """`processes`, `records` and `exports` are folders; what ran before is found again."""
        place = Place(cwd, processes, records, supervision, judged=enforcement)
        found = await Processes.open(session, table, place, secrets.redact_text)
        files = Files(Root(cwd), exports)
        process_calls = ProcessCalls(
            bench, files.root, found, enforcement.protection, secrets, is_served
        )
        opened = cls(
            cwd,
            bench,
            liaison,
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
        """A command must not call for another with less around it."""
        return not self._processes.started(pid)

    def clean(self, text: str) -> str:
        """As it may be told: without what is secret."""
        return self._secrets.redact_text(text)

    async def overview(self, caller: Caller = EVERYBODY) -> str:
        """Where it is, what is in it, two levels deep, and what runs."""
        listing = await asyncio.to_thread(self._files.list_directory, ".", 2)
        running = self.processes(caller, "live")[:SHOWN]
        parts = [
            f"workspace: {self._cwd}",
            f"commands run at isolation {self._bench.isolation}, or stricter if asked",
            telling.tree(listing).text,
            telling.listing(running).text if running else "nothing runs",
        ]
        return self.clean("\n".join(parts))

    async def output(self, process: str, stream: str, caller: Caller = EVERYBODY) -> str:
        return self.clean(await self._process_calls.written(caller, process, stream))

    def processes(self, caller: Caller = EVERYBODY, status: str = "all") -> Sequence[Process]:
        """Newest first."""
        return self._process_calls.list(caller, status)

    # -- a call ----------------------------------------------------------------------------------

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        progress: SendProgress | None = None,
        ask: Ask | None = None,
        caller: Caller = EVERYBODY,
    ) -> Done:
        report = ProgressReport(progress)
        call_id = f"{SERVER}-{os.urandom(4).hex()}"
        parent = self._liaison.caller_of(tool, arguments)
        try:
            call = read_call(tool, arguments)
        except Refused as error:
            self._begin(call_id, parent, "MCP", tool, dict(arguments))
            return self._end(call_id, parent, Done.refused(error))
        acts = _acts(call)
        self._begin(call_id, parent, *acts[0][:1], tool, acts[0][1])
        try:
            for word, input in acts:
                async with report.while_waiting(WAITING):
                    call = await self._judged(call, word, input, call_id, ask)
            told = await self._do(call, caller, report)
        except asyncio.CancelledError:
            self._end(call_id, parent, Done("cancelled", "it was cancelled"))
            raise
        except Denied as error:
            return self._end(call_id, parent, Done.refused(error, "denied"))
        except BridleError as error:
            return self._end(call_id, parent, Done.refused(error))
        except Exception as error:
            _logger.exception("%s failed", tool)
            text = f"bridle failed at this, by a bug of its own: {type(error).__name__}: {error}"
            return self._end(call_id, parent, Done("failed", text, {"error": text}))
        outcome: Outcome = "failed" if told.failed else "completed"
        return self._end(call_id, parent, Done(outcome, told.text, told.data, told.diff))

    def _begin(
        self, call_id: str, parent: str | None, word: str, tool: str, input: dict[str, Any]
    ) -> None:
        name = f"{SERVER}.{tool}"
        said = title(word, input, name=name, cwd=str(self._cwd))
        self._liaison.tell(
            ToolStarted(
                call_id=call_id, tool=word, name=name, title=said, input=input, parent=parent
            )
        )

    def _end(self, call_id: str, parent: str | None, done: Done) -> Done:
        """What goes to the model is as clean as what is kept."""
        done = Done(
            done.outcome,
            self.clean(done.text),
            self._secrets.redact_value(done.data),
            done.diff,
        )
        content: tuple[Content, ...] = (Text(done.text),)
        if done.diff:
            content = (done.diff, *content)
        self._liaison.tell(
            ToolFinished(call_id=call_id, outcome=done.outcome, content=content, parent=parent)
        )
        return done

    async def _judged(
        self, call: Call, word: str, input: dict[str, Any], call_id: str, ask: Ask | None
    ) -> Call:
        """The call as it may be done: a person or a rule may have changed it."""
        name = f"{SERVER}.{call.name}"
        request = PermissionRequested(
            request_id=os.urandom(8).hex(),
            tool=word,
            title=title(word, input, name=name, cwd=str(self._cwd)),
            input=input,
            call_id=call_id,
        )
        answer = await self._liaison.consult(request, ask)
        if denies(request, answer):
            raise Denied(answer.note or "this was denied", hint=ASK_USER)
        if answer.input is None:
            return call
        fields = {**msgspec.structs.asdict(call), **_as_fields(call, answer.input)}
        return read_call(call.name, {k: v for k, v in fields.items() if v is not UNSET})

    # -- what it does ----------------------------------------------------------------------------

    async def _do(self, call: Call, caller: Caller, report: ProgressReport) -> Told:
        if told := await self._process_calls.run(call, caller, report):
            return told
        return await asyncio.to_thread(self._with_files, call)

    def _with_files(self, call: Call) -> Told:
        files = self._files
        match call:
            case calls.ReadFile(path=path, offset=offset, limit=limit, binary=binary):
                return telling.file(files.read_file(path, offset, limit, binary))
            case calls.WriteFile(path=path, content=content, expected_hash=known):
                return telling.edit(files.write_file(path, content, known or None))
            case calls.ReplaceLinesInFile(path=path, start=start, end=end):
                return telling.edit(
                    files.replace_lines_in_file(
                        path, start, end, call.new_text, call.expected_old_text
                    )
                )
            case calls.ListDirectory(path=path, depth=depth, ignored=ignored, limit=limit):
                return telling.tree(files.list_directory(path, depth, ignored, limit))
            case calls.SearchFiles(pattern=pattern, path=path, kind=kind):
                return telling.matches(
                    files.search_files(pattern, path, kind, call.limit, call.context)
                )
            case calls.ImportFile(source=source, path=path, unpack=unpack):
                return telling.imported(files.import_file(source, path, unpack))
            case calls.ExportFile(path=path, export_as=name):
                return telling.exported(files.export_file(path, name or None))
            case calls.ExportZip(paths=paths, export_as=name):
                return telling.exported(files.export_zip(paths, name))
        raise AssertionError(call)


def _acts(call: Call) -> list[tuple[str, dict[str, Any]]]:
    """What the policy is asked about: the tool by our names, and its input."""
    match call:
        case calls.ExecuteShell(command=command, cwd=cwd, env=env, stdin=stdin):
            if env:  # a variable may name another program to run
                words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
                command = f"export {words} && {command}"
            where = {} if cwd == "." else {"cwd": cwd}
            given = {"stdin": stdin} if stdin else {}
            return [("Bash", {"command": command, **where, **given})]
        case calls.WriteProcessInput(text=text) if text.strip():
            return [("Bash", {"command": text})]  # to a shell, it is one
        case calls.ReadFile(path=path) | calls.ExportFile(path=path):
            return [("Read", {"path": path})]
        case calls.ExportZip(paths=paths):
            return [("Read", {"paths": paths})]
        case calls.ListDirectory(path=path):
            return [("LS", {"path": path})]
        case calls.SearchFiles(pattern=pattern, path=path):
            return [("Grep", {"pattern": pattern, "path": path})]
        case calls.WriteFile(path=path, content=content):
            return [("Write", {"path": path, "content": content})]
        case calls.ReplaceLinesInFile():
            return [
                (
                    "Edit",
                    {
                        "path": call.path,
                        "old_string": call.expected_old_text,
                        "new_string": call.new_text,
                    },
                )
            ]
        case calls.ImportFile(source=source, path=path):
            return [("Write", {"path": path}), ("Read", {"path": source})]
    return [("MCP", msgspec.to_builtins(call))]


_RENAMED = {"new_string": "new_text", "old_string": "expected_old_text"}


def _as_fields(call: Call, input: Mapping[str, Any]) -> dict[str, Any]:
    """A changed input in the words of the call; of a place it was asked about it stays there."""
    known = {field.name for field in msgspec.structs.fields(call)}
    renamed = {_RENAMED.get(key, key): value for key, value in input.items()}
    if isinstance(call, calls.WriteProcessInput) and "command" in renamed:
        renamed["text"] = renamed["command"]
    return {key: value for key, value in renamed.items() if key in known}
