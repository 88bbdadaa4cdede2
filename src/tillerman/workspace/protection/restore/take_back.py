"""Reapplies a change that was undone, on the user's request.

The new state is recorded as accepted first, so that no session that watches the workspace undoes it
again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from tillerman.core.errors import UsageError
from tillerman.workspace.protection.git import config as git_config
from tillerman.workspace.protection.restore.accepted import ABSENT, Accepted, digest
from tillerman.workspace.protection.restore.contents import tree_digest
from tillerman.workspace.protection.restore.quarantine import CONTENT, Item, mark_taken_back


def take_back(folder: Path, item: Item, accepted: Path) -> Path:
    """Reapplies the item in `folder`. Returns the changed path."""
    workspace = Path(item.workspace)
    target = workspace / item.file
    if not target.parent.is_dir():
        raise UsageError(
            f"{target.parent} no longer exists", hint=f"the content is in {folder / CONTENT}"
        )
    known = Accepted(accepted, workspace)
    try:
        if item.settings:
            _add_settings(target, item, known)
        elif item.act == "deleted":
            known.add(item.file, ABSENT)
            _remove(target)
        else:
            _place(folder, target, item, known)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror or error}", hint="check its permissions"
        ) from None
    mark_taken_back(folder, item)
    return target


def _add_settings(target: Path, item: Item, known: Accepted) -> None:
    """Adds only the removed settings: the rest of the file may have changed since."""
    content = git_config.with_settings(target.read_bytes(), item.settings)
    known.add(item.file, digest("file", content))
    draft = target.with_name(f".tillerman-restore-{os.urandom(8).hex()}")
    try:
        draft.write_bytes(content)
        shutil.copymode(target, draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _place(folder: Path, target: Path, item: Item, known: Accepted) -> None:
    source = folder / CONTENT
    if target.is_dir() and not target.is_symlink():
        raise UsageError(
            f"{target} already exists and is a folder",
            hint=f"the undone change is in {source}",
        )
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        known.add(item.file, tree_digest(opened, CONTENT))
    finally:
        os.close(opened)
    draft = target.with_name(f".tillerman-restore-{os.urandom(8).hex()}")
    try:
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, draft, symlinks=True)
        else:
            shutil.copy2(source, draft, follow_symlinks=False)
        draft.rename(target)
    except BaseException:
        _remove(draft)
        raise


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
