"""Builds the command line of `codex exec`, which runs one turn and cannot ask the user.

All settings are passed as `-c`: `exec resume` lacks most flags. With a writable sandbox Codex
stores the folder as trusted in the user's config.toml, unless a `-c` sets its trust level.
"""

from __future__ import annotations

import json
from typing import Any

from tillerman.agents.codex.launch import BOUNDED, file_text, sandbox
from tillerman.core.agent import Prompt, SecretFile, SessionSpec, Word
from tillerman.core.wire import Launch


def exec_launch(spec: SessionSpec, prompt: Prompt | None) -> Launch:
    argv: list[Word] = ["codex", "exec"]
    if spec.resume:
        argv.append("fork" if spec.fork else "resume")
    argv += ["--json", "--skip-git-repo-check"]
    for setting in _settings(spec):
        argv += ["-c", setting]
    if spec.output_schema is not None:
        content = json.dumps(dict(spec.output_schema)).encode()
        argv.append(SecretFile("--output-schema=", content))
    if spec.resume:
        argv.append(spec.resume)
    argv.append("-")  # the prompt is on stdin
    return Launch(argv, stdin=_stdin(prompt) if prompt else b"")


def writable(spec: SessionSpec) -> bool:
    """Whether it may write: the user cannot be asked, so only if the policy allows everything."""
    return spec.mode == "agent" and spec.approval.preset == "auto" and sandbox(spec) != "read-only"


def _settings(spec: SessionSpec) -> list[str]:
    mode = sandbox(spec) if writable(spec) else "read-only"
    trust = {str(spec.cwd): {"trust_level": "untrusted"}}
    settings = [BOUNDED, f"sandbox_mode={_toml(mode)}", f"projects={_toml(trust)}"]
    if spec.folders:
        roots = _toml([str(folder) for folder in spec.folders])
        settings.append(f"sandbox_workspace_write.writable_roots={roots}")
    if spec.native.options.get("network") is True:
        settings.append("sandbox_workspace_write.network_access=true")
    if spec.model:
        settings.append(f"model={_toml(spec.model)}")
    if spec.effort:
        settings.append(f"model_reasoning_effort={_toml(spec.effort)}")
    if spec.system:
        settings.append(f"developer_instructions={_toml(spec.system)}")
    return settings


def _stdin(prompt: Prompt) -> bytes:
    parts = [*(file_text(file) for file in prompt.files), prompt.text]
    return "\n\n".join(part for part in parts if part).encode()


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_toml(k)}={_toml(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_toml, value)) + "]"
    # A JSON string is a TOML string, except for the one character that only TOML escapes.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
