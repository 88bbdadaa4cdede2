"""Builds the command line, files and prompt of a Cursor turn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tillerman.agents.cursor.config import FILE, copied
from tillerman.agents.cursor.withheld_tools import WithheldTools
from tillerman.agents.decoding.inline_attachments import in_words
from tillerman.core.agent import File, Prompt, SecretFolder, SessionSpec, Word
from tillerman.core.errors import UsageError
from tillerman.core.wire import Launch, TemporaryFile

_SANDBOX = {True: "enabled", False: "disabled", "enabled": "enabled", "disabled": "disabled"}


def launch(
    spec: SessionSpec, prompt: Prompt, own_config: bytes, plugin: Mapping[str, bytes] | None = None
) -> Launch:
    """Builds the launch; `plugin`: the files of our hook plugin, if this version supports it."""
    approval = WithheldTools.of(spec, asked=plugin is not None)
    argv = _argv(spec, approval)
    if plugin is not None:
        argv.append(SecretFolder("--plugin-dir=", plugin))
    return Launch(
        argv=argv,
        env={
            "CURSOR_CONFIG_DIR": SecretFolder("", {FILE: copied(own_config, approval)}),
            "NO_OPEN_BROWSER": "1",
        },
        stdin=_words(prompt).encode("utf-8", "replace"),
        places=tuple(_places(spec)),
    )


def _argv(spec: SessionSpec, approval: WithheldTools) -> list[Word]:
    argv: list[Word] = ["cursor-agent", "-p"]
    argv += ["--output-format=stream-json", "--stream-partial-output"]
    argv.append("--trust")  # without it the CLI exits at once in an unknown folder, no stdout
    # Without it the CLI uses the model that was last selected anywhere.
    argv.append(f"--model={spec.model or 'auto'}")
    if approval.writes:
        argv.append("--force")  # otherwise edits may only be proposed
    if approval.tools:
        names = ",".join(f"{tool}ToolCall" for tool in approval.tools)
        argv.append(f"--exclude-tools={names}")
    if spec.mode != "agent":
        argv.append(f"--mode={spec.mode}")
    if spec.resume:
        if spec.resume.startswith("-"):  # -1 would be the last conversation of any session
            raise UsageError(
                f"Cursor has no conversation {spec.resume!r}", hint="start a new session"
            )
        argv.append(f"--resume={spec.resume}")
    if "sandbox" in spec.native.options:
        argv.append(f"--sandbox={_sandbox(spec)}")
    argv += [f"--add-dir={folder}" for folder in spec.folders]
    if spec.tools.servers:
        argv.append("--approve-mcps")
    return argv


def _sandbox(spec: SessionSpec) -> str:
    wanted = spec.native.options["sandbox"]
    if not isinstance(wanted, bool | str) or wanted not in _SANDBOX:
        raise UsageError(
            f"agents.cursor.sandbox cannot be {wanted!r}", hint="use enabled or disabled"
        )
    return _SANDBOX[wanted]


def _places(spec: SessionSpec) -> Iterator[TemporaryFile]:
    if spec.system:
        words = spec.system.rstrip("\n")
        instead = f"<instructions>\n{words}\n</instructions>\n\n"
        content = f"{words}\n".encode("utf-8", "replace")
        yield TemporaryFile(spec.cwd / "AGENTS.md", content, instead.encode("utf-8", "replace"))
    if spec.tools.servers:
        servers = {name: dict(server) for name, server in spec.tools.servers.items()}
        content = json.dumps({"mcpServers": servers}).encode()
        yield TemporaryFile(spec.cwd / ".cursor" / "mcp.json", content)


def _words(prompt: Prompt) -> str:
    parts = [_inline(file) for file in prompt.files]
    return "\n\n".join([*parts, prompt.text] if prompt.text else parts)


def _inline(file: File) -> str:
    return in_words("cursor", file, hint="it accepts text; refer to other files by path")
