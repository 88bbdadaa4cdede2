"""Protected names under high: read-only where they exist, and never created elsewhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.supervision.confined_run import Place, Ran, run_confined, skip_if_missing
from tillerman.supervision.isolation import ConfinedCommand, after, bubblewrap, confine

pytestmark = pytest.mark.usefixtures("high")


@pytest.fixture
def high() -> None:
    skip_if_missing("high")


def named(place: Place, *names: str) -> list[Path]:
    return [place.workspace / name for name in names]


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


PRESENT = ("file.json", "folder", "git/config", "git/hooks")
ACTS = (
    "echo evil > file.json",
    "echo evil >> file.json",
    "rm -f file.json",
    "mv other file.json",
    "mv file.json moved",
    "ln -sf other file.json",
    "chmod 777 file.json",
    "echo evil > folder/new",
    "mv folder moved",
    "rm -rf folder",
    "echo evil > git/config",
    "echo evil > git/hooks/pre-commit",
    "mv git moved",
    "rm -rf git",
    "ln file.json linked && echo evil > linked",
)


@pytest.mark.parametrize("act", ACTS)
def test_an_existing_protected_name_stays_as_it_is(place: Place, act: str) -> None:
    (place.workspace / "folder").mkdir()
    (place.workspace / "git/hooks").mkdir(parents=True)
    for name in ("file.json", "folder/inner", "git/config", "git/hooks/post-commit", "other"):
        (place.workspace / name).write_text("good")
    place.give()
    before = tree(place.workspace)
    ran = place.run("high", "sh", "-c", act, protected=named(place, *PRESENT))
    assert ran.code != 0, ran
    assert tree(place.workspace) == before


ABSENT = (".mcp.json", ".env", ".vscode", ".git/config", ".git/hooks", "kept/settings")


def test_nothing_is_created_where_a_protected_name_does_not_exist(place: Place) -> None:
    (place.workspace / "kept").mkdir()
    place.give()
    look = "find . | sort"
    ran = place.run("high", "sh", "-c", look, protected=named(place, *ABSENT))
    assert (ran.code, ran.out) == (0, ".\n./kept\n"), ran
    assert [*place.workspace.rglob("*")] == [place.workspace / "kept"]


def test_a_missing_protected_name_can_be_created_and_is_left_to_the_watcher(place: Place) -> None:
    ran = place.run("high", "sh", "-c", "echo made > .mcp.json", protected=named(place, *ABSENT))
    assert ran.code == 0, ran
    assert tree(place.workspace) == {".mcp.json": "made\n"}


def test_work_beside_protected_names_continues(place: Place) -> None:
    subprocess.run(["git", "init", "-q", place.workspace], check=True)
    place.give()
    names = named(place, ".git/config", ".git/hooks", ".mcp.json", ".vscode")
    work = "echo x > file && git add file && git commit -qm First && git status --short"
    who = {
        f"GIT_{word}_{what}": "a@b"
        for word in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    ran = place.run("high", "sh", "-c", work, env=who, protected=names)
    assert ran.code == 0, ran
    assert ran.out == ""
    assert sorted(path.name for path in place.workspace.iterdir()) == [".git", "file"]


def confined(workspace: Path, *names: str) -> ConfinedCommand:
    return confine(
        "high",
        workspace=workspace,
        argv=["true"],
        env={"PATH": "/usr/bin:/bin"},
        cwd=workspace,
        protected=[workspace / name for name in names],
    )


def test_names_no_mount_can_protect_are_reported(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to("elsewhere")
    (tmp_path / "folder").mkdir()
    (workspace / "way").symlink_to(tmp_path / "folder")
    (workspace / "held").touch()
    names = ("link", "way/inner", "held", "absent", "held/beneath", "../outside", ".")
    made = confined(workspace, *names)
    assert made.unheld == tuple(workspace / name for name in names if name != "held")
    after(made)
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_workspace_reached_by_a_link_has_its_names_protected(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/.mcp.json").touch()
    (tmp_path / "link").symlink_to("real")
    made = confined(tmp_path / "link", ".mcp.json", "../outside")
    assert made.unheld == (tmp_path / "real/../outside",)
    assert str(tmp_path / "real/.mcp.json") in made.argv
    after(made)


def test_a_name_removed_before_the_command_starts_is_left_out(place: Place) -> None:
    (place.workspace / ".env").touch()
    place.give()
    made = confine(
        "high",
        workspace=place.workspace,
        argv=["true"],
        env=place.env,
        cwd=place.workspace,
        protected=named(place, ".env"),
    )
    (place.workspace / ".env").unlink()
    assert run_confined(made, place.workspace) == Ran(0, "", "")
    assert [*place.workspace.iterdir()] == []


def test_bubblewrap_is_not_taken_from_the_workspace_or_where_all_may_write(tmp_path: Path) -> None:
    own, workspace = tmp_path / "own", tmp_path / "workspace"
    for folder in (own, workspace):
        folder.mkdir()
        (folder / "bwrap").write_text("#!/bin/sh\n")
        (folder / "bwrap").chmod(0o755)
    assert bubblewrap.find(workspace, f"{workspace}:{own}") == own / "bwrap"
    own.chmod(0o777)
    assert bubblewrap.find(workspace, f"{workspace}:{own}") is None


def test_bubblewrap_of_the_system_comes_before_any_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/usr/bin/bwrap").exists():
        pytest.skip("it is installed elsewhere")
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bubblewrap.find(None) == Path("/usr/bin/bwrap").resolve()
