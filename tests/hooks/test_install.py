"""Hooks in a user's file: merged, and restored byte for byte, whatever happens in between."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hooks.user_configs import OURS, texts
from tillerman.core.errors import ConfigError
from tillerman.hooks.backup_journal import BackupJournal
from tillerman.hooks.install import Hooks, install, installed, remove, repair

STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")
KILLED = 99


def hooks(file: Path, **more: Any) -> Hooks:
    return Hooks("claude", file, OURS, {"version": 1}, **more)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".claude" / "settings.json"


@pytest.fixture
def journal(tmp_path: Path) -> BackupJournal:
    return BackupJournal(tmp_path / "state" / "hooks")


def write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


# -- killed anywhere -------------------------------------------------------------------------------


def killed_at(step: int, act: Callable[[], Any]) -> bool:
    """Runs it in a child that is killed right before its `step`th change of the file system."""
    child = os.fork()
    if child == 0:
        left = step

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            if event in STEPS and not (event == "open" and _reads(arguments)):
                left -= 1
                if left < 0:
                    os._exit(KILLED)

        sys.addaudithook(count)
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED)
    return code == KILLED


def _reads(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)


@pytest.mark.parametrize("comments", [False, True])
@given(data=st.data())
@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_after_a_kill_at_any_step_installing_and_removing_restores_the_original(
    comments: bool, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("machine")
    journal = BackupJournal(root / "state")
    file = root / "project" / ".claude" / "settings.json"
    (root / "project").mkdir()
    if data.draw(st.booleans(), "there is a file"):
        write(file, data.draw(texts(comments=comments)))
    elif data.draw(st.booleans(), "there is a folder"):
        file.parent.mkdir()
    before = tree(root / "project")
    one = hooks(file, comments=comments)
    stays = data.draw(st.booleans(), "until it is removed")

    def use() -> None:
        if stays:
            install(one, journal)
            remove(file, journal)
        else:
            with installed(one, journal):
                pass

    for step in range(100):
        was_killed = killed_at(step, use)
        repair(journal)
        remove(file, journal)
        assert tree(root / "project") == before
        assert journal.records() == []
        if not was_killed:
            assert step > 6
            return
    raise AssertionError("it never ended")


def test_killed_while_the_user_had_edited_the_edits_stay(
    file: Path, journal: BackupJournal
) -> None:
    write(file, b'{\n  "a": 1\n}\n')
    install(hooks(file), journal)
    edited = file.read_bytes().replace(b'"a": 1', b'"a": 2')
    after = b'{\n  "a": 2\n}\n'
    for step in range(100):
        file.write_bytes(edited)
        if not journal.records():
            file.write_bytes(b'{\n  "a": 1\n}\n')
            install(hooks(file), journal)
            file.write_bytes(edited)
        was_killed = killed_at(step, lambda: remove(file, journal))
        remove(file, journal)
        assert file.read_bytes() == after
        if not was_killed:
            return


# -- as people use it ------------------------------------------------------------------------------


def test_what_was_installed_stays_until_it_is_removed(file: Path, journal: BackupJournal) -> None:
    write(file, b'{"a": 1}')
    install(hooks(file), journal)
    written = file.read_bytes()
    assert json.loads(written) == {"a": 1, "hooks": {event: [one] for event, one in OURS.items()}}
    assert repair(journal) == {}
    assert file.read_bytes() == written
    assert remove(file, journal) == "restored"
    assert (file.read_bytes(), remove(file, journal)) == (b'{"a": 1}', None)


def test_a_new_file_is_removed_with_the_folders_that_were_created(
    tmp_path: Path, file: Path, journal: BackupJournal
) -> None:
    (tmp_path / "project").mkdir()
    install(hooks(file), journal)
    assert json.loads(file.read_bytes())["version"] == 1
    assert remove(file, journal) == "restored"
    assert list((tmp_path / "project").iterdir()) == []


def test_a_folder_with_other_content_stays(
    tmp_path: Path, file: Path, journal: BackupJournal
) -> None:
    (tmp_path / "project").mkdir()
    install(hooks(file), journal)
    (file.parent / "agents.md").write_text("mine")
    remove(file, journal)
    assert tree(tmp_path / "project") == {".claude": None, ".claude/agents.md": b"mine"}


def test_a_new_file_that_the_user_extended_stays_without_our_entries(
    file: Path, journal: BackupJournal
) -> None:
    install(hooks(file), journal)
    held = json.loads(file.read_bytes())
    file.write_text(json.dumps(held | {"model": "x"}))
    assert remove(file, journal) == "edited"
    assert json.loads(file.read_bytes()) == {"version": 1, "model": "x"}


def test_a_file_that_the_user_deleted_stays_deleted(file: Path, journal: BackupJournal) -> None:
    write(file, b"{}")
    install(hooks(file), journal)
    file.unlink()
    assert remove(file, journal) == "gone"
    assert not file.exists()


def test_the_mode_of_the_file_stays(file: Path, journal: BackupJournal) -> None:
    write(file, b"{}")
    file.chmod(0o640)
    install(hooks(file), journal)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    file.chmod(0o600)
    remove(file, journal)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_stays_a_link_and_its_file_is_written(
    tmp_path: Path, file: Path, journal: BackupJournal
) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_bytes(b'{"a": 1}')
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    install(hooks(file), journal)
    assert file.is_symlink()
    assert b"tillerman hook" in real.read_bytes()
    assert remove(file, journal) == "restored"
    assert (file.is_symlink(), real.read_bytes()) == (True, b'{"a": 1}')


def test_a_link_out_of_the_project_is_refused(
    tmp_path: Path, file: Path, journal: BackupJournal
) -> None:
    real = tmp_path / "elsewhere.json"
    real.write_bytes(b"{}")
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    with pytest.raises(ConfigError, match="points outside the project"):
        install(hooks(file, within=tmp_path / "project"), journal)
    assert real.read_bytes() == b"{}"


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"hooks": 3}', b'{"a": 1} // c', b"\xff"])
def test_an_unmergeable_file_is_not_changed(
    text: bytes, file: Path, journal: BackupJournal
) -> None:
    write(file, text)
    inode = file.stat().st_ino
    with pytest.raises(ConfigError, match="hooks cannot be added") as caught:
        install(hooks(file), journal)
    assert str(file) in caught.value.message
    assert (file.read_bytes(), file.stat().st_ino, journal.records()) == (text, inode, [])


def test_a_file_that_became_unreadable_is_left_until_it_is_fixed(
    file: Path, journal: BackupJournal
) -> None:
    write(file, b"{}")
    install(hooks(file), journal)
    good = file.read_bytes()
    file.write_bytes(good[:-1])
    with pytest.raises(ConfigError, match="was edited and can no longer be parsed"):
        remove(file, journal)
    assert repair(journal) == {}
    file.write_bytes(good + b"\n")
    assert remove(file, journal) == "edited"
    assert file.read_bytes() == b"{}\n"


def test_two_do_not_share_a_file_and_the_second_is_reported_the_first(
    file: Path, journal: BackupJournal
) -> None:
    write(file, b"{}")
    with installed(hooks(file), journal):
        for act in (lambda: install(hooks(file), journal), lambda: remove(file, journal)):
            with pytest.raises(ConfigError, match=rf"process {os.getpid()}\) has hooks"):
                act()
        assert repair(journal) == {}
        assert b"tillerman hook" in file.read_bytes()
    assert file.read_bytes() == b"{}"


def test_an_existing_entry_is_not_added_twice(file: Path, journal: BackupJournal) -> None:
    write(file, b"{}")
    install(hooks(file), journal)
    with pytest.raises(ConfigError, match="already has hooks of tillerman"):
        install(hooks(file), journal)


def test_hooks_whose_journal_was_lost_are_found_again(
    file: Path, journal: BackupJournal, tmp_path: Path
) -> None:
    write(file, b'{"a": 1}')
    install(hooks(file), journal)
    other = BackupJournal(tmp_path / "other")
    install(hooks(file), other)
    assert json.loads(file.read_bytes())["hooks"] == {event: [e] for event, e in OURS.items()}
    assert remove(file, other) == "restored"
    assert file.read_bytes() == b'{"a": 1}'


def test_a_file_that_is_ours_as_a_whole(file: Path, journal: BackupJournal) -> None:
    whole = Hooks("opencode", file, whole=b"export {}\n")
    install(whole, journal)
    assert file.read_bytes() == b"export {}\n"
    assert remove(file, journal) == "restored"
    assert not file.exists()
    write(file, b"mine")
    with pytest.raises(ConfigError, match="is not from tillerman"):
        install(whole, journal)
    assert file.read_bytes() == b"mine"


def test_a_file_that_cannot_be_written_is_reported_and_nothing_is_left(
    tmp_path: Path, file: Path, journal: BackupJournal
) -> None:
    (tmp_path / "project").mkdir()
    file.parent.write_text("no folder")
    with pytest.raises(ConfigError, match=r"cannot write .*: Not a directory"):
        install(hooks(file), journal)
    assert tree(tmp_path / "project") == {".claude": b"no folder"}
    assert journal.records() == []


def test_a_file_that_another_process_repairs_is_waited_for(
    file: Path, journal: BackupJournal
) -> None:
    write(file, b"{}")
    child = os.fork()
    if child == 0:
        with journal.held(file):
            (file.parent / "held").touch()
            time.sleep(0.3)
        os._exit(0)
    while not (file.parent / "held").exists():
        time.sleep(0.01)
    install(hooks(file), journal)
    os.waitpid(child, 0)
    assert b"tillerman hook" in file.read_bytes()
