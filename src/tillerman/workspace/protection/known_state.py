"""Known state of the protected files: scanned, changed by what is adopted, and saved to disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from tillerman.paths import make_private
from tillerman.workspace.protection.differences import is_in_new_folder, is_inside
from tillerman.workspace.protection.protected_names import MOST_FOLDERS, scan
from tillerman.workspace.protection.protected_state import NOTHING, PathNode, State
from tillerman.workspace.protection.restore.held_folders import HeldFolders


class KnownState:
    """The state that counts as correct. Not thread-safe: `Checker` locks it."""

    def __init__(
        self, folders: HeldFolders, saved: SavedState, *, role: str, skipped: frozenset[str]
    ) -> None:
        self.state = NOTHING
        self._folders = folders
        self._saved = saved
        self._role, self._skipped = role, skipped

    def scan(self, *, baseline: bool, most: int = MOST_FOLDERS) -> State:
        """Scans the files. `baseline`: also folders that are not known yet."""
        found = scan(
            self._folders.root,
            self.state,
            baseline=baseline,
            role=self._role,
            skipped=self._skipped,
            most=most,
        )
        return found._replace(made=self.state.made)

    def save(self) -> None:
        """Saves the state for a restarted harness."""
        self._saved.write(self.state)

    def load(self) -> bool:
        """Loads what an earlier harness saved; False if there is nothing."""
        state = self._saved.read()
        if state is not None:
            self.state = state
        return state is not None

    def add_new_folders(self) -> dict[str, PathNode]:
        """Scans folders that are not known yet; returns the protected names in them."""
        before, grown = self.state, self.scan(baseline=True)
        nodes = grown.nodes.items()
        new = {path: node for path, node in nodes if is_in_new_folder(path, before, grown)}
        self.state = before._replace(
            nodes={**before.nodes, **new},
            instructions={**grown.instructions, **before.instructions},
            folders={**grown.folders, **before.folders},
            behind=tuple(dict.fromkeys((*before.behind, *grown.behind))),
            closed=before.closed | {path for path in grown.closed if path in new},
            whole=grown.whole,
        )
        return new

    def set_node(self, path: str, node: PathNode) -> None:
        self.state = self.state._replace(nodes={**self.state.nodes, path: node})

    def adopt(self, path: str, is_right: Callable[[State], bool] = lambda seen: True) -> bool:
        """Adopts what lies there if `is_right` accepts what was seen: it may change at any time."""
        now, nodes = self.scan(baseline=True), dict(self.state.nodes)
        if not is_right(now):
            return False
        for one in [one for one in nodes if is_inside(one, path)]:
            del nodes[one]
        nodes |= {one: node for one, node in now.nodes.items() if is_inside(one, path)}
        self.state = self.state._replace(nodes=nodes, made=self.state.made & nodes.keys())
        return True

    def refresh_marks(self) -> None:
        """Updates marks of unchanged files, but never the content of changed ones."""
        before, now = self.state, self.scan(baseline=False)
        nodes = dict(before.nodes)
        for path, node in before.nodes.items():
            if (other := now.nodes.get(path)) and other.same(node):
                nodes[path] = node._replace(mark=other.mark)
        folders = {
            path: seen
            for path, seen in before.folders.items()
            if path in now.folders or seen.role != "empty"
        }
        self.state = before._replace(
            at=now.at,
            nodes=nodes,
            instructions=now.instructions,
            folders={**folders, **now.folders},
        )


def _encodable(name: str) -> str:
    """A name that is not UTF-8 cannot be saved as it is; each of its bytes becomes a character."""
    return name if name.isascii() else os.fsencode(name).decode("latin-1")


def _file_name(text: str) -> str:
    return text if text.isascii() else os.fsdecode(text.encode("latin-1"))


def _renamed(state: State, new: Callable[[str], str]) -> State:
    """The state with other spellings of all names."""
    folders = {
        new(path): seen._replace(
            guarded=tuple(map(new, seen.guarded)),
            instructions=tuple(map(new, seen.instructions)),
            folders=tuple((new(name), role) for name, role in seen.folders),
        )
        for path, seen in state.folders.items()
    }
    return state._replace(
        nodes={new(path): node for path, node in state.nodes.items()},
        instructions={new(path): mark for path, mark in state.instructions.items()},
        folders=folders,
        behind=tuple(map(new, state.behind)),
        closed=frozenset(map(new, state.closed)),
        made=frozenset(map(new, state.made)),
    )


class SavedState:
    """Reads and writes the state. `path` is None if nothing is saved."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, state: State) -> None:
        if self._path:
            with suppress(OSError):
                make_private(self._path.parent)
                draft = self._path.with_name(f"{self._path.name}.new")
                draft.write_bytes(msgspec.msgpack.encode(_renamed(state, _encodable)))
                draft.replace(self._path)

    def read(self) -> State | None:
        if self._path:
            with suppress(OSError, msgspec.MsgspecError):
                state = msgspec.msgpack.decode(self._path.read_bytes(), type=State)
                return _renamed(state, _file_name)
        return None

    def remove(self) -> None:
        if self._path:
            self._path.unlink(missing_ok=True)
