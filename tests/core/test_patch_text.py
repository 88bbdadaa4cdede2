"""The files of a patch are found as agents find them, whatever blanks stand around a header."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path, PurePath
from typing import Any

import pytest

from tillerman.agents.copilot.tools import CopilotToolCall
from tillerman.agents.opencode.tools import OpenCodeToolCall
from tillerman.config.policy_rules import rule_of
from tillerman.core import tools
from tillerman.core.events import PermissionRequested
from tillerman.core.patch_text import patched_files
from tillerman.core.permission import DecisionContext, Policy
from tillerman.hooks.dialects import load
from tillerman.surfaces.rendering.proposed_edits import edits_of
from tillerman.workspace.files.policy_lookup import DiskFiles

# Headers that Codex, OpenCode or Copilot accept; `{}` is the file.
HEADERS = (
    "*** Update File: {}\n@@\n-a\n+b\n",
    "*** Update File: {}  \r\n@@\n-a\n+b\n",
    "*** Add File: {}\n+b\n",
    "*** Add File:{}\n+b\n",
    "  *** Add File: {}\n+b\n",
    "\t*** Delete File: {}\n",
    "\u3000*** Delete File:   {}\n",
    "*** Delete File: {}\n",
    "*** Update File: README.md\n*** Move to: {}\n@@\n-a\n+b\n",
    "*** Update File: README.md\n*** Move to:{}\n@@\n-a\n+b\n",
    "*** update file: {}\n@@\n-a\n+b\n",
)
DENIED = (".env", "secrets/a b.txt", "./.env", "src/../.env")
CONTEXT = DecisionContext(cwd=PurePath("/ws"), home=PurePath("/home/me"))
POLICY = Policy.preset(
    "auto", rules=[rule_of({"deny": "no", "path": [".env", "secrets/**"]}, "rules:1")]
)


def patch(header: str, path: str) -> str:
    first = "*** Add File: fine.txt\n+x\n"
    return f"*** Begin Patch\n{first}{header.replace('{}', path)}*** End Patch\n"


def verdict(tool: str, input: dict[str, Any], paths: tuple[str, ...]) -> str:
    request = PermissionRequested(request_id="1", tool=tool, title="", input=input, paths=paths)
    return POLICY.decide(request, CONTEXT).verdict


def by_hook(agent: str, event: str, name: str, field: str) -> Callable[[str], str]:
    def decided(text: str) -> str:
        dialect = load(agent)
        told = {"tool_name": name, "tool_input": {field: text}, "cwd": "/ws", "session_id": "1"}
        request = dialect.request_of(dialect.read(event, json.dumps(told).encode()), "1")
        assert request
        return POLICY.decide(request, CONTEXT).verdict

    return decided


def by_opencode(text: str) -> str:
    call = OpenCodeToolCall("1", "apply_patch", {"patchText": text})
    return verdict(call.tool, call.input, call.paths)


def by_copilot(text: str) -> str:
    call = CopilotToolCall("1", "apply_patch", {"patch": text})
    return verdict(call.tool, call.input, call.paths)


def by_shell(text: str) -> str:
    return verdict("Bash", {"command": f"apply_patch <<'EOF'\n{text}EOF"}, ())


def by_argument(text: str) -> str:
    return verdict("Bash", {"command": f"cd src/.. && apply_patch '{text}'"}, ())


CHANNELS = {
    "codex hook": by_hook("codex", "PreToolUse", "apply_patch", "command"),
    "opencode hook": by_hook("opencode", "tool.execute.before", "apply_patch", "patchText"),
    "opencode": by_opencode,
    "copilot": by_copilot,
    "acp": lambda text: verdict("Edit", {"input": text}, ()),
    "mcp": lambda text: verdict("MCP", {"patch": text}, ()),
    "shell": by_shell,
    "argument": by_argument,
}


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_denied_file_in_a_patch_is_denied(channel: str) -> None:
    said = {
        (header, path): CHANNELS[channel](patch(header, path))
        for header, path in product(HEADERS, DENIED)
    }
    assert {one for one, decided in said.items() if decided != "deny"} == set()


@pytest.mark.parametrize("channel", CHANNELS)
def test_another_file_in_a_patch_is_not(channel: str) -> None:
    for header in HEADERS:
        if (channel in ("shell", "argument") and not header.isascii()) or "\r" in header:
            continue  # a line with invisible characters is asked about
        assert CHANNELS[channel](patch(header, "src/a.py")) == "allow"


@pytest.mark.parametrize("header", HEADERS)
def test_each_change_is_named_and_shown(header: str) -> None:
    text = patch(header, ".env")
    assert [file.path for file in patched_files(text)][-1] == ".env"
    assert ".env" in tools.paths_of({"patch": text})
    if "update file" in header:
        return
    shown = [name for edit in edits_of("Edit", {"patch": text}) for name in (edit.path, edit.moved)]
    assert ".env" in shown


def test_the_lines_of_a_patch_are_no_headers() -> None:
    text = "*** Begin Patch\n*** Add File: a\n+*** Add File: .env\n-*** Delete File: .env\n"
    assert [file.path for file in patched_files(text)] == ["a"]


def test_a_patch_that_the_line_does_not_show_may_change_any_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1\n")
    here = DecisionContext(tmp_path, files=DiskFiles())
    for line in ("apply_patch < change.diff", 'apply_patch "$(cat change.diff)"', "apply_patch"):
        request = PermissionRequested(
            request_id="1", tool="Bash", title="", input={"command": line}
        )
        assert POLICY.decide(request, here).verdict == "ask"
