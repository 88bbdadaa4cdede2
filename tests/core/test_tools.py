"""Titles of tool calls, in one line for people."""

from __future__ import annotations

from typing import Any

import pytest

from tillerman.core.tools import READS, TOOLS, WRITES, class_of, paths_of, shorten, title


@pytest.mark.parametrize(
    ("tool", "input", "expected"),
    [
        ("Edit", {"file_path": "/ws/src/app.py"}, "Edit `src/app.py`"),
        ("Read", {"path": "/etc/hosts"}, "Read `/etc/hosts`"),
        ("NotebookEdit", {"notebook_path": "a.ipynb"}, "Edit `a.ipynb`"),
        ("Write", {}, "Write"),
        ("Bash", {"command": "npm test"}, "Bash `npm test`"),
        ("Bash", {"cmd": ["ls", "-l"]}, "Bash `ls -l`"),
        ("Bash", {"command": "cat <<E\n  two\nE"}, "Bash `cat <<E two E`"),
        ("Grep", {"pattern": "TODO", "path": "/ws/src"}, "Search `TODO` in `src`"),
        ("Grep", {"pattern": "TODO"}, "Search `TODO`"),
        ("Glob", {"pattern": "**/*.py"}, "Find `**/*.py`"),
        ("LS", {"path": "/ws/src"}, "List `src`"),
        ("WebFetch", {"url": "https://example.org"}, "Fetch `https://example.org`"),
        ("WebSearch", {"query": "cats"}, "Search the web for `cats`"),
        ("Task", {"description": "Find bugs", "prompt": "…"}, "Task `Find bugs`"),
        ("TodoWrite", {"todos": []}, "Update the plan"),
        ("ExitPlanMode", {"plan": "x"}, "Present the plan"),
        ("Question", {}, "Ask"),
    ],
)
def test_a_title_describes_the_call(tool: str, input: dict[str, Any], expected: str) -> None:
    assert title(tool, input, cwd="/ws") == expected


def test_past_three_files_the_rest_is_counted() -> None:
    edits = [{"file_path": f"f{n}.py"} for n in range(6)]
    assert title("MultiEdit", {"edits": edits}) == "Edit `f0.py`, `f1.py`, `f2.py` +3 more files"


def test_a_tool_of_an_mcp_server_is_named_as_the_agent_names_it() -> None:
    assert title("MCP", {"x": 1}, name="server.tool") == "MCP `server.tool`"


def test_an_unknown_tool_keeps_its_own_name() -> None:
    assert title("teleport", {}, name="Teleport") == "Teleport"
    assert title("teleport", {}) == "teleport"


def test_a_long_command_is_cut_with_a_mark() -> None:
    message = title("Bash", {"command": "x" * 500})
    assert (len(message), message[-2:]) == (len("Bash ``") + 72, "…`")


def test_a_folder_that_only_shares_a_prefix_is_not_the_working_folder() -> None:
    assert title("Read", {"path": "/wsx/a"}, cwd="/ws") == "Read `/wsx/a`"


@pytest.mark.parametrize(
    "path", ["a/" * 60 + "end.py", "x" * 200, "d/" + "y" * 80, "é/" * 60 + "z"]
)
def test_a_long_path_loses_its_middle_and_never_its_end(path: str) -> None:
    short = shorten(path)
    assert len(short) <= 48
    assert "…" in short
    head, _, tail = short.partition("…")
    assert path.startswith(head)
    assert path.endswith(tail)


def test_a_short_path_is_left_alone() -> None:
    assert shorten("src/app.py") == "src/app.py"


def test_paths_are_found_once_each_under_any_known_key() -> None:
    input = {
        "file_path": "a",
        "path": "b",
        "target_file": "a",
        "edits": [{"file_path": "c"}, {"no": 1}, "odd"],
        "absolute_path": 7,
        "filePath": "",
    }
    assert paths_of(input) == ("a", "b", "c")


@pytest.mark.parametrize("odd", [None, 7, {}, {"a": 1}, [None, 3]])
@pytest.mark.parametrize("tool", TOOLS)
def test_input_of_an_odd_shape_still_has_a_title(tool: str, odd: Any) -> None:
    keys = ("command", "pattern", "query", "url", "description", "edits", "file_path")
    message = title(tool, dict.fromkeys(keys, odd))
    assert message
    assert "\n" not in message


def test_every_class_of_tools_is_in_the_vocabulary_and_in_one_class_only() -> None:
    assert set(TOOLS) >= READS | WRITES
    assert not READS & WRITES


def test_every_tool_has_a_class_but_those_of_the_loop() -> None:
    classes = {tool: class_of(tool) for tool in (*TOOLS, "SomebodysTool")}

    assert {tool for tool, its in classes.items() if its is None} == {
        "TodoWrite", "Task", "ExitPlanMode", "Question",
    }  # fmt: skip
    assert class_of("ToolSearch") is None
    assert classes["SomebodysTool"] == classes["MCP"] == "mcp"
    assert classes["Bash"] == "shell"
    assert classes["WebFetch"] == "network"
    assert {classes[tool] for tool in READS} == {"read"}
    assert {classes[tool] for tool in WRITES} == {"write"}
