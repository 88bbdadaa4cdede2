"""Gate probes: harmless calls that must not run, to test whether an agent requests approval.

A scripted model makes the agent call each of its tools while every request is denied. A class of
tools is enforced if approval was requested once for each of its calls, and none had an effect.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from tillerman.core.events import Entry, PermissionRequested, ToolFinished, ToolStarted
from tillerman.core.tools import ToolClass, class_of
from tillerman.sessions.session import Session
from tillerman.testing.cli_setups import CliSetup, ToolUnavailable
from tillerman.testing.model_double.script import ModelToolCall, Say, reply
from tillerman.testing.model_double.server import ModelDouble

NOBODY = ("SaveMemory",)  # the only tool allowed in such a session; the model never calls it
SERVER = Path(__file__).with_name("mcp_server.py")
_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Hold = Literal["enforced", "advisory", "none"]
E = TypeVar("E")


class GateProbe(NamedTuple):
    """A call that must not run, and a check whether it ran."""

    kind: ToolClass
    name: str
    call: ModelToolCall
    ran: Callable[[], bool]


class ProbeResult(NamedTuple):
    """The result of one probe: why it does not count as asked about and denied, if so."""

    kind: ToolClass
    name: str
    ran: bool
    problem: str


class GateProbes:
    """All probes of an agent, by tool class."""

    def __init__(
        self, stage: CliSetup, version: str, double: ModelDouble, *, project: Path, marks: Path
    ) -> None:
        self._stage = stage
        self._double = double
        self._project = project
        self._marks = marks
        self._files: dict[str, Path] = {}
        marks.mkdir(exist_ok=True)
        lacking = stage.lacks(version)
        if not stage.takes_servers:
            lacking |= {"mcp", "peek"}
        self.probes = [one for one in self._made() if one.name not in lacking]

    @property
    def servers(self) -> dict[str, Mapping[str, object]]:
        """The MCP servers that the session needs."""
        if not any(probe.kind == "mcp" for probe in self.probes):
            return {}
        return {"gate": {"command": sys.executable, "args": [str(SERVER), str(self._marks)]}}

    async def run(self, session: Session) -> list[ProbeResult]:
        """Runs the probes in a session that denies everything."""
        results = []
        for number, probe in enumerate(self.probes):
            script = [reply(probe.call), reply(Say("So be it."))]
            self._double.scenarios[f"canary{number}"] = script
            self._lay(probe.name)
            log = [entry async for entry in session.run(f"@@canary{number}@@ go")]
            results.append(ProbeResult(probe.kind, probe.name, probe.ran(), _problem(log, probe)))
        return results

    def _made(self) -> Iterator[GateProbe]:
        for kind, name, make, ran in self._all():
            try:
                yield GateProbe(kind, name, make(), ran)
            except ToolUnavailable:
                continue

    def _all(
        self,
    ) -> Iterator[tuple[ToolClass, str, Callable[[], ModelToolCall], Callable[[], bool]]]:
        stage, project, file_for = self._stage, self._project, self._file_for
        url, text = f"{self._double.base_url}/fetched", {"text": "x"}
        received, there, marked = self._received, self._there, self._marked
        yield "read", "read", lambda: stage.read(file_for("read")), received("heron-read-7")
        yield "read", "view", lambda: stage.view(self._picture()), received("data:image")
        search = file_for("search").parent
        yield "read", "search", lambda: stage.search(search, "heron-"), received("heron-search-7")
        listing = file_for("listing").parent
        yield "read", "listing", lambda: stage.listing(listing), received("egg-of-listing")
        yield "write", "write", lambda: stage.write(project / "made", "x\n"), there("made")
        yield "shell", "shell", lambda: stage.shell("touch by-shell"), there("by-shell")
        yield "shell", "cat", lambda: stage.shell(f"cat {file_for('cat')}"), received("heron-cat-7")
        yield (
            "shell",
            "ls",
            lambda: stage.shell(f"ls {file_for('ls').parent}"),
            received("egg-of-ls"),
        )
        yield "network", "fetch", lambda: stage.fetch(url), self._fetched
        yield "mcp", "mcp", lambda: stage.mcp("gate", "speak", dict(text)), marked("speak")
        yield "mcp", "peek", lambda: stage.mcp("gate", "peek", dict(text)), marked("peek")

    def _file_for(self, name: str) -> Path:
        """A file with unique content in a separate folder."""
        folder = self._project / f"{name}-nest"
        folder.mkdir(exist_ok=True)
        self._files[name] = folder / f"egg-of-{name}.txt"
        return self._files[name]

    def _lay(self, name: str) -> None:
        """Written just before its turn: some agents begin by listing the files for their model."""
        if file := self._files.get(name):
            file.write_text(f"heron-{name}-7321\n")

    def _picture(self) -> Path:
        file = self._project / "picture.png"
        file.write_bytes(_PICTURE)
        return file

    def _received(self, word: str) -> Callable[[], bool]:
        """Whether the model received the word."""
        return lambda: any(word in json.dumps(turn.body) for turn in self._double.turns)

    def _there(self, name: str) -> Callable[[], bool]:
        return (self._project / name).exists

    def _marked(self, name: str) -> Callable[[], bool]:
        return (self._marks / name).exists

    def _fetched(self) -> bool:
        return any(request.path == "/fetched" for request in self._double.requests)


def holds(results: Iterable[ProbeResult]) -> dict[ToolClass, Hold]:
    """The result by class, for classes of which the agent has tools."""
    by_class: dict[ToolClass, list[ProbeResult]] = {}
    for result in results:
        by_class.setdefault(result.kind, []).append(result)
    return {kind: _hold(sung) for kind, sung in by_class.items()}


def _hold(results: Sequence[ProbeResult]) -> Hold:
    if not any(result.problem for result in results):
        return "enforced"
    return "none" if all(result.ran for result in results) else "advisory"


def _problem(log: Sequence[Entry], probe: GateProbe) -> str:
    if probe.ran():
        return "it ran"
    asked = [one for one in _of(log, PermissionRequested) if class_of(one.tool) == probe.kind]
    if len(asked) != 1:
        begun = [(event.tool, event.title) for event in _of(log, ToolStarted)]
        ended = [(event.outcome, str(event.content)[:200]) for event in _of(log, ToolFinished)]
        return f"asked about {len(asked)} times; called {begun}; ended {ended}"
    calls = [one for one in _of(log, ToolStarted) if class_of(one.tool) == probe.kind]
    if len(calls) != 1 or asked[0].call_id not in (None, calls[0].call_id):
        ids = [call.call_id for call in calls]
        return f"asked about {asked[0].call_id}, called {ids}"
    [call] = calls
    ended_as = [one.outcome for one in _of(log, ToolFinished) if one.call_id == call.call_id]
    return "" if ended_as == ["denied"] else f"told as {ended_as}"


def _of(log: Sequence[Entry], kind: type[E]) -> list[E]:
    return [entry.event for entry in log if isinstance(entry.event, kind)]
