"""Reads and validates the `run` options: prompt, attachments, session options, limits."""

from __future__ import annotations

import os
import select
import stat
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from tillerman.core.errors import UsageError
from tillerman.surfaces import prompt_files
from tillerman.surfaces.json_argument import json_object

STDIN_MAX_WAIT = 3.0  # seconds; an idle pipe on stdin must not block the prompt


def prompt_text(options: Namespace) -> str:
    if options.file and options.prompt not in (None, "-"):
        raise UsageError("the prompt is given twice", hint="use either -f FILE or the argument")
    if options.file:
        text = _read(options.file, "-f")
    elif options.prompt in (None, "-"):
        if sys.stdin.isatty():
            hint = _taken(options) or 'tillerman run "what to do", -f FILE, or pipe it in'
            raise UsageError("no prompt", hint=hint)
        text = _decoded(sys.stdin.buffer.read(), "standard input")
    else:
        piped = _piped()
        text = f"{options.prompt}\n\n{piped}" if piped.strip() else options.prompt
    if not text.strip():
        hint = _taken(options) or 'tillerman run "what to do"'
        raise UsageError("the prompt is empty", hint=hint)
    return text


def attachments(paths: list[Path]) -> list[tuple[str, str, bytes]]:
    """Name, MIME type and bytes of each attached file."""
    return [prompt_files.read(path, f"--attach {path}") for path in paths]


def requested(options: Namespace) -> dict[str, Any]:
    """Session options that were given; all others are left to the config."""
    for folder in options.add_dir:
        _folder(folder, "--add-dir")
    parsed: dict[str, Any] = {
        "model": options.model,
        "mode": options.mode,
        "effort": options.effort,
        "system": _text_or_file(options.system),
        "folders": tuple(folder.resolve() for folder in options.add_dir),
        "servers": _servers(options.mcp_config),
        "output_schema": _schema(options.output_schema),
        "repair_output": options.repair_output or None,
        "max_turns": options.max_turns,
        "max_cost": options.max_cost,
        "max_tokens": options.max_tokens,
        "approve": options.approve,
        "accept_advisory": options.accept_advisory or None,
        "accept_unpriced": options.accept_unpriced or None,
        "timeout": options.timeout,
        "request_timeout": options.request_timeout,
        "env": tuple(options.env),
        "workspace_tools": options.workspace_tools or None,
    }
    return {name: value for name, value in parsed.items() if value not in (None, (), {})}


def limits(options: Namespace) -> dict[str, Any]:
    """Options for continuing a task, as far as the command defines them."""
    names = (
        "model", "mode", "approve", "max_turns", "max_cost", "max_tokens", "timeout",
        "request_timeout",
    )  # fmt: skip
    parsed = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    accepted = ("accept_advisory", "accept_unpriced")
    return parsed | {name: True for name in accepted if getattr(options, name, False)}


def working_folder(options: Namespace) -> Path:
    _folder(options.cwd, "--cwd")
    return Path(options.cwd).resolve()


# -- helpers ---------------------------------------------------------------------------------------


def _taken(options: Namespace) -> str:
    """Hint for a one-word prompt that was parsed as the value of the option before it."""
    if options.prompt is None and options.worktree:
        word = options.worktree
        return f'{word!r} was read as the worktree name: use --worktree= "{word}"'
    if options.prompt is None and options.resume not in (None, "last"):
        return f'{options.resume!r} was read as a session id: use -c "{options.resume}"'
    return ""


def _piped() -> str:
    """Text from standard input; empty if it is a terminal, a folder or an idle pipe."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        return ""
    if os.isatty(0) or stat.S_ISDIR(mode):
        return ""
    if not stat.S_ISREG(mode) and not select.select([0], [], [], STDIN_MAX_WAIT)[0]:
        sys.stderr.write("warning: no data on standard input; continuing without it\n")
        return ""
    return _decoded(sys.stdin.buffer.read(), "standard input")


def _text_or_file(text: str | None) -> str | None:
    return _read(Path(text[1:]), "--system") if text and text.startswith("@") else text


def _servers(given: list[str]) -> dict[str, Any]:
    """Parses MCP servers: `{"mcpServers": {NAME: {…}}}`, or only the inner object."""
    servers: dict[str, Any] = {}
    for one in given:
        source = one if one.lstrip().startswith("{") else _read(Path(one), "--mcp-config")
        found = json_object(source, "--mcp-config")
        found = found.get("mcpServers", found)
        if not isinstance(found, dict) or not all(isinstance(s, dict) for s in found.values()):
            raise UsageError(
                "--mcp-config: a server is not an object",
                hint='{"mcpServers": {"name": {"command": "…", "args": []}}}',
            )
        servers |= found
    return servers


def _schema(path: Path | None) -> dict[str, Any] | None:
    return json_object(_read(path, "--output-schema"), "--output-schema") if path else None


def _folder(path: Path, option: str) -> None:
    if not path.is_dir():
        raise UsageError(
            f"{option} {path}: no such folder", hint="create it, or give another folder"
        )


def _read(path: Path, option: str) -> str:
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(
            f"{option} {path}: {error.strerror}", hint="check that it exists, and its permissions"
        ) from None


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"{where} is not UTF-8 text", hint="use --attach for other files"
        ) from None
