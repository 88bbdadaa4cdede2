"""Workspace tools for shell processes: start, poll, read, search, write input, kill.

Several clients may use one session over HTTP. A process is visible to the client that started it;
for all others it is unknown.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import UNSET

from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.sessions.enforcement.protection import Protection
from tillerman.sessions.run_settings import WorkspaceToolSettings
from tillerman.sessions.workspace_tools.progress import ProgressReport
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.processes import output_reader
from tillerman.workspace.processes.process_place import UnknownProcess
from tillerman.workspace.processes.shell_processes import Processes
from tillerman.workspace.protection.watcher import Hold
from tillerman.workspace.tools import isolation_notes, tool_results, tool_schemas
from tillerman.workspace.tools.isolation_notes import LEVELS
from tillerman.workspace.tools.tool_results import ToolResult
from tillerman.workspace.tools.tool_schemas import ToolCallArguments

FEW_BYTES = 16 << 10  # of output that is read without a thread
GRACE = 3.0  # seconds for a process to end after SIGTERM

IsServed = Callable[[str], Awaitable[bool]]


class Caller(NamedTuple):
    """The client that calls. `owner` is stored with each process; `owns` returns whether processes
    of an owner also belong to this caller. By default a caller owns all processes of the
    session."""

    owner: str | None = None
    owns: Callable[[str | None], bool] = lambda owner: True


class _Shown(NamedTuple):
    """Bytes of each stream that a caller was shown or told about."""

    stdout: int = 0
    stderr: int = 0


class ProcessCalls:
    """Runs process tool calls. `is_served` returns whether a server currently has a session."""

    def __init__(
        self,
        bench: WorkspaceToolSettings,
        root: ConfinedRoot,
        processes: Processes,
        protection: Protection,
        secrets: Secrets,
        is_served: IsServed,
    ) -> None:
        self._bench = bench
        self._root = root
        self._processes = processes
        self._protection = protection
        self._secrets = secrets
        self._is_served = is_served
        self._watches: set[asyncio.Task[None]] = set()
        self._shown: dict[tuple[str | None, str], _Shown] = {}

    async def open(self) -> None:
        """Resumes watching processes of an earlier server, with its state of protected names."""
        running = self._processes.list("live")
        if running:
            self._protection.resume()
        for process in running:
            self._watch(process, await self._protection.hold())

    async def close(self) -> None:
        for task in self._watches:
            task.cancel()
        if self._bench.survives:
            await self._processes.release()
        else:
            await self._processes.close()
        await asyncio.gather(*self._watches, return_exceptions=True)

    def list(self, caller: Caller, status: str = "all") -> Sequence[WorkspaceProcess]:
        """Lists the caller's processes, newest first."""
        return [one for one in reversed(self._processes.list(status)) if caller.owns(one.owner)]

    async def written(self, caller: Caller, process: str, stream: str) -> str:
        await self._check(caller, process)
        path = self._processes.folder(process) / stream
        return await asyncio.to_thread(tool_results.written, path, self._secrets)

    async def run(
        self, call: ToolCallArguments, caller: Caller, progress: ProgressReport
    ) -> ToolResult | None:
        """Runs the call and returns its result; None for a call of another tool."""
        if process := getattr(call, "process_id", None):
            await self._check(caller, process)
        match call:
            case tool_schemas.ExecuteShell():
                return await self._execute(call, caller, progress)
            case tool_schemas.PollProcess():
                return await self._poll(call, caller)
            case tool_schemas.ReadProcessOutput():
                return await self._read_output(call, caller)
            case tool_schemas.SearchProcessOutput():
                return await self._search_output(call)
            case tool_schemas.ListProcesses(status_filter=status):
                return tool_results.listing(self.list(caller, status))
            case tool_schemas.KillProcess():
                return tool_results.process_status(await self._kill(call), None, "")
            case tool_schemas.WriteProcessInput():
                data = call.text.encode()
                written = await self._processes.write(call.process_id, data, eof=call.eof)
                return tool_results.process_status(written, None, "")
        return None

    # -- ownership -------------------------------------------------------------------------------

    async def _check(self, caller: Caller, process: str) -> None:
        """Raises `Refused` if the process is not the caller's."""
        try:
            found = self._processes.known(process)
        except UnknownProcess:
            left = self._processes.of_earlier_server(process)
            if left is None or not caller.owns(left.owner) or await self._is_served(left.session):
                raise
            raise _lost(left) from None
        if not caller.owns(found.owner):
            raise UnknownProcess(process)

    # -- commands --------------------------------------------------------------------------------

    async def _execute(
        self, call: tool_schemas.ExecuteShell, caller: Caller, progress: ProgressReport
    ) -> ToolResult:
        isolation = self._isolation(call)
        cwd = self._root.location(call.cwd)
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
                owner=caller.owner,
            )
        except BaseException:
            await asyncio.shield(hold.end())
            raise
        watch = self._watch(process, hold)
        if call.run_mode != "sync":
            notes = isolation_notes.on_start(process, self._bench.isolation)
            return tool_results.with_notes(tool_results.began(process), notes)
        update = self._update(progress, call.timeout) if progress.is_wanted else None
        process = await self._processes.wait_or_kill(process, call.timeout, call.on_timeout, update)
        if process.live:
            self._note_shown(caller, process)
        else:
            await asyncio.shield(watch)
        folder = self._processes.folder(process.id)
        result = tool_results.run(process, folder, self._secrets)  # a few KB, just written
        notes = isolation_notes.on_end(process, self._bench.isolation, folder)
        return tool_results.with_notes(result, [*(one.text for one in hold.found), *notes])

    def _watch(self, process: WorkspaceProcess, hold: Hold) -> asyncio.Task[None]:
        """Restores protected names while the process runs, and once more after its end."""

        async def watch() -> None:
            try:
                await self._processes.wait(process.id)
            except asyncio.CancelledError:
                if self._bench.survives:
                    raise  # another server resumes it
            await hold.end()

        task = asyncio.create_task(watch())
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)
        return task

    def _update(
        self, progress: ProgressReport, timeout: float
    ) -> Callable[[WorkspaceProcess], Awaitable[None]]:
        deadline = progress.elapsed + timeout

        async def update(process: WorkspaceProcess) -> None:
            last = await asyncio.to_thread(self._last_line, process.id)
            await progress.send(last, deadline)

        return update

    def _last_line(self, process: str) -> str:
        path = self._processes.folder(process) / "stdout"
        lines = output_reader.tail(path, 1, self._secrets).lines
        return self._secrets.redact_text(lines[0].text) if lines else ""

    def _isolation(self, call: tool_schemas.ExecuteShell) -> str:
        least = self._bench.isolation
        if call.isolation is UNSET:
            return least
        if LEVELS.index(call.isolation) < LEVELS.index(least):
            raise Refused(
                f"isolation {call.isolation} is weaker than this session requires",
                hint=f"leave it out: commands run at {least}",
            )
        return call.isolation

    async def _kill(self, call: tool_schemas.KillProcess) -> WorkspaceProcess:
        if call.signal is not UNSET:
            return await self._processes.kill(call.process_id, signal.Signals[f"SIG{call.signal}"])
        process = await self._processes.kill(call.process_id, signal.SIGTERM)
        if process.live:
            process = await self._processes.wait(process.id, GRACE)
        return await self._processes.kill(process.id) if process.live else process

    # -- output ----------------------------------------------------------------------------------

    async def _poll(self, call: tool_schemas.PollProcess, caller: Caller) -> ToolResult:
        """Polls a process. With `wait_ms` it waits only if the caller was shown all output."""
        process = await self._processes.get(call.process_id, exact=False)
        shown = self._shown.get((caller.owner, process.id), _Shown())
        is_new = process.stdout_bytes > shown.stdout or process.stderr_bytes > shown.stderr
        if call.wait_ms and process.live and not is_new:
            written = process.stdout_bytes + process.stderr_bytes
            process = await self._processes.changed(process.id, written, call.wait_ms / 1000)
        self._note_shown(caller, process)
        folder = self._processes.folder(process.id)
        status = tool_results.process_status(process, None, "")
        if call.tail is not UNSET:
            lines = await self._tail(process, call.tail)
            status = tool_results.process_status(process, lines, call.tail.src)
        notes = isolation_notes.on_end(process, self._bench.isolation, folder)
        return tool_results.with_notes(status, notes)

    async def _tail(
        self, process: WorkspaceProcess, wanted: tool_schemas.OutputTail
    ) -> output_reader.OutputLines:
        """Reads the end of the output; in a thread only if it is long enough to be worth it."""
        path = self._processes.folder(process.id) / wanted.src
        if max(process.stdout_bytes, process.stderr_bytes) <= FEW_BYTES:
            return output_reader.tail(path, wanted.n, self._secrets)
        return await asyncio.to_thread(output_reader.tail, path, wanted.n, self._secrets)

    def _note_shown(self, caller: Caller, process: WorkspaceProcess) -> None:
        key = (caller.owner, process.id)
        if process.live:
            self._shown[key] = _Shown(process.stdout_bytes, process.stderr_bytes)
        else:
            self._shown.pop(key, None)

    async def _read_output(
        self, call: tool_schemas.ReadProcessOutput, caller: Caller
    ) -> ToolResult:
        process = await self._processes.get(call.process_id)
        path = self._processes.folder(process.id) / call.stream
        match call.mode:
            case "tail":
                lines = await asyncio.to_thread(output_reader.tail, path, call.lines, self._secrets)
            case "head":
                lines = await asyncio.to_thread(output_reader.head, path, call.lines, self._secrets)
            case "range":
                lines = await asyncio.to_thread(
                    output_reader.span, path, call.offset, call.lines, self._secrets
                )
        if process.live:
            key = (caller.owner, process.id)
            shown = self._shown.get(key, _Shown())
            end = max(getattr(shown, call.stream), lines.next)
            self._shown[key] = shown._replace(**{call.stream: end})
        return tool_results.page(process, call.stream, lines)

    async def _search_output(self, call: tool_schemas.SearchProcessOutput) -> ToolResult:
        process = await self._processes.get(call.process_id)
        path = self._processes.folder(process.id) / call.stream
        matches = await asyncio.to_thread(
            partial(output_reader.search, secrets=self._secrets),
            path,
            call.pattern,
            call.kind,
            call.limit,
            call.context,
            call.offset,
        )
        return tool_results.found(process, matches)


def _lost(process: WorkspaceProcess) -> Refused:
    """The error for a process of an earlier server in the same folder."""
    why = f": {process.why}" if process.why else ""
    return Refused(
        f"process {process.id} was lost with the server that ran it; status: {process.status}{why}",
        hint=f"session {process.session} has it: `tillerman mcp serve --resume {process.session}` "
        f"serves it again, with its output; `tillerman logs {process.id}` shows it",
    )
