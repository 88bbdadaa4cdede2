"""How a turn of Cursor is started: flags, config, files, and refused options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.cursor.cursor_playback import PROMPT, SPEC
from tillerman.agents.cursor import config
from tillerman.agents.cursor.launch import launch
from tillerman.agents.cursor.withheld_tools import WithheldTools
from tillerman.core.agent import Prompt, SecretFolder
from tillerman.core.errors import UsageError
from tillerman.core.session_options import with_options
from tillerman.core.wire import Launch, TemporaryFile

AUTO = with_options(SPEC, approve="auto")


def started(**changes: Any) -> Launch:
    return launch(with_options(AUTO, **changes), PROMPT, b"")


def denied(program: Launch) -> list[str]:
    copy = program.env["CURSOR_CONFIG_DIR"]
    assert isinstance(copy, SecretFolder)
    return list(json.loads(copy.files["cli-config.json"])["permissions"]["deny"])


def test_a_plain_turn() -> None:
    program = started()
    assert program.argv == [
        "cursor-agent", "-p", "--output-format=stream-json", "--stream-partial-output", "--trust",
        "--model=auto", "--force",
    ]  # fmt: skip
    assert (program.stdin, program.places) == (b"go", ())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "gpt-5.3-codex[effort=high]"}, ["--model=gpt-5.3-codex[effort=high]"]),
        ({"mode": "plan"}, ["--mode=plan"]),
        ({"mode": "ask"}, ["--mode=ask"]),
        ({"resume": "5f0c"}, ["--resume=5f0c"]),
        ({"folders": (Path("/a"), Path("/b"))}, ["--add-dir=/a", "--add-dir=/b"]),
        ({"options": {"sandbox": True}}, ["--sandbox=enabled"]),
        ({"options": {"sandbox": "disabled"}}, ["--sandbox=disabled"]),
        ({"servers": {"x": {"command": "x"}}}, ["--approve-mcps"]),
    ],
)
def test_session_options_are_on_the_command_line(changes: dict[str, Any], words: list[str]) -> None:
    argv = started(**changes).argv
    assert [word for word in words if word not in argv] == []


@pytest.mark.parametrize("changes", [{"resume": "-1"}, {"options": {"sandbox": "maybe"}}])
def test_ambiguous_options_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        started(**changes)


def test_the_system_prompt_is_a_rule_file_if_there_is_none() -> None:
    assert started(system="Be brief.").places == (
        TemporaryFile(
            Path("/proj/AGENTS.md"),
            b"Be brief.\n",
            b"<instructions>\nBe brief.\n</instructions>\n\n",
        ),
    )


@pytest.mark.parametrize(
    ("approve", "force", "rules"),
    [
        ("auto", True, set()),
        ("edits", True, {"Shell(*)", "Mcp(*:*)", "WebFetch(*)", "Write(**/AGENTS.md)"}),
        ("ask", False, {"Shell(*)", "Mcp(*:*)", "WebFetch(*)", "Write(**)"}),
        ("readonly", False, {"Shell(*)", "Mcp(*:*)", "WebFetch(*)", "Write(**)"}),
        ("none", False, {"Shell(*)", "Mcp(*:*)", "WebFetch(*)", "Write(**)", "Read(**)"}),
        ("unheard-of", False, {"Shell(*)", "Mcp(*:*)", "WebFetch(*)", "Write(**)", "Read(**)"}),
    ],
)
def test_what_a_preset_does_not_allow_is_withheld(
    approve: str, force: bool, rules: set[str]
) -> None:
    program = started(approve=approve)
    every = {"Shell(*)", "Mcp(*:*)", "WebFetch(*)", "Write(**)", "Write(**/AGENTS.md)", "Read(**)"}
    assert every.intersection(denied(program)) == rules
    assert ("--force" in program.argv) == force


def test_protected_files_are_denied_by_name_where_writes_are_allowed() -> None:
    assert {"Write(**/.git/**)", "Write(**/.env*)", "Write(**/.cursor/**)"} <= set(
        denied(started())
    )


@pytest.mark.parametrize("own", [b"", b"not JSON", b"[]", b'{"permissions": 7}'])
def test_an_empty_config_becomes_a_full_one(own: bytes) -> None:
    copy = json.loads(config.copied(own, WithheldTools.of(SPEC, asked=False)))
    assert copy["version"] == 1
    assert copy["permissions"]["allow"] == []
    assert "Shell(*)" in copy["permissions"]["deny"]


def test_the_config_is_read_where_the_cli_reads_it(tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path)}
    assert config.read(variables.get) == b""
    for name, folder in [
        ("HOME", tmp_path / ".cursor"),
        ("XDG_CONFIG_HOME", tmp_path / "xdg" / "cursor"),
        ("CURSOR_CONFIG_DIR", tmp_path / "own"),
    ]:
        folder.mkdir(parents=True)
        (folder / "cli-config.json").write_text(name)
        variables |= {"XDG_CONFIG_HOME": str(tmp_path / "xdg")} if name[0] == "X" else {}
        variables |= {"CURSOR_CONFIG_DIR": str(folder)} if name[0] == "C" else {}
        assert config.read(variables.get) == name.encode()


def test_only_the_prompt_is_sent_on_stdin() -> None:
    assert launch(AUTO, Prompt("- a\n- b"), b"").stdin == b"- a\n- b"
