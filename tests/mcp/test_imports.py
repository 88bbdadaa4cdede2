"""`import_file` reads only what a command of the session could read."""

from __future__ import annotations

import io
import os
import random
import shlex
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.mcp_desk import Machine, Wire, text
from tests.workspace.hostile_archives import zipped

pytestmark = pytest.mark.timeout(180)

ROUNDS = int(os.environ.get("TILLERMAN_TORTURE_IMPORTS", "2000"))
RULE = """
[[rules]]
deny = true
path = "{denied}/**"
"""


class Sources:
    """Files that a model must not read, those that it may, and ways to spell them."""

    def __init__(self, machine: Machine) -> None:
        home = machine.folder / "home"
        self.denied = machine.folder / "denied"
        (home / ".ssh").mkdir(exist_ok=True)
        for path in (
            *(home / ".ssh/id_rsa", home / "notes.txt", home / ".local/bin/tool"),
            *(machine.folder / "plain.txt", self.denied / "file", machine.project / "inside.txt"),
            machine.tillerman / "state/http-token",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"content of {path.name}\n")
        (home / ".ssh/id_rsa").chmod(0o600)
        (machine.project / "link").symlink_to(home / ".ssh")
        (machine.folder / "link").symlink_to(home)
        self.own = [machine.tillerman / "state/store.db", machine.tillerman / "state/http-token"]
        self.plain = [
            *(home / ".ssh/id_rsa", home / "notes.txt", home / ".local/bin/tool"),
            *(machine.folder / "plain.txt", machine.project / "inside.txt", self.denied / "file"),
            *(Path("/etc/hostname"), Path("/etc/shadow"), Path("/usr/bin/env")),
        ]
        self.kernel = [Path(f"/proc/{os.getpid()}/environ"), Path("/proc/meminfo")]
        self._links = [(machine.project / "link", home / ".ssh"), (machine.folder / "link", home)]

    def any(self, chance: random.Random) -> str:
        path = str(chance.choice([*self.own, *self.plain, *self.kernel]))
        for link, target in self._links:
            if path.startswith(f"{target}/") and chance.random() < 0.3:
                path = f"{link}{path.removeprefix(str(target))}"
        for _ in range(chance.randint(0, 2)):
            head, _, name = path.rpartition("/")
            path = chance.choice((
                f"{head}//{name}", f"{head}/./{name}", f"{head}/../{Path(head).name}/{name}",
                f"/proc/self/root{path}", f"/proc/self/cwd/../../..{path}", f"/usr/..{path}",
            ))  # fmt: skip
        return path


def command_reads(wire: Wire, source: str) -> str:
    """The digest that a command of the same session computes of it."""
    done = wire.call("execute_shell", command=f"sha256sum < {shlex.quote(source)}")
    return "" if done["isError"] else str(done["_meta"]["tillerman/result"]["stdout"]).split()[0]


def imported(wire: Wire, source: str, number: int) -> tuple[str, dict[str, Any]]:
    done = wire.call("import_file", source=source, path=f"in/{number}")
    return "" if done["isError"] else done["_meta"]["tillerman/result"]["hash"], done


def play(machine: Machine, level: str, approve: str, rounds: int, seed: int) -> tuple[int, int]:
    sources = Sources(machine)
    (machine.tillerman / "config.toml").write_text(RULE.format(denied=sources.denied))
    words = ("--approve", approve, "--isolation", level, "--request-timeout", "0.2")
    wire = machine.greeted(*words)
    chance = random.Random(seed)
    got = refused = 0
    for number in range(rounds):
        source = sources.any(chance)
        digest, done = imported(wire, source, number)
        if not digest:
            refused += 1
            assert not (machine.project / f"in/{number}").exists(), text(done)
            continue
        got += 1
        assert approve == "auto" or Path(source).resolve().is_relative_to(machine.project)
        assert digest == command_reads(wire, source), source
    return got, refused


@pytest.mark.parametrize("level", ["basic", "medium", "high"])
@pytest.mark.parametrize("approve", ["auto", "edits"])
def test_files_that_no_command_could_read_are_not_imported(
    machine: Machine, level: str, approve: str
) -> None:
    _, refused = play(machine, level, approve, 12 if approve == "auto" else 4, 7)
    assert refused


@pytest.mark.torture
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("level", ["basic", "medium", "high"])
@pytest.mark.parametrize("approve", ["auto", "edits", "ask", "readonly"])
def test_files_that_no_command_could_read_are_never_imported(
    machine: Machine, level: str, approve: str
) -> None:
    print(level, approve, play(machine, level, approve, ROUNDS // 12, 11))


@pytest.mark.parametrize("level", ["basic", "medium", "high"])
def test_files_that_a_command_could_read_are_imported(machine: Machine, level: str) -> None:
    sources = Sources(machine)
    wire = machine.greeted("--approve", "auto", "--isolation", level)
    for number, path in enumerate(sources.plain):
        digest, done = imported(wire, str(path), number)
        assert digest == command_reads(wire, str(path)), (path, text(done))
        assert digest or "isolation" in text(done) or not os.access(path, os.R_OK), text(done)
    for number, path in enumerate([*sources.own, *sources.kernel], 100):
        assert imported(wire, str(path), number)[0] == "", path


@pytest.mark.parametrize("level", ["medium", "high"])
@pytest.mark.parametrize("unpack", [False, True])
def test_nothing_is_imported_at_a_level_that_the_machine_does_not_give(
    machine: Machine, level: str, unpack: bool
) -> None:
    """A workspace that contains the home leaves nothing to isolate, on any machine."""
    archive = machine.folder / "archive"
    archive.write_bytes(zipped([("one", b"1")]))
    machine.environment["HOME"] = str(machine.project / "home")
    (machine.project / "home").mkdir()
    wire = machine.greeted("--approve", "auto", "--isolation", level)
    command = wire.call("execute_shell", command="true")
    assert command["isError"], text(command)
    for source in (archive, Path("/etc/hostname")):
        done = wire.call("import_file", source=str(source), path="in/0", unpack=unpack)
        assert (done["isError"], text(done)) == (True, text(command))
    assert not (machine.project / "in").exists()


def test_a_file_that_a_rule_denies_is_not_imported(machine: Machine) -> None:
    sources = Sources(machine)
    (machine.tillerman / "config.toml").write_text(RULE.format(denied=sources.denied))
    wire = machine.greeted("--approve", "auto")
    assert imported(wire, str(sources.denied / "file"), 0)[0] == ""
    assert imported(wire, str(machine.folder / "plain.txt"), 1)[0]


# -- archives --------------------------------------------------------------------------------------

MEMBERS = {"good": b"1", "src/db/001.sql": b"2", "docs/AGENTS.md": b"3"}


def tarred(members: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_the_files_of_an_archive_are_decided_one_by_one(machine: Machine, pack: Any) -> None:
    machine.tillerman.mkdir(exist_ok=True)
    (machine.tillerman / "config.toml").write_text(
        '[[rules]]\ndeny = true\npath = "new/src/db/**"\n'
    )
    archive = machine.folder / "archive"
    archive.write_bytes(pack(list(MEMBERS.items())))
    wire = machine.greeted("--approve", "auto")
    denied = wire.call("import_file", source=str(archive), path="new", unpack=True)
    assert denied["isError"] and "new/src/db/001.sql" in text(denied)
    assert list(machine.project.iterdir()) == []
    done = wire.call("import_file", source=str(archive), path="other", unpack=True)
    assert not done["isError"] and (machine.project / "other/src/db/001.sql").read_bytes() == b"2"


def test_a_file_that_instructs_agents_is_asked_about_in_an_archive(machine: Machine) -> None:
    archive = machine.folder / "archive"
    archive.write_bytes(zipped(list(MEMBERS.items())))
    machine.tillerman.mkdir(exist_ok=True)
    allowed = f'[[rules]]\nallow = true\ntool = "Read"\npath = "{archive}"\n'
    (machine.tillerman / "config.toml").write_text(allowed)
    wire = machine.greeted("--approve", "edits", "--request-timeout", "0.2")
    done = wire.call("import_file", source=str(archive), path="new", unpack=True)
    assert done["isError"], text(done)
    asked = [e["event"] for e in machine.log() if e["event"]["type"] == "permission_requested"]
    assert asked[-1]["input"] == {"path": "new", "paths": ["new/docs/AGENTS.md"]}
    assert not (machine.project / "new").exists()
