"""Runs an agent's native commands: supervised, with limits on time and output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from tillerman.agents.stdio.pipes import PipeReader, PipeWriter
from tillerman.core.agent import Exit, Word
from tillerman.core.agent_admin import CommandResult, Dialog
from tillerman.core.errors import AgentError
from tillerman.supervision.client.child_processes import ChildProcess
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.linux.which import find_program

MOST_OUTPUT = 4 * 1024 * 1024
TOLD = 500  # characters of the last output quoted in an error

T = TypeVar("T")


class SecretInArguments(AgentError):
    exit_code = 4

    def __init__(self, agent: str, name: str) -> None:
        super().__init__(
            agent,
            f"{agent} accepts the value of {name} only on its command line, "
            "which every user of this machine can read",
        )


class CommandRunner:
    """Async context manager around one warden; each call runs a program to its end."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        cwd: Path,
        records: Path,
        marker: str,
        agent: str = "",  # named in errors
        binaries: Mapping[str, str] = {},  # looked up here before PATH
        options: Mapping[str, Any] = {},  # of the agent in the config
        private: Sequence[tuple[str, str]] = (),  # names and values that must not be in arguments
    ) -> None:
        self._environment = environment
        self._cwd = cwd
        self._agent = agent
        self._binaries = binaries
        self._options = options
        self._private = private
        self._records = records
        self._marker = marker
        self._warden: asyncio.Task[WardenClient] | None = None

    async def __aenter__(self) -> CommandRunner:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._warden is None:
            return
        await asyncio.wait([self._warden])
        if not self._warden.cancelled() and self._warden.exception() is None:
            await self._warden.result().close()

    def find(self, binary: str) -> str | None:
        binary = self._binaries.get(binary, binary)
        return find_program(binary, self._environment.get("PATH"))

    def variable(self, name: str) -> str | None:
        return self._environment.get(name)

    def option(self, name: str) -> Any:
        return self._options.get(name)

    async def __call__(
        self,
        argv: Sequence[Word],
        *,
        env: Mapping[str, str] = {},
        input: bytes = b"",
        limit: float = 20,
    ) -> CommandResult:
        async with self._started(argv, env) as program:
            outputs = asyncio.gather(
                _whole(program.stdout), _whole(program.stderr), _write(program.stdin, input)
            )
            try:
                async with asyncio.timeout(limit):
                    exit = await program.child.wait()
            except TimeoutError:
                await program.child.kill()
                exit = Exit(124, None)
            program.finish()
            out, errors, _ = await outputs
        return CommandResult(exit, out, errors)

    async def dialog(
        self,
        argv: Sequence[Word],
        dialog: Dialog[T],
        *,
        env: Mapping[str, str] = {},
        limit: float = 20,
    ) -> T:
        async with self._started(argv, env) as program:
            stderr = asyncio.create_task(_whole(program.stderr))
            try:
                async with asyncio.timeout(limit):
                    return await _held(program, dialog)
            except (TimeoutError, EOFError) as error:
                late = isinstance(error, TimeoutError)
                why = f"did not answer within {limit:g} s" if late else "exited before it answered"
                await program.child.kill()
                program.finish()
                last = (await stderr).decode("utf-8", "replace").strip()[-TOLD:]
                name = Path(str(argv[0])).name
                raise AgentError(
                    self._agent or name,
                    f"`{name}` {why}{': ' * bool(last)}{last}",
                    hint="run it in a terminal to see why",
                ) from None
            finally:
                stderr.cancel()

    @asynccontextmanager
    async def _started(
        self, argv: Sequence[Word], env: Mapping[str, str]
    ) -> AsyncIterator[_Program]:
        self._refuse_private(argv)
        if self._warden is None:
            start = WardenClient.start(records=self._records, marker=self._marker)
            self._warden = asyncio.create_task(start)  # shared by all concurrent commands
        warden = await asyncio.shield(self._warden)
        try:
            child = await warden.spawn(argv, cwd=self._cwd, env={**self._environment, **env})
        except OSError as error:
            name = self._agent or Path(str(argv[0])).name
            raise AgentError(
                name,
                f"{argv[0]} cannot be run: {error.strerror}",
                hint="reinstall it, or set another `binary` in the config",
            ) from None
        program = _Program.of(child)
        try:
            yield program
        finally:
            program.finish()
            await child.kill()  # including processes it left running

    def _refuse_private(self, argv: Sequence[Word]) -> None:
        words = [word for word in argv if isinstance(word, str)]
        for name, value in self._private:
            if any(form in word for form in _forms(value) for word in words):
                raise SecretInArguments(self._agent, name)


def _forms(value: str) -> set[str]:
    """The notations of a value: plain, or within JSON, which some commands take as an argument."""
    return {value, *(json.dumps(value, ensure_ascii=ascii)[1:-1] for ascii in (True, False))}


class _Program(NamedTuple):
    child: ChildProcess
    stdin: PipeWriter
    stdout: PipeReader
    stderr: PipeReader

    @classmethod
    def of(cls, child: ChildProcess) -> _Program:
        assert child.stdin is not None
        return cls(
            child, PipeWriter(child.stdin), PipeReader(child.stdout), PipeReader(child.stderr)
        )

    def finish(self) -> None:
        """Closes stdin; the output received so far can still be read."""
        self.stdin.close()
        self.stdout.finish()
        self.stderr.finish()


async def _held(program: _Program, dialog: Dialog[T]) -> T:
    """Runs the dialog; raises EOFError if the program ends first."""
    try:
        await program.stdin.write(next(dialog))
        async for line in _lines(program.stdout):
            if line.strip():
                await program.stdin.write(dialog.send(line))
    except StopIteration as end:
        result: T = end.value
        return result
    raise EOFError


async def _lines(pipe: PipeReader) -> AsyncIterator[bytes]:
    rest = b""
    while chunk := await pipe.read():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        rest = rest[:MOST_OUTPUT]
    if rest:
        yield rest


async def _write(pipe: PipeWriter, data: bytes) -> None:
    await pipe.write(data)
    pipe.close()


async def _whole(pipe: PipeReader) -> bytes:
    stored = b""
    while chunk := await pipe.read():
        stored += chunk[: MOST_OUTPUT - len(stored)]
    return stored
