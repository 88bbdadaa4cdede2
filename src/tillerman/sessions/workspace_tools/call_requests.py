"""Translates workspace tool calls into permission requests for the policy."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import Decision
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.content.redacted_text import placeholders_in
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.tools import tool_schemas
from tillerman.workspace.tools.tool_schemas import ToolCallArguments

MOST_MEMBERS = 50  # of an archive, listed in a request


class ToolDenied(Refused):
    """A call denied by a rule, a user or a timeout."""


def acts_of_call(call: ToolCallArguments) -> list[tuple[str, dict[str, Any]]]:
    """Returns the permission requests of a call, as tool names of the vocabulary and inputs. The
    last one also gives the call its title."""
    match call:
        case tool_schemas.ExecuteShell(command=command, cwd=cwd, env=env, stdin=stdin):
            if env:  # a variable may name another program to run
                words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
                command = f"export {words} && {command}"
            where = {} if cwd == "." else {"cwd": cwd}
            given = {"stdin": stdin} if stdin else {}
            return [("Bash", {"command": command, **where, **given})]
        case tool_schemas.WriteProcessInput(text=text) if text.strip():
            return [("Bash", {"command": text})]  # for a shell, it is a command
        case tool_schemas.ReadFile(path=path) | tool_schemas.ExportFile(path=path):
            return [("Read", {"path": path})]
        case tool_schemas.ExportZip(paths=paths):
            return [("Read", {"paths": paths, "recursive": True})]
        case tool_schemas.ListDirectory(path=path):
            return [("LS", {"path": path})]
        case tool_schemas.SearchFiles(pattern=pattern, path=path):
            return [("Grep", {"pattern": pattern, "path": path})]
        case tool_schemas.WriteFile(path=path, content=content):
            return [("Write", {"path": path, "content": content})]
        case tool_schemas.ReplaceLinesInFile():
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
        case tool_schemas.ReplaceTextInFile(path=path, old_text=old, new_text=new):
            return [("Edit", {"path": path, "old_string": old, "new_string": new})]
        case tool_schemas.MoveFile(source=source, destination=destination):
            return [("Rename", {"old_path": source, "new_path": destination})]
        case tool_schemas.DeleteFile(path=path):
            return [("Delete", {"path": path})]
        case tool_schemas.CreateDirectory(path=path):
            return [("Write", {"path": path})]
        case tool_schemas.ImportFile(source=source, path=path):
            return [("Read", {"path": source}), ("Write", {"path": path})]
    return [("MCP", msgspec.to_builtins(call))]


def workspace_files_of(call: ToolCallArguments) -> list[str]:
    """The files and folders that a call names, which must be in the workspace."""
    match call:
        case tool_schemas.ExportZip(paths=paths):
            return list(paths)
        case tool_schemas.MoveFile(source=source, destination=destination):
            return [source, destination]
    path = getattr(call, "path", None)
    return [path] if isinstance(path, str) else []


# Request fields whose names differ from those of the call.
_RENAMED: dict[type[ToolCallArguments], dict[str, str]] = {
    tool_schemas.ReplaceLinesInFile: {"new_string": "new_text", "old_string": "expected_old_text"},
    tool_schemas.ReplaceTextInFile: {"new_string": "new_text", "old_string": "old_text"},
    tool_schemas.MoveFile: {"old_path": "source", "new_path": "destination"},
    tool_schemas.WriteProcessInput: {"command": "text"},
}


def changed_fields(call: ToolCallArguments, tool: str, input: Mapping[str, Any]) -> dict[str, Any]:
    """Translates a changed input back to fields of the call (an import's read path to `source`)."""
    known = {field.name for field in msgspec.structs.fields(call)}
    renamed = _RENAMED.get(type(call), {})
    if isinstance(call, tool_schemas.ImportFile) and tool == "Read":
        renamed = {"path": "source"}
    fields = {renamed.get(key, key): value for key, value in input.items()}
    return {key: value for key, value in fields.items() if key in known}


async def with_members(
    call: tool_schemas.ImportFile,
    input: Mapping[str, Any],
    members: Sequence[str],
    decide: Callable[[PermissionRequested], Decision | None],
) -> dict[str, Any]:
    """Adds the files of an archive that rules ask about to a request's input.

    Raises `ToolDenied` if a rule denies one.
    """
    asked: list[str] = []
    for number, name in enumerate(members):
        if number % 20 == 0:
            await asyncio.sleep(0)  # let other tasks run
        path = f"{call.path.rstrip('/')}/{name}"
        request = PermissionRequested(request_id="", tool="Write", title="", input={"path": path})
        decision = decide(request)
        if decision is None or decision.verdict == "allow":
            continue
        if decision.verdict != "ask":
            raise ToolDenied(f"{path}: {decision.note}", hint="unpack it without that file")
        asked.append(path)
    if not asked:
        return dict(input)
    more = {"more": len(asked) - MOST_MEMBERS} if len(asked) > MOST_MEMBERS else {}
    return {**input, "paths": asked[:MOST_MEMBERS], **more}


def check_placeholders(call: ToolCallArguments, secrets: Secrets) -> None:
    """Refuses a placeholder in a command or a file name, where the secret is not restored."""
    match call:
        case tool_schemas.ExecuteShell(command=command, stdin=stdin, env=env):
            texts = [command, stdin or "", *(env or {}).values()]
        case tool_schemas.WriteProcessInput(text=text):
            texts = [text]
        case _:
            _check_names(call, secrets)
            return
    for found in (one for text in texts for one in placeholders_in(text, secrets)):
        raise Refused(
            f"{found} is a placeholder for a redacted secret: a command gets the placeholder, "
            "not the secret",
            hint="change files that contain secrets with write_file, replace_text_in_file or "
            "replace_lines_in_file, which restore them; copy them with cp",
        )


def _check_names(call: ToolCallArguments, secrets: Secrets) -> None:
    for field in ("path", "source", "destination", "export_as"):
        name = getattr(call, field, None)
        for found in placeholders_in(name, secrets) if isinstance(name, str) else ():
            raise Refused(
                f"{field}: {found} is a placeholder for a redacted secret in a file name",
                hint="name the file with a glob in a command, such as mv dir/*.txt new.txt",
            )
