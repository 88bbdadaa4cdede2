"""Schemas of the workspace tools: arguments and descriptions.

The docstrings of the classes are the descriptions that models see. An omitted or null argument
takes its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import msgspec.inspect
from msgspec import UNSET, Meta, UnsetType

from tillerman.workspace.files.refusal import Refused

MOST_LINES = 100
LONGEST_RUN = 3600.0  # seconds that a call may take

Path = Annotated[str, Meta(description="relative to the workspace", min_length=1)]
ProcessId = Annotated[str, Meta(description="as execute_shell or list_processes told it")]
Stream = Literal["stdout", "stderr"]


def at_most(most: int, *, least: int = 1, description: str = "") -> Meta:
    """A number that is clamped if too large: asking for more is not an error."""
    told = f"{description}, at most {most}" if description else f"at most {most}"
    return Meta(ge=least, description=told, extra={"most": most})


class ToolCallArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one tool call."""

    name: ClassVar[str]
    title: ClassVar[str]
    reads_only: ClassVar[bool] = False


# -- processes -----------------------------------------------------------------------------------


class ExecuteShell(ToolCallArguments, frozen=True):
    """Run a command with /bin/sh in the workspace.

    sync waits for its end. async returns a process_id at once, for builds and tests that take
    longer than you want to wait. background is for servers and watchers: they also outlive a
    restart of this server. Follow both with poll_process; their input stays open for
    write_process_input, unless stdin is given.
    """

    name = "execute_shell"
    title = "Run a command"

    command: Annotated[str, Meta(description="one command line for sh", min_length=1)]
    timeout: Annotated[
        float,
        Meta(gt=0, description="seconds, of sync, at most 3600", extra={"most": LONGEST_RUN}),
    ] = 30
    run_mode: Literal["sync", "async", "background"] = "sync"
    isolation: (
        Annotated[
            Literal["basic", "medium", "high"],
            Meta(
                description="basic: clean environment. medium: writes in the workspace alone, no"
                " network. high: a sandbox without network or home. default: the session's"
            ),
        ]
        | UnsetType
    ) = UNSET
    cwd: Annotated[str, Meta(description="a folder in the workspace")] = "."
    env: Annotated[dict[str, str], Meta(description="variables besides the usual")] | UnsetType = (
        UNSET
    )
    stdin: Annotated[str, Meta(description="its whole input")] | UnsetType = UNSET
    on_timeout: Annotated[
        Literal["kill", "background"],
        Meta(description="kill: the whole tree. background: it goes on, with a process_id"),
    ] = "kill"


class OutputTail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    src: Stream = "stdout"
    n: Annotated[int, at_most(MOST_LINES)] = 20


class PollProcess(ToolCallArguments, frozen=True):
    """How a process stands, and its last lines. wait_ms waits until it has written something you
    were not shown yet, or has ended: do not call in a loop."""

    name = "poll_process"
    title = "Look at a process"
    reads_only = True

    process_id: ProcessId
    tail: Annotated[OutputTail, Meta(description="the last n lines of a stream")] | UnsetType = (
        UNSET
    )
    wait_ms: Annotated[
        int, at_most(300_000, least=0, description="wait at most so long for new output or its end")
    ] = 0


class ReadProcessOutput(ToolCallArguments, frozen=True):
    """Lines that a process wrote. For a whole output: mode range from offset 0, then on from
    next_offset."""

    name = "read_process_output"
    title = "Read a process's output"
    reads_only = True

    process_id: ProcessId
    stream: Stream = "stdout"
    mode: Literal["tail", "head", "range"] = "tail"
    lines: Annotated[int, at_most(MOST_LINES)] = 50
    offset: Annotated[int, Meta(description="byte to begin at, with range", ge=0)] = 0


class SearchProcessOutput(ToolCallArguments, frozen=True):
    """Find lines in what a process wrote, without reading all of it."""

    name = "search_process_output"
    title = "Search a process's output"
    reads_only = True

    process_id: ProcessId
    pattern: Annotated[str, Meta(min_length=1)]
    stream: Stream = "stdout"
    kind: Literal["text", "regex"] = "text"
    context: Annotated[int, at_most(10, least=0, description="lines around each")] = 0
    limit: Annotated[int, at_most(MOST_LINES)] = 20
    offset: Annotated[int, Meta(description="byte to begin at", ge=0)] = 0


class ListProcesses(ToolCallArguments, frozen=True):
    """The processes of this session, newest first."""

    name = "list_processes"
    title = "List processes"
    reads_only = True

    status_filter: Annotated[
        Literal["all", "live", "starting", "running", "finished", "failed", "killed", "lost"],
        Meta(description="live: starting and running"),
    ] = "all"


class KillProcess(ToolCallArguments, frozen=True):
    """End a process and all that it started: it is asked by TERM first. With a signal, send just
    that one, and let it go on."""

    name = "kill_process"
    title = "End a process"

    process_id: ProcessId
    signal: Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"] | UnsetType = UNSET


class WriteProcessInput(ToolCallArguments, frozen=True):
    """Write to the standard input of a process that runs async or in the background."""

    name = "write_process_input"
    title = "Write to a process"

    process_id: ProcessId
    text: Annotated[str, Meta(description="with the newline, if it waits for one")] = ""
    eof: Annotated[bool, Meta(description="close its input afterwards")] = False


# -- files ---------------------------------------------------------------------------------------


class ReadFile(ToolCallArguments, frozen=True):
    """Read a file, by lines; an image (PNG, JPEG, GIF, WebP) is shown. The hash it tells protects
    a later write_file. Secrets are shown as placeholders [secret:NAME]: keep them as they are when
    you write to the same file, and the secrets are put back."""

    name = "read_file"
    title = "Read a file"
    reads_only = True

    path: Path
    offset: Annotated[int, Meta(description="first line, from 1", ge=1)] = 1
    limit: Annotated[int, at_most(5000, description="lines")] = 2000
    binary: Annotated[
        Literal["refuse", "base64"], Meta(description="what to do if it is no text")
    ] = "refuse"


class WriteFile(ToolCallArguments, frozen=True):
    """Write a whole file, new or over an old one. To change a part of it use
    replace_text_in_file or replace_lines_in_file."""

    name = "write_file"
    title = "Write a file"

    path: Path
    content: str
    expected_hash: (
        Annotated[str, Meta(description="of read_file: refused if the file changed since")]
        | UnsetType
    ) = UNSET


class ReplaceLinesInFile(ToolCallArguments, frozen=True):
    """Put new text in place of lines start to end (both included). Refused, with the lines as
    they are, if expected_old_text is not what stands there."""

    name = "replace_lines_in_file"
    title = "Replace lines"

    path: Path
    start: Annotated[int, Meta(description="first line, from 1", ge=1)]
    end: Annotated[int, Meta(description="last line; start - 1 inserts before start", ge=0)]
    new_text: str
    expected_old_text: Annotated[str, Meta(description="what stands there now")]


class ReplaceTextInFile(ToolCallArguments, frozen=True):
    """Edit a file by text: put new_text in place of old_text, which must stand in the file exactly
    count times, letter for letter. Refused, with the most similar lines, if it does not."""

    name = "replace_text_in_file"
    title = "Edit a file"

    path: Path
    old_text: Annotated[str, Meta(description="what stands there now, with blanks", min_length=1)]
    new_text: Annotated[str, Meta(description="may be empty, to delete it")]
    count: Annotated[int, Meta(description="in how many places it stands", ge=1)] = 1


class MoveFile(ToolCallArguments, frozen=True):
    """Move or rename a file or a folder within the workspace. Refused if the destination is there
    already; folders above it are made."""

    name = "move_file"
    title = "Move a file"

    source: Path
    destination: Path


class DeleteFile(ToolCallArguments, frozen=True):
    """Delete a file, a link, or an empty folder; with recursive a folder with all that is in
    it."""

    name = "delete_file"
    title = "Delete a file"

    path: Path
    recursive: Annotated[bool, Meta(description="a folder with all that is in it")] = False


class CreateDirectory(ToolCallArguments, frozen=True):
    """Make a folder, and those above it. It may be there already."""

    name = "create_directory"
    title = "Make a folder"

    path: Path


class ListDirectory(ToolCallArguments, frozen=True):
    """What is in a folder, without what .gitignore leaves out."""

    name = "list_directory"
    title = "List a folder"
    reads_only = True

    path: Path = "."
    depth: Annotated[int, at_most(8)] = 1
    ignored: Annotated[bool, Meta(description="show what .gitignore leaves out too")] = False
    limit: Annotated[int, at_most(5000)] = 500
    sizes: Annotated[bool, Meta(description="show the size of each file")] = False


class SearchFiles(ToolCallArguments, frozen=True):
    """Find files by name, or lines by text or regular expression."""

    name = "search_files"
    title = "Search files"
    reads_only = True

    pattern: Annotated[str, Meta(min_length=1)]
    path: Path = "."
    kind: Annotated[
        Literal["text", "regex", "name"],
        Meta(description="name: a glob such as *.py or src/**/*.py"),
    ] = "text"
    context: Annotated[int, at_most(10, least=0, description="lines around each")] = 0
    limit: Annotated[int, at_most(1000)] = 100


class ImportFile(ToolCallArguments, frozen=True):
    """Copy a file from elsewhere on this machine into the workspace, if a command of this session
    could read it; unpack also opens an archive (zip, tar) into the folder."""

    name = "import_file"
    title = "Import a file"

    source: Annotated[str, Meta(description="absolute path", min_length=1)]
    path: Path
    unpack: bool = False


class ExportFile(ToolCallArguments, frozen=True):
    """Copy a file to the folder where the user finds exports; tells where."""

    name = "export_file"
    title = "Export a file"
    reads_only = True

    path: Path
    export_as: Annotated[str, Meta(description="another name for it")] | UnsetType = UNSET


class ExportZip(ToolCallArguments, frozen=True):
    """Pack files and folders into one zip where the user finds exports; tells where."""

    name = "export_zip"
    title = "Export a zip"
    reads_only = True

    paths: Annotated[list[Path], Meta(min_length=1, max_length=1000)]
    export_as: Annotated[str, Meta(description="name of the zip")] = "workspace.zip"


CALLS: Mapping[str, type[ToolCallArguments]] = {
    call.name: call
    for call in (
        ExecuteShell, PollProcess, ReadProcessOutput, SearchProcessOutput, ListProcesses,
        KillProcess, WriteProcessInput, ReadFile, WriteFile, ReplaceLinesInFile,
        ReplaceTextInFile, MoveFile, DeleteFile, CreateDirectory, ListDirectory, SearchFiles,
        ImportFile, ExportFile, ExportZip,
    )
}  # fmt: skip


def read_call(name: str, arguments: Mapping[str, Any]) -> ToolCallArguments:
    """Decodes a call. `Refused` says what is wrong with it."""
    call = CALLS.get(name)
    if call is None:
        raise Refused(f"unknown tool {name!r}", hint=f"tools: {', '.join(CALLS)}")
    given = {key: value for key, value in arguments.items() if value is not None}
    try:
        found = msgspec.convert(_cut(given, call), call)
    except msgspec.ValidationError as error:
        fields = ", ".join(field.name for field in msgspec.structs.fields(call))
        raise Refused(f"{name}: {error}", hint=f"arguments: {fields}") from None
    _check_variables(found)
    return found


def _cut(given: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Clamps numbers to their maximum."""
    cut = dict(given)
    for name, most in _bounds(kind).items():
        value = cut.get(name)
        if isinstance(most, float | int):
            if isinstance(value, float | int) and not isinstance(value, bool):
                cut[name] = min(value, most)
        elif isinstance(value, dict):
            cut[name] = _cut(value, most)
    return cut


@cache
def _bounds(kind: type[msgspec.Struct]) -> dict[str, float | type[msgspec.Struct]]:
    """Returns the maximum of each field, or its struct type."""
    found: dict[str, float | type[msgspec.Struct]] = {}
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        inner = field.type
        if isinstance(inner, msgspec.inspect.Metadata):
            if most := (inner.extra or {}).get("most"):
                found[field.encode_name] = most
            inner = inner.type
        if isinstance(inner, msgspec.inspect.StructType):
            found[field.encode_name] = inner.cls
    return found


def _check_variables(call: ToolCallArguments) -> None:
    """Checks variable names: each becomes a word of the command that the policy checks."""
    if not isinstance(call, ExecuteShell):
        return
    for name, value in (call.env or {}).items():
        if "\0" in value:
            raise Refused(f"env: {name} contains a NUL character", hint="remove it")
        if not (name.isascii() and name.isidentifier()):
            raise Refused(f"env: {name!r} is not a variable name", hint="use letters, digits, _")


def description_of(call: type[ToolCallArguments]) -> str:
    return " ".join((call.__doc__ or "").split())


def schema_of(call: type[ToolCallArguments]) -> dict[str, Any]:
    """Returns a JSON schema without references, which some models do not resolve."""
    schema = msgspec.json.schema(call)
    parts = schema.pop("$defs")

    def whole(node: Any) -> Any:
        if isinstance(node, list):
            return [whole(one) for one in node]
        if not isinstance(node, dict):
            return node
        if ref := node.get("$ref"):
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return whole({**parts[ref.rpartition("/")[2]], **rest})
        kind = {"type": "string"} if "enum" in node else {}  # some models need an explicit type
        return kind | {key: whole(value) for key, value in node.items()}

    found: dict[str, Any] = whole(schema)
    found.pop("title", None)
    found.pop("description", None)
    return found
