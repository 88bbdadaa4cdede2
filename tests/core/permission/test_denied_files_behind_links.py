"""Links in a tree to a denied file, compared with the kernel: opening it needs approval.

Each line runs under strace on a tree with generated links. A line that opened the denied file must
not have been allowed; one that follows no links needs no approval because of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.workspace.files.policy_lookup import DiskFiles

LINES = [  # each with whether it follows links below the folder
    ("grep -R x tree", True),
    ("grep -rR x tree", True),
    ("grep --dereference-recursive x tree", True),
    ("grep -R --include='*.txt' x tree", True),
    ("grep -r x tree", False),
    ("cp -rL tree copy", True),
    ("cp -r --dereference tree copy", True),
    ("cp -a tree copy", False),
    ("cp -r tree copy", False),
    ("tar chf out.tar tree", True),
    ("tar -c -h -f out.tar tree", True),
    ("tar cf out.tar --dereference tree", True),
    ("tar cf out.tar tree", False),
    ("zip -qr out.zip tree", True),
    ("zip -qry out.zip tree", False),
    ("rsync -rL tree/ copy", True),
    ("rsync -a --copy-links tree/ copy", True),
    ("rsync -a tree/ copy", False),
    ("rg -L x tree", True),
    ("rg --follow x tree", True),
    ("rg x tree", False),
    ("find -L tree -type f -exec cat {} +", True),
    ("find tree -exec cat {} +", True),
    ("find tree | xargs cat", True),
    ("cat $(find tree)", True),
    ("find -L tree", False),
    ("ls -lRL tree", False),
    ("du -L tree", False),
]


def decided(workspace: Path, line: str) -> str:
    policy = Policy.preset("auto", rules=[rule_of({"deny": "no", "path": "*.key"}, "rules.toml:1")])
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    context = DecisionContext(
        workspace, home=Path("/home/me"), resolve=os.path.realpath, files=DiskFiles()
    )
    return policy.decide(request, context).verdict


def planted(chance: Random, workspace: Path) -> None:
    """A tree without a denied file in it, and links to one, or only near one."""
    (workspace / "tree/deep").mkdir(parents=True)
    (workspace / "kept/inner").mkdir(parents=True)
    (workspace / "kept/inner/id.key").write_text("x\n")
    (workspace / "tree/a.txt").write_text("x\n")
    folder = workspace / chance.choice(("tree", "tree/deep"))
    name = folder / chance.choice(("b.txt", ".hidden.txt", "c"))
    match chance.randrange(5):
        case 0:
            name.symlink_to(os.path.relpath(workspace / "kept/inner/id.key", folder))
        case 1:
            name.symlink_to(workspace / "kept")
        case 2:
            (folder / "step").symlink_to(workspace / "kept/inner")
            name.symlink_to("step/id.key")
        case 3:
            (workspace / "kept/back").symlink_to("inner")
            name.symlink_to(workspace / "kept/back")
        case _:
            name.symlink_to("nothing")


def opens_the_file(workspace: Path, line: str) -> bool:
    log = workspace.parent / "strace"
    subprocess.run(
        ["strace", "-f", "-qq", "-y", "-o", str(log), "-e", "trace=openat,open", "sh", "-c", line],
        cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
    )  # fmt: skip
    # `-y` tells the file that a descriptor is of, with links followed
    return re.search(r"= \d+<[^>]*/id\.key>", log.read_text(errors="replace")) is not None


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.torture)])
@pytest.mark.parametrize(("line", "follows"), LINES)
def test_a_line_that_opens_a_denied_file_through_a_link_was_asked_about(
    tmp_path: Path, line: str, follows: bool, count: int
) -> None:
    program = line.partition(" ")[0]
    for number in range(count):
        workspace = tmp_path / str(number) / "w"
        planted(Random(f"{line}/{number}"), workspace)
        verdict = decided(workspace, line)
        if shutil.which(program) and opens_the_file(workspace, line):
            assert verdict != "allow", sorted(workspace.rglob("*"))
        if not follows:
            assert verdict == "allow"


@pytest.mark.parametrize(("line", "follows"), LINES)
def test_a_link_to_a_denied_file_counts_for_those_who_follow_it(
    tmp_path: Path, line: str, follows: bool
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/b.txt").symlink_to("../id.key")
    (tmp_path / "id.key").touch()
    assert decided(tmp_path, line) == ("ask" if follows else "allow")


def test_links_in_cycles_end(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/up").symlink_to("..")
    (tmp_path / "tree/self").symlink_to("self")
    assert decided(tmp_path, "grep -R x tree") == "allow"
    (tmp_path / "id.key").touch()
    assert decided(tmp_path, "grep -R x tree") == "ask"


def test_more_links_than_are_followed_are_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tillerman.core.permission.folder_contents._MOST_FOLLOWED", 5)
    (tmp_path / "tree").mkdir()
    for number in range(10):
        (tmp_path / f"tree/{number}").symlink_to(f"../{number}.txt")
    assert decided(tmp_path, "grep -R x tree") == "ask"
    assert decided(tmp_path, "grep -r x tree") == "allow"


def entering(chance: Random) -> str:
    """A `cd` by names that lead through links and back."""
    steps = [chance.choice(("away", "src", "src/up", "..", "."))]
    steps += [chance.choice(("..", "..", ".", "src", "away", "src/up")) for _ in range(3)]
    joined = "/".join(steps[: chance.randrange(2, 5)])
    dashes = chance.choice(("", "-- ", "-L "))
    return f"cd {dashes}{joined}" if chance.random() < 0.7 else joined.replace("/", "; cd ", 1)


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_link_is_read_from_the_folder_that_a_shell_enters_by_names(
    tmp_path: Path, shell: str
) -> None:
    """A shell takes `..` off the path behind a link: it does not go to the link's target."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    workspace = tmp_path / "w"
    for folder in ("w/src", "other/away/src"):
        (tmp_path / folder).mkdir(parents=True)
    (workspace / "away").symlink_to("../other/away")
    (workspace / "src/up").symlink_to("../../other")
    (workspace / "id.key").write_text("the key\n")
    (workspace / "link").symlink_to("id.key")
    opened = 0
    for number in range(250):
        chance = Random(number)
        path = chance.choice(("link", "./link", "../link", "src/../link", "l?nk", '"$PWD"/link'))
        line = f"{entering(chance)} {chance.choice(('&&', ';'))} cat {path}"
        if not line.startswith("cd "):
            line = f"cd {line}"
        done = subprocess.run([shell, "-c", line], cwd=workspace, capture_output=True, timeout=20)
        if b"the key" in done.stdout:
            opened += 1
            assert decided(workspace, line) != "allow", line
    assert opened > 25
