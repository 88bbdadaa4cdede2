"""A session's workspace at work: each call judged by the policy, done, and told in the log."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from bridle.core.process import LIVE, Process
from bridle.core.tools import title
from bridle.sessions.enforcement import SessionEnforcement
from bridle.sessions.liaison import Ask, Liaison
from bridle.sessions.protection import Protection
from bridle.sessions.recollection import denies
from bridle.sessions.terms import SERVER, Bench
from bridle.store.processes import ProcessTable
from bridle.supervision.secrets import Secrets
from bridle.workspace import calls, output, telling
from bridle.workspace.calls import Call, read_call
from bridle.workspace.confined import Root
from bridle.workspace.files import Files
from bridle.workspace.processes import Place, Processes
from bridle.workspace.protection.watcher import Hold
from bridle.workspace.refusal import Refused
from bridle.workspace.telling import Told

Progress = Callable[[float, float, str], Awaitable[None]]
Outcome = Literal["completed", "failed", "denied", "cancelled"]

LEVELS = ("basic", "medium", "high")
GRACE = 3.0  # seconds for a process that is asked to end
SHOWN = 20  # processes in the overview
QUOTED = 2_000  # characters of a refusal, which may quote what was asked

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
        protection: Protection,
    ) -> None:
        self._cwd = cwd
        self._bench = bench
        self._liaison = liaison
        self._secrets = secrets
        self._files = files
        self._processes = processes
        self._protection = protection
        self._watches: set[asyncio.Task[None]] = set()

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
    ) -> Workbench:
        """`processes`, `records` and `exports` are folders; what ran before is found again."""
        place = Place(cwd, processes, records, supervision, judged=enforcement)
        found = await Processes.open(session, table, place, secrets.redact_text)
        files = Files(Root(cwd), exports)
        protection = enforcement.protection
        opened = cls(
            cwd,
            bench,
            liaison,
            secrets=secrets,
            files=files,
            processes=found,
            protection=protection,
        )
        await opened._hold_what_runs()
        return opened

    async def close(self) -> None:
        for task in self._watches:
            task.cancel()
        if self._bench.survives:
            await self._processes.let_go()
        else:
            await self._processes.close()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._files.root.close()

    def admits(self, pid: int) -> bool:
        """A command must not call for another with less around it."""
        return not self._processes.started(pid)

    def clean(self, text: str) -> str:
        """As it may be told: without what is secret."""
        return self._secrets.redact_text(text)

    async def overview(self) -> str:
        """Where it is, what is in it, two levels deep, and what runs."""
        listing = await asyncio.to_thread(self._files.list_directory, ".", 2)
        running = self.processes("live")[:SHOWN]
        parts = [
            f"workspace: {self._cwd}",
            f"commands run at isolation {self._bench.isolation}, or stricter if asked",
            telling.tree(listing).text,
            telling.listing(running).text if running else "nothing runs",
        ]
        return self.clean("\n".join(parts))

    async def output(self, process: str, stream: str) -> str:
        found = await self._processes.get(process)
        path = self._processes.folder(found.id) / stream
        return self.clean(await asyncio.to_thread(telling.written, path))

    # -- a call ----------------------------------------------------------------------------------

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        ask: Ask | None = None,
    ) -> Done:
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
                call = await self._judged(call, word, input, call_id, ask)
            told = await self._do(call, progress)
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
            raise Denied(answer.note or "this was denied", hint="go on without it, or ask the user")
        if answer.input is None:
            return call
        fields = {**msgspec.structs.asdict(call), **_as_fields(call, answer.input)}
        return read_call(call.name, {k: v for k, v in fields.items() if v is not UNSET})

    # -- what it does ----------------------------------------------------------------------------

    async def _do(self, call: Call, progress: Progress | None) -> Told:
        match call:
            case calls.ExecuteShell():
                return await self._execute(call, progress)
            case calls.PollProcess():
                return await self._poll(call)
            case calls.ReadProcessOutput():
                return await self._read_output(call)
            case calls.SearchProcessOutput():
                return await self._search_output(call)
            case calls.ListProcesses(status_filter=status):
                return telling.listing(self.processes(status))
            case calls.KillProcess():
                return telling.stands(await self._kill(call), None, "")
            case calls.WriteProcessInput():
                data = call.text.encode()
                process = await self._processes.write(call.process_id, data, eof=call.eof)
                return telling.stands(process, None, "")
        return await asyncio.to_thread(self._with_files, call)

    def processes(self, status: str = "all") -> Sequence[Process]:
        """Newest first."""
        wanted = LIVE if status == "live" else {status}
        found = reversed(self._processes.list())
        return [one for one in found if status == "all" or one.status in wanted]

    async def _execute(self, call: calls.ExecuteShell, progress: Progress | None) -> Told:
        isolation = self._isolation(call)
        cwd = self._folder(call.cwd)
        hold = await self._protection.hold()
        waits = call.run_mode != "sync"
        try:
            process = await self._processes.start(
                call.command,
                mode=call.run_mode,
                isolation=isolation,
                cwd=cwd,
                env={**self._bench.environment, **(call.env or {})},
                stdin=call.stdin.encode() if call.stdin is not UNSET else waits or None,
                protected=self._protection.mountable() if isolation == "high" else (),
            )
        except BaseException:
            await asyncio.shield(hold.end())
            raise
        watch = self._watch(process, hold)
        if call.run_mode != "sync":
            return telling.began(process)
        news = self._news(progress, call.timeout) if progress else None
        process = await self._processes.see_through(process, call.timeout, call.on_timeout, news)
        if not process.live:
            await asyncio.shield(watch)
        folder = self._processes.folder(process.id)
        told = telling.run(process, folder)  # some KB, written a moment ago
        return telling.with_notes(told, [one.text for one in hold.found])

    def _watch(self, process: Process, hold: Hold) -> asyncio.Task[None]:
        """Protected names are restored while it runs, and once more when it has ended."""

        async def watch() -> None:
            try:
                await self._processes.wait(process.id)
            except asyncio.CancelledError:
                if self._bench.survives:
                    raise  # another server goes on with it
            await hold.end()

        task = asyncio.create_task(watch())
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)
        return task

    async def _hold_what_runs(self) -> None:
        """Of an earlier server: what it knew of protected names still counts."""
        running = [process for process in self._processes.list() if process.live]
        if running:
            self._protection.resume()
        for process in running:
            self._watch(process, await self._protection.hold())

    async def _kill(self, call: calls.KillProcess) -> Process:
        if call.signal is not UNSET:
            return await self._processes.kill(call.process_id, signal.Signals[f"SIG{call.signal}"])
        process = await self._processes.kill(call.process_id, signal.SIGTERM)
        if process.live:
            process = await self._processes.wait(process.id, GRACE)
        return await self._processes.kill(process.id) if process.live else process

    def _news(self, progress: Progress, timeout: float) -> Callable[[Process], Awaitable[None]]:
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def tell(process: Process) -> None:
            last = await asyncio.to_thread(self._last_line, process.id)
            await progress(loop.time() - began, timeout, last)

        return tell

    def _last_line(self, process: str) -> str:
        lines = output.tail(self._processes.folder(process) / "stdout", 1).lines
        return self.clean(lines[0].text) if lines else ""

    def _isolation(self, call: calls.ExecuteShell) -> str:
        least = self._bench.isolation
        if call.isolation is UNSET:
            return least
        if LEVELS.index(call.isolation) < LEVELS.index(least):
            raise Refused(
                f"isolation {call.isolation} is less than this session asks for",
                hint=f"leave it out: commands run at {least}",
            )
        return call.isolation

    def _folder(self, path: str) -> Path:
        """A folder of the workspace, by the name that no link can change any more."""
        folder = self._files.root.open_folder(path)
        try:
            return Path(f"/proc/self/fd/{folder}").readlink()
        finally:
            os.close(folder)

    async def _poll(self, call: calls.PollProcess) -> Told:
        process = await self._processes.get(call.process_id)
        if call.wait_ms and process.live:
            written = process.stdout_bytes + process.stderr_bytes
            process = await self._processes.changed(process.id, written, call.wait_ms / 1000)
        if call.tail is UNSET:
            return telling.stands(process, None, "")
        path = self._processes.folder(process.id) / call.tail.src
        lines = await asyncio.to_thread(output.tail, path, call.tail.n)
        return telling.stands(process, lines, call.tail.src)

    async def _read_output(self, call: calls.ReadProcessOutput) -> Told:
        process = await self._processes.get(call.process_id)
        path = self._processes.folder(process.id) / call.stream
        match call.mode:
            case "tail":
                lines = await asyncio.to_thread(output.tail, path, call.lines)
            case "head":
                lines = await asyncio.to_thread(output.head, path, call.lines)
            case "range":
                lines = await asyncio.to_thread(output.span, path, call.offset, call.lines)
        return telling.page(process, call.stream, lines)

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

    async def _search_output(self, call: calls.SearchProcessOutput) -> Told:
        process = await self._processes.get(call.process_id)
        path = self._processes.folder(process.id) / call.stream
        matches = await asyncio.to_thread(
            output.search, path, call.pattern, call.kind, call.limit, call.context, call.offset
        )
        return telling.found(process, matches)


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
