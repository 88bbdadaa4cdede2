"""The stand-in for Cursor runs hooks as recorded from the real one, or reports that it cannot."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.cursor_alone import Cursor

HOOKS = Path(__file__).parents[1] / "recordings" / "cursor" / "hooks"


def keys(payload: dict[str, Any]) -> set[str]:
    return payload.keys() - {"model_id", "model_params", "agent_message"}


@pytest.mark.parametrize(
    ("event", "step", "recorded"),
    [
        ("preToolUse", {"shell": "true"}, "preToolUse"),
        ("preToolUse", {"read": "a"}, "preToolUse_read"),
        ("beforeShellExecution", {"shell": "true"}, "beforeShellExecution"),
        ("beforeReadFile", {"read": "a"}, "beforeReadFile"),
        ("afterShellExecution", {"shell": "true"}, "afterShellExecution"),
        ("postToolUse", {"shell": "true"}, "postToolUse"),
        ("postToolUseFailure", {"shell": "false"}, "postToolUseFailure"),
        ("sessionStart", {"say": "x"}, "sessionStart"),
    ],
)
def test_a_hook_receives_the_recorded_payload(
    cursor: Cursor, event: str, step: dict[str, Any], recorded: str
) -> None:
    (cursor.project / "a").write_text("text\n")
    cursor.hook(event, "cat > ../told")
    cursor.perform(step)
    fields = json.loads((cursor.project.parent / "told").read_text())
    sample = json.loads((HOOKS / f"{recorded}.json").read_text())["request"]
    assert keys(fields) - {"cwd"} == keys(sample) - {"cwd"}
    assert fields["hook_event_name"] == event
    if "tool_input" in sample:
        assert fields["tool_name"] == sample["tool_name"]


def test_an_edit_requests_twice_with_one_id(cursor: Cursor) -> None:
    cursor.hook("preToolUse", "cat >> ../told; echo >> ../told")
    cursor.results({"edit": "a.txt", "content": "hello\n"})
    reported = [json.loads(x) for x in (cursor.project.parent / "told").read_text().splitlines()]
    assert [(one["tool_name"], one["tool_input"]) for one in reported] == [
        ("Read", {"file_path": "a.txt"}),
        ("Write", {"file_path": "a.txt", "content": "hello\n"}),
    ]
    assert reported[0]["tool_use_id"] == reported[1]["tool_use_id"]


DENY = """echo '{"permission":"deny","user_message":"No."}'"""
NOTE = "\n\nAgent note: Do not suggest workarounds to the blocked tool."


@pytest.mark.parametrize(
    ("event", "hook", "reason"),
    [
        ("preToolUse", {"command": DENY}, f"No.{NOTE}"),
        ("beforeShellExecution", {"command": DENY}, f"Hook blocked with message: No.{NOTE}"),
        ("preToolUse", {"command": "echo No. >&2; exit 2"}, f"No.{NOTE}"),
        ("preToolUse", {"command": DENY, "matcher": "Shell|Write"}, f"No.{NOTE}"),
        ("preToolUse", {"command": DENY, "matcher": "Read"}, None),
        ("beforeShellExecution", {"command": DENY, "matcher": "curl|wget"}, None),
        ("preToolUse", {"command": "exit 1"}, None),
        ("preToolUse", {"command": "exit 1", "failClosed": True}, f"the hook failed: 1{NOTE}"),
        ("preToolUse", {"command": "echo what"}, None),
        (
            "preToolUse",
            {"command": "echo what", "failClosed": True},
            f"the hook said no JSON object{NOTE}",
        ),
        ("preToolUse", {"command": "sleep 60", "timeout": 0.2}, None),
        (
            "preToolUse",
            {"command": "sleep 60", "timeout": 0.2, "failClosed": True},
            f"the hook failed: timeout{NOTE}",
        ),
        ("preToolUse", {"command": """echo '{"permission":"ask"}'"""}, None),
        ("preToolUse", {"command": "true"}, None),
        ("preToolUse", {"command": f"curl https://127.0.0.1; {DENY}"}, None),
    ],
)
def test_a_hook_decides(
    cursor: Cursor, event: str, hook: dict[str, Any], reason: str | None
) -> None:
    cursor.hooks({event: [hook]})
    began = time.monotonic()
    (result,) = cursor.results({"shell": "touch ran"}, flags=["--force"])
    assert time.monotonic() - began < 20
    assert result.get("rejected", {}).get("reason") == reason
    assert (cursor.project / "ran").exists() == (reason is None)


def test_one_unknown_event_voids_the_whole_file(cursor: Cursor) -> None:
    cursor.hooks({"preToolUse": [{"command": DENY}], "notification": [{"command": "true"}]})
    assert "success" in cursor.results({"shell": "true"})[0]


def test_a_hook_may_change_the_command(cursor: Cursor) -> None:
    changed = json.dumps({"permission": "allow", "updated_input": {"command": "touch other"}})
    cursor.hook("preToolUse", f"echo '{changed}'")
    cursor.results({"shell": "touch ran"})
    assert [path.name for path in cursor.project.glob("[!.]*")] == ["other"]


def user_hooks(cursor: Cursor) -> list[str]:
    cursor.hooks({"preToolUse": [{"command": "pwd > told; exit 2"}]}, cursor.home)
    return []


def plugin_hooks(cursor: Cursor) -> list[str]:
    plugin = cursor.home / "plugin"
    (plugin / ".cursor-plugin").mkdir(parents=True)
    (plugin / "hooks").mkdir()
    manifest = {"name": "x", "version": "1.0.0", "hooks": "./hooks/hooks.json"}
    (plugin / ".cursor-plugin" / "plugin.json").write_text(json.dumps(manifest))
    hook = {"command": 'echo "$CURSOR_PLUGIN_ROOT" > told; exit 2'}
    config = {"version": 1, "hooks": {"preToolUse": [hook]}}
    (plugin / "hooks" / "hooks.json").write_text(json.dumps(config))
    return ["--plugin-dir", str(plugin)]


@pytest.mark.parametrize(("prepare", "folder"), [(user_hooks, ".cursor"), (plugin_hooks, "plugin")])
def test_hooks_of_the_user_and_of_a_plugin_run_in_their_own_folder(
    cursor: Cursor, prepare: Callable[[Cursor], list[str]], folder: str
) -> None:
    (result,) = cursor.results({"shell": "true"}, flags=prepare(cursor))
    assert "rejected" in result
    root = cursor.home / folder
    assert (root / "told").read_text() == f"{root}\n"


def test_events_print_mode_does_not_fire_are_not_fired(cursor: Cursor) -> None:
    silent = ["stop", "beforeSubmitPrompt", "afterAgentResponse", "afterAgentThought"]
    cursor.hooks({event: [{"command": "touch ../fired"}] for event in silent})
    cursor.perform({"think": "x"}, {"say": "x"})
    assert not (cursor.project.parent / "fired").exists()


def test_the_session_begins_and_ends_for_its_hooks_and_gives_them_variables(
    cursor: Cursor,
) -> None:
    lent = json.dumps({"env": {"LENT": "yes"}})
    cursor.hooks(
        {
            "sessionStart": [{"command": f"echo '{lent}'"}],
            "sessionEnd": [{"command": "echo $LENT > ../ended"}],
        }
    )
    cursor.perform({"say": "x"})
    assert (cursor.project.parent / "ended").read_text() == "yes\n"


# -- input and output of a hook --------------------------------------------------------------------

SHOUT = Path(__file__).parents[1] / "real" / "mcp_server.py"
MCP = {
    "tool": "mcp",
    "args": {"serverIdentifier": "loud", "toolName": "shout", "args": {"text": "hey"}},
}


@pytest.fixture
def loud(cursor: Cursor) -> dict[str, Any]:
    """An MCP server of the user's."""
    server = {"command": sys.executable, "args": [str(SHOUT)]}
    file = cursor.home / ".cursor" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"loud": server}}))
    return server


def model_inputs(cursor: Cursor) -> list[Any]:
    lines = (cursor.project.parent / "told").read_text().splitlines()
    return [json.loads(line) for line in lines if line]


KEEP = "cat >> ../told; echo >> ../told"


def test_a_call_of_a_server_requests_twice_and_gives_its_input_as_a_string(
    cursor: Cursor, loud: dict[str, Any]
) -> None:
    cursor.hooks({event: [{"command": KEEP}] for event in ("preToolUse", "beforeMCPExecution")})
    (result,) = cursor.results(MCP)
    assert result["success"]["content"] == [{"text": {"text": "HEY"}}]
    first, second = model_inputs(cursor)
    assert (first["tool_name"], first["tool_input"]) == ("MCP:shout", {"text": "hey"})
    assert (second["tool_name"], second["tool_input"]) == ("shout", '{"text": "hey"}')
    assert second["command"] == " ".join([loud["command"], *loud["args"]])
    sample = json.loads((HOOKS / "beforeMCPExecution.json").read_text())["request"]
    assert keys(second) == keys(sample)


@pytest.mark.usefixtures("loud")
def test_a_servers_result_may_be_replaced_and_the_model_given_more(cursor: Cursor) -> None:
    output = {"content": [{"type": "text", "text": "***"}]}
    reply = json.dumps({"updated_mcp_tool_output": output, "additional_context": "Mind it."})
    cursor.hook("postToolUse", f"echo '{reply}'")
    (line,) = [
        one["tool_call"]
        for one in cursor.perform(MCP)
        if "tool_call" in one and one["subtype"] == "completed"
    ]
    assert line["mcpToolCall"]["result"]["success"]["content"] == [{"text": {"text": "***"}}]
    assert line["hookAdditionalContexts"] == ["Mind it."]
    assert "Mind it." in cursor.told()


def test_the_end_of_the_session_is_reported_as_recorded(cursor: Cursor) -> None:
    cursor.hook("sessionEnd", KEEP)
    cursor.perform({"say": "x"})
    sample = json.loads((HOOKS / "sessionEnd.json").read_text())["request"]
    assert keys(model_inputs(cursor)[0]) == keys(sample)


def test_context_at_the_start_of_the_session_reaches_the_model(cursor: Cursor) -> None:
    cursor.hook("sessionStart", """echo '{"additional_context": "Keep changes small."}'""")
    cursor.perform({"say": "x"})
    assert "Keep changes small." in cursor.told()


def test_the_model_receives_hook_messages(cursor: Cursor) -> None:
    deny = {"permission": "deny", "user_message": "No.", "agent_message": "Open a pull request."}
    cursor.hook("preToolUse", f"echo '{json.dumps(deny)}'")
    cursor.results({"shell": "git push"})
    assert "Open a pull request." in cursor.told()


# -- whose word counts -----------------------------------------------------------------------------


def test_denying_the_first_question_of_an_edit_rejects_the_edit(cursor: Cursor) -> None:
    cursor.hook("preToolUse", DENY, matcher="^Read$")
    (result,) = cursor.results({"edit": "a.txt", "content": "x"})
    assert result == {"rejected": {"reason": f"No.{NOTE}", "isReadonly": False}}
    assert not (cursor.project / "a.txt").exists()


def test_a_denial_of_the_user_counts_beside_the_projects_allowance(cursor: Cursor) -> None:
    cursor.hook("preToolUse", """echo '{"permission":"allow"}'""")
    cursor.hooks({"preToolUse": [{"command": DENY}]}, cursor.home)
    assert "rejected" in cursor.results({"shell": "true"})[0]


def test_of_two_changes_the_projects_counts(cursor: Cursor) -> None:
    def change(to: str) -> str:
        reply = {"permission": "allow", "updated_input": {"command": f"touch {to}"}}
        return f"echo '{json.dumps(reply)}'"

    cursor.hook("preToolUse", change("projects"))
    cursor.hooks({"preToolUse": [{"command": change("users")}]}, cursor.home)
    cursor.results({"shell": "touch ran"})
    assert [path.name for path in cursor.project.glob("[!.]*")] == ["projects"]


@pytest.mark.parametrize(
    ("reply", "ran"), [("[]", False), ("7", False), ('{"decision": "what"}', True)]
)
def test_a_reply_that_is_not_an_object_denies_and_one_of_another_schema_does_not(
    cursor: Cursor, reply: str, ran: bool
) -> None:
    cursor.hook("preToolUse", f"echo '{reply}'", failClosed=True)
    cursor.results({"shell": "touch ran"})
    assert (cursor.project / "ran").exists() == ran


def test_parallel_calls_request_and_end_independently(cursor: Cursor) -> None:
    """The second call lets the first one continue."""
    wait = "for _ in $(seq 500); do test -e second && exit 0; sleep 0.02; done; exit 2"
    cursor.hook("beforeShellExecution", f"read -r line; case $line in *first*) {wait};; esac")
    first, second = {"shell": "touch first"}, {"shell": "touch second"}
    lines = cursor.perform({"tools": [first, second]})
    ended = [
        one["tool_call"]["shellToolCall"]["args"]["command"]
        for one in lines
        if one.get("subtype") == "completed" and "tool_call" in one
    ]
    assert ended == ["touch second", "touch first"]


def test_an_older_version_takes_a_plugin_and_runs_none_of_its_hooks(tmp_path: Path) -> None:
    cursor = Cursor(tmp_path, version="2026.07.16-0a1b2c3")
    (result,) = cursor.results({"shell": "true"}, flags=plugin_hooks(cursor))
    assert "success" in result


def test_an_event_never_seen_to_fire_can_be_fired(cursor: Cursor) -> None:
    cursor.hook("preCompact", KEEP)
    cursor.perform({"fire": "preCompact", "with": {"trigger": "auto"}})
    assert model_inputs(cursor)[0]["trigger"] == "auto"
