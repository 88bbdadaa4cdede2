"""Files with secrets, and files that several servers write, as clients see them."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.mcp.mcp_desk import Machine, Wire, started, text, until

pytestmark = pytest.mark.timeout(240)

EDITS = int(os.environ.get("TILLERMAN_TORTURE_EDITS", "10000"))
KEY = "sk-abcdefghijklmnop0123456789"
TOKEN = "registered-value-4711"


def accepted(wire: Wire, tool: str, **arguments: object) -> str:
    result = wire.call(tool, **arguments)
    assert not result["isError"], text(result)
    return text(result)


def refused(wire: Wire, tool: str, **arguments: object) -> str:
    result = wire.call(tool, **arguments)
    assert result["isError"], text(result)
    return text(result)


# -- secrets ---------------------------------------------------------------------------------------


def test_a_secret_survives_every_tool_that_writes(house: Machine, wire: Wire) -> None:
    path = house.project / "settings"
    path.write_text(f"key = {KEY}\nport = 1\n")
    seen = wire.call("read_file", path="settings")
    assert KEY not in json.dumps(seen) and "1 placeholders" in text(seen)
    shown = "key = [secret:api-key]"
    hash = seen["_meta"]["tillerman/result"]["hash"]
    accepted(
        wire, "write_file", path="settings", content=f"{shown}\nport = 2\n", expected_hash=hash
    )
    assert path.read_text() == f"key = {KEY}\nport = 2\n"
    accepted(
        wire, "replace_lines_in_file",
        path="settings", start=1, end=1, new_text=f"{shown} # mine", expected_old_text=shown,
    )  # fmt: skip
    assert path.read_text() == f"key = {KEY} # mine\nport = 2\n"
    accepted(
        wire, "replace_text_in_file",
        path="settings", old_text=f"{shown} # mine", new_text=f"[secret:api-key]\n{shown}",
    )  # fmt: skip
    assert path.read_text() == f"{KEY}\nkey = {KEY}\nport = 2\n"
    accepted(wire, "move_file", source="settings", destination="moved")
    assert KEY not in accepted(wire, "delete_file", path="moved")
    assert KEY not in json.dumps(house.log())


def test_a_placeholder_that_cannot_be_resolved_is_refused(house: Machine, wire: Wire) -> None:
    (house.project / "settings").write_text(f"key = {KEY}\n")
    assert "does not contain" in refused(
        wire, "write_file", path="copy", content="key = [secret:api-key]\n"
    )
    for call in (
        {"command": "echo '[secret:api-key]' > settings"},
        {"command": "cat > settings", "stdin": "key = [secret:api-key]\n"},
        {"command": 'echo "$KEY" > settings', "env": {"KEY": "[secret:api-key]"}},
    ):
        reported = refused(wire, "execute_shell", **call)
        assert "replace_text_in_file" in reported
    process = started(wire, "cat > settings2")
    reported = refused(wire, "write_process_input", process_id=process, text="[secret:api-key]\n")
    assert "replace_text_in_file" in reported
    accepted(wire, "kill_process", process_id=process)
    assert (house.project / "settings").read_text() == f"key = {KEY}\n"
    assert not (house.project / "copy").exists()
    assert "x[secret:end]" in accepted(wire, "execute_shell", command="echo 'x[secret:end]'")


def test_a_name_that_contains_a_secret_is_not_built_from_its_placeholder(
    house: Machine, wire: Wire
) -> None:
    (house.project / "named").mkdir()
    (house.project / f"named/{KEY}").write_text("x")
    shown = "named/[secret:api-key]"
    assert shown in accepted(wire, "list_directory", path="named")
    for tool, arguments in (
        ("write_file", {"path": shown, "content": "y"}),
        ("create_directory", {"path": shown}),
        ("move_file", {"source": shown, "destination": "named/new"}),
        ("move_file", {"source": f"named/{KEY}", "destination": shown}),
        ("import_file", {"source": "/etc/hostname", "path": shown}),
    ):
        assert "glob" in refused(wire, tool, **arguments)
    assert [path.name for path in (house.project / "named").iterdir()] == [KEY]


# -- several servers -------------------------------------------------------------------------------


def begin(wire: Wire, line: str, by_number: bool) -> int:
    if by_number:
        return wire.begin(
            "replace_lines_in_file",
            path="a", start=1, end=1, new_text=f"first\n{line}", expected_old_text="first",
        )  # fmt: skip
    return wire.begin(
        "replace_text_in_file", path="a", old_text="last\n", new_text=f"{line}\nlast\n"
    )


def edit_from_three_servers(machine: Machine, edits: int) -> None:
    (machine.project / "a").write_text("first\nlast\n")
    wires = [machine.greeted("--approve", "auto") for _ in range(3)]

    def edit(server: int) -> list[str]:
        wire, done = wires[server], []
        for batch in range(0, edits // 3, 20):
            lines = [f"s{server}-{number}" for number in range(batch, min(batch + 20, edits // 3))]
            calls = [begin(wire, line, at % 2 == 0) for at, line in enumerate(lines)]
            for line, call in zip(lines, calls, strict=True):
                result = wire.called(call)
                assert not result["isError"], text(result)
                done.append(line)
        return done

    with ThreadPoolExecutor(3) as pool:
        done = [line for lines in pool.map(edit, range(3)) for line in lines]
    there = (machine.project / "a").read_text().splitlines()
    assert sorted(there) == sorted([*done, "first", "last"])
    assert [path.name for path in machine.project.iterdir()] == ["a"]


def test_no_edit_of_three_servers_is_lost(machine: Machine) -> None:
    edit_from_three_servers(machine, 500)


@pytest.mark.torture
@pytest.mark.timeout(3_600)
def test_no_edit_of_three_servers_is_lost_in_many(machine: Machine) -> None:
    edit_from_three_servers(machine, EDITS)


def test_of_many_writes_with_one_hash_a_single_one_is_accepted(machine: Machine) -> None:
    (machine.project / "a").write_text("old\n")
    wires = [machine.greeted("--approve", "auto") for _ in range(3)]
    hash = wires[0].call("read_file", path="a")["_meta"]["tillerman/result"]["hash"]
    calls = [
        (wire, wire.begin("write_file", path="a", content=f"{n}\n", expected_hash=hash), n)
        for n in range(8)
        for wire in wires
    ]
    taken = [n for wire, call, n in calls if not wire.called(call)["isError"]]
    assert len(taken) == 1 and (machine.project / "a").read_text() == f"{taken[0]}\n"


# -- results --------------------------------------------------------------------------------------


def test_a_changed_file_is_reported_as_changed(house: Machine, wire: Wire) -> None:
    (house.project / "large").write_text("x" * 99 + "\n" + "line of a large file\n" * 100_000)
    reported = accepted(wire, "write_file", path="large", content="y" * 99 + "\n")
    assert reported.startswith("large changed: +1 -100001, 100 bytes")
    (house.project / "binary").write_bytes(b"\0\1")
    reported = accepted(wire, "write_file", path="binary", content="text\n")
    assert reported.startswith("binary changed: 5 bytes, hash ")
    assert "unchanged: +0 -0" in accepted(wire, "write_file", path="binary", content="text\n")


def test_a_number_that_is_too_large_is_cut(house: Machine, wire: Wire) -> None:
    accepted(wire, "write_file", path="a.txt", content="one\n")
    for tool, arguments in (
        ("read_file", {"path": "a.txt", "limit": 10**9}),
        ("list_directory", {"depth": 10**9, "limit": 10**9}),
        ("search_files", {"pattern": "one", "context": 10**9, "limit": 10**9}),
    ):
        accepted(wire, tool, **arguments)
    process = started(wire, "seq 500; cat")
    for tool, arguments in (
        ("poll_process", {"tail": {"n": 10**9}}),
        ("read_process_output", {"lines": 500, "mode": "tail"}),
        ("search_process_output", {"pattern": "5", "limit": 500, "context": 500}),
    ):
        accepted(wire, tool, process_id=process, **arguments)
    accepted(wire, "kill_process", process_id=process)
    assert "at most 100" in json.dumps(wire.ask("tools/list"))


def test_an_image_is_shown(house: Machine, wire: Wire) -> None:
    from tests.workspace.image_files import png

    (house.project / "dot.png").write_bytes(png(3, 2))
    result = wire.call("read_file", path="dot.png")
    assert not result["isError"]
    words, image = result["content"]
    assert words["text"].startswith("dot.png: image/png, 3 x 2 pixels, ")
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert image["data"] not in json.dumps(house.log())


# -- rules -----------------------------------------------------------------------------------------


def test_a_folder_is_not_read_as_a_whole_where_a_rule_denies_a_file_in_it(machine: Machine) -> None:
    (machine.project / "conf").mkdir()
    (machine.project / "conf/key.pem").write_text("secret")
    machine.tillerman.mkdir(exist_ok=True)
    (machine.tillerman / "config.toml").write_text('[[rules]]\ndeny = true\npath = "*.pem"\n')
    wire = machine.greeted("--approve", "auto", "--request-timeout", "0.2")
    for tool, arguments in (
        ("delete_file", {"path": "conf", "recursive": True}),
        ("move_file", {"source": "conf", "destination": "other"}),
        ("export_zip", {"paths": ["conf"]}),
        ("replace_text_in_file", {"path": "conf/key.pem", "old_text": "s", "new_text": "x"}),
        ("move_file", {"source": "conf/key.pem", "destination": "other"}),
    ):
        refused(wire, tool, **arguments)
    assert (machine.project / "conf/key.pem").read_text() == "secret"
    assert not (machine.tillerman / "state/exports").exists()


def test_a_move_that_a_person_changes_uses_the_changed_target(machine: Machine) -> None:
    (machine.project / "a").write_text("x")
    wire = machine.greeted("--approve", "ask", "--request-timeout", "60")
    call = wire.begin("move_file", source="a", destination="b")
    [found] = until(lambda: machine.json("requests", "list", "--json"))
    request = found["request"]
    assert (request["tool"], request["title"]) == ("Rename", "Rename `a` to `b`")
    changed = json.dumps({"old_path": "a", "new_path": "c"})
    done = machine.run("requests", "answer", request["request_id"], "allow", "--input", changed)
    assert done.returncode == 0, done.stderr
    assert "a moved to c" in text(wire.called(call))
    assert [path.name for path in machine.project.iterdir()] == ["c"]
