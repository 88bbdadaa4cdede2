"""Finds an agent's binary and version, and runs its commands with checked output."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tillerman.core.agent import AgentInfo, Word
from tillerman.core.agent_admin import CommandResult, Installed, RunCommand
from tillerman.core.errors import AgentError, AgentNotInstalled

_VERSION = re.compile(r"\d+\.\d+(?:[\w.+-]*\w)?")  # a full stop may follow it
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_START = 20  # seconds; a slow CLI takes fifteen on a very busy machine
_TOLD = 500  # characters of the last output quoted in an error


def binary(run: RunCommand, info: AgentInfo) -> str:
    assert info.binary
    path = run.find(info.binary)
    if path is None:
        raise AgentNotInstalled(info.name, binary=info.binary, hint=info.install)
    return path


async def installed(run: RunCommand, info: AgentInfo) -> Installed:
    """Reads the version from `--version`, which every CLI supports."""
    assert info.binary
    path = run.find(info.binary)
    version = None
    if path:
        ran = await run([path, "--version"], limit=_START)
        checked(info, ran, "--version")
        found = _VERSION.search(output_text(ran))
        version = found[0] if found else None
    return Installed(info.binary, path, version, info.install)


async def output(
    run: RunCommand,
    info: AgentInfo,
    words: Sequence[Word],
    *,
    input: bytes = b"",
    limit: float = 20,
) -> bytes:
    """Returns the output of a command; a failure raises `AgentError` with the last output."""
    ran = await run([binary(run, info), *words], input=input, limit=limit)
    return checked(info, ran, " ".join(word for word in words[:2] if isinstance(word, str)))


def checked(info: AgentInfo, ran: CommandResult, what: str) -> bytes:
    if ran.exit.clean:
        return ran.stdout
    command = f"`{info.binary} {what}`"
    if ran.exit.code == 124:
        raise AgentError(info.name, f"{command} did not end in time", hint="`tillerman doctor`")
    if ran.exit.signal:
        raise AgentError(
            info.name,
            f"{command} was terminated by signal {ran.exit.signal}",
            hint="run it in a terminal to see why",
        )
    last = (plain(ran.stderr) or plain(ran.stdout)).strip()
    raise AgentError(
        info.name,
        f"{command} failed: {last[-_TOLD:] or 'no output'}",
        hint="run it in a terminal to see why",
    )


def output_text(ran: CommandResult) -> str:
    return plain(ran.stdout) or plain(ran.stderr)


def plain(output: bytes) -> str:
    """Text without escape sequences, which some CLIs write into pipes too."""
    return _ESCAPE.sub("", output.decode("utf-8", "replace"))
