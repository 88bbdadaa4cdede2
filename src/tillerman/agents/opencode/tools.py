"""Maps OpenCode's tool calls and results to the common vocabulary: text, diffs and images."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from tillerman.agents.decoding.fields import Table, storable, table, tables, text
from tillerman.agents.decoding.images import Picture, picture
from tillerman.agents.opencode.tool_names import NAMES
from tillerman.core import tools
from tillerman.core.events import Content, Diff, PlanChanged, PlanStep, Text, ToolStarted
from tillerman.core.patch_text import patched_files
from tillerman.core.wire import AttachmentBytes

Outcome = Literal["completed", "failed", "denied", "cancelled"]
Status = Literal["pending", "in_progress", "completed"]

_PATCHES = ("apply_patch", "patch")
_BY_VERB = {"add": "Write", "update": "Edit", "delete": "Delete", "move": "Rename"}
_DENIED = ("The user rejected permission", "The user has specified a rule which prevents")
_CANCELLED = ("Tool execution aborted", "User aborted the command")


def vocabulary(name: str, input: Table, servers: Iterable[str]) -> str:
    if name in _PATCHES:
        return _patching(text(input, "patchText"))
    return NAMES.get(name) or ("MCP" if server_of(name, servers) else name)


def server_of(name: str, servers: Iterable[str]) -> str | None:
    """The MCP server of `server_tool`; the name can be split only by the known servers."""
    for server in servers:
        if name.startswith(re.sub(r"[^\w-]", "_", server) + "_"):
            return server
    return None


class OpenCodeToolCall(Struct, frozen=True):
    call_id: str
    name: str
    input: Table
    servers: tuple[str, ...] = ()
    parent: str | None = None

    @property
    def tool(self) -> str:
        return vocabulary(self.name, self.input, self.servers)

    @property
    def paths(self) -> tuple[str, ...]:
        return tools.paths_of(self.input)

    def title(self, cwd: str) -> str:
        input = {"edits": [{"file_path": path} for path in self.paths]}
        return tools.title(
            self.tool,
            input if self.name in _PATCHES else self.input,
            name=self._shown,
            cwd=cwd,
        )

    def started(self, cwd: str) -> ToolStarted:
        return ToolStarted(
            call_id=self.call_id,
            tool=self.tool,
            name=self.name,
            title=self.title(cwd),
            input=self.input,
            paths=self.paths,
            parent=self.parent,
        )

    @property
    def _shown(self) -> str:
        server = server_of(self.name, self.servers)
        return f"{server}.{self.name[len(server) + 1 :]}" if server else self.name


def outcome(state: Table) -> Outcome:
    """The outcome; OpenCode reports a failed command as "completed", so its exit code decides."""
    if text(state, "status") == "error":
        error = text(state, "error")
        if error.startswith(_DENIED):
            return "denied"
        return "cancelled" if any(words in error for words in _CANCELLED) else "failed"
    metadata = table(state, "metadata")
    if "exit" not in metadata or metadata["exit"] == 0:
        return "completed"
    aborted = metadata["exit"] is None and _CANCELLED[1] in text(state, "output")[-200:]
    return "cancelled" if aborted else "failed"


def content(call: OpenCodeToolCall, state: Table) -> tuple[Content, ...]:
    if text(state, "status") == "error":
        return _words(text(state, "error"))
    shown: list[Content] = [*_changes(call, table(state, "metadata"))]
    if not shown:
        shown += _words(text(state, "output"))
    return tuple(shown) + tuple(found.image for found in _pictures(state))


def running(state: Table) -> tuple[Content, ...]:
    """The output of a running call so far."""
    return _words(text(table(state, "metadata"), "output"))


def attachments(state: Table) -> Iterator[AttachmentBytes]:
    for found in _pictures(state):
        yield found.keep


def plan(todos: list[Table], parent: str | None = None) -> PlanChanged:
    steps = (PlanStep(text(todo, "content"), _status(text(todo, "status"))) for todo in todos)
    return PlanChanged(steps=tuple(steps), parent=parent)


def hunks(patch: str) -> str:
    """Removes the header of a unified diff."""
    start = 0 if patch.startswith("@@") else patch.find("\n@@") + 1
    return patch[start:] if start or patch.startswith("@@") else ""


def _changes(call: OpenCodeToolCall, metadata: Table) -> Iterator[Diff]:
    path = next(iter(call.paths), "")
    if found := hunks(text(metadata, "diff")):
        files = [(text(f, "filePath"), hunks(text(f, "patch"))) for f in tables(metadata, "files")]
        if call.name in _PATCHES and files:
            yield from (Diff(file, patch=patch) for file, patch in files)
        else:
            yield Diff(text(table(metadata, "filediff"), "file") or path, patch=found)
    elif call.tool == "Write" and "content" in call.input:
        yield Diff(text(metadata, "filepath") or path, new=text(call.input, "content"))


def _patching(patch: str) -> str:
    files = patched_files(patch)
    verbs = {one.change for one in files}
    if len(files) > 1 and verbs != {"update", "move"}:
        return "MultiEdit"
    return _BY_VERB.get(max(verbs, key=list(_BY_VERB).index, default="update"), "Edit")


def _pictures(state: Table) -> Iterator[Picture]:
    for part in tables(state, "attachments"):
        head, _, data = text(part, "url").partition(";base64,")
        if text(part, "mime").startswith("image/") and head.startswith("data:"):
            found = picture(text(part, "mime"), data)
            if found:
                yield found


def _words(message: str) -> tuple[Text, ...]:
    return (Text(message),) if message else ()


def _status(status: str) -> Status:
    match status:
        case "in_progress" | "completed":
            return status
        case "cancelled":
            return "completed"
    return "pending"


def input_of(state: Table) -> Table:
    input: Table = storable(table(state, "input"))
    return input
