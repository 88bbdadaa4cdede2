"""Compares two scans of the protected files of a workspace."""

from __future__ import annotations

from tillerman.workspace.files.file_names import shown
from tillerman.workspace.protection.git.known_commits import Files, git_mode
from tillerman.workspace.protection.protected_state import State, parent_of
from tillerman.workspace.protection.restore.accepted import (
    ABSENT,
    MOST_IN_DIGEST,
    digest,
    folder_digest,
)
from tillerman.workspace.protection.restore.undone import Undone, act_of


def differences(before: State, after: State) -> list[str]:
    """Returns changed paths; a folder before its content, and only the outermost new paths."""
    found = []
    for path, node in before.nodes.items():
        now = after.nodes.get(path)
        if now is None or not now.same(node):
            found.append(path)
    found += [path for path in after.nodes if path not in before.nodes]
    return sorted(found)


def is_touched(before: State, after: State, path: str) -> bool:
    """Returns whether a file was rewritten or hard-linked with the same content.

    A file that another session restored has its old time and no second name.
    """
    was, now = before.nodes[path], after.nodes.get(path)
    if now is None or was.kind != "file" or was.content is None or not now.same(was):
        return False
    if was.mark == now.mark:
        return False
    return was.modified != now.modified or now.mark.links > was.mark.links


def changed_instructions(before: State, after: State) -> list[Undone]:
    """Returns changed instruction files of agents: they are reported, but not restored."""
    found = []
    for path in sorted({**before.instructions, **after.instructions}):
        was, now = before.instructions.get(path), after.instructions.get(path)
        if was != now and parent_of(path)[0] in after.folders:
            why = "it instructs agents; read it before the next session"
            found.append(Undone(shown(path), act_of(was, now), False, "", why))
    return found


def is_inside(path: str, top: str) -> bool:
    return f"{path}/".startswith(f"{top}/")


def is_in_new_folder(path: str, before: State, grown: State) -> bool:
    folder, _ = parent_of(path)
    while folder not in grown.folders:
        folder, _ = parent_of(folder)
    return folder not in before.folders


def is_git_config(path: str, state: State) -> bool:
    return is_of_git(path, state, ("config", "config.worktree"))


def is_hook_sample(path: str, state: State) -> bool:
    """Returns whether it is a sample, which git does not run as a hook."""
    return path.endswith(".sample") and is_of_git(parent_of(path)[0], state, ("hooks",))


def is_of_git(path: str, state: State, names: tuple[str, ...]) -> bool:
    folder, name = parent_of(path)
    seen = state.folders.get(folder)
    return name in names and seen is not None and seen.role == "git"


def files_of(state: State, path: str) -> Files:
    """Returns the known files at a path, as git would store them."""
    return {
        one: (git_mode(node.kind, node.mode), node.content)
        for one, node in state.nodes.items()
        if node.kind != "folder" and is_inside(one, path)
    }


def state_digest(state: State, path: str, room: int = MOST_IN_DIGEST) -> str:
    """Like `contents.tree_digest`, but from the recorded state."""
    node = state.nodes.get(path)
    if node is None:
        return ABSENT
    if node.kind != "folder":
        return digest("link" if node.kind == "link" else "file", node.content or b"")
    inside = sorted(one for one in state.nodes if parent_of(one)[0] == path)[:room]
    return folder_digest((parent_of(one)[1], state_digest(state, one, room // 2)) for one in inside)


def has_other_mode(before: State, after: State, path: str) -> bool:
    """Returns whether a node at or below the path has the same kind and another mode."""
    return any(
        now.kind == was.kind and now.mode != was.mode
        for one, was in before.nodes.items()
        if is_inside(one, path) and (now := after.nodes.get(one))
    )


def is_worktree_link(path: str, state: State, content: bytes = b"../..\n") -> bool:
    """Returns whether it is the `commondir` of a worktree, by default as git writes it."""
    node = state.nodes.get(path)
    shelf, _ = parent_of(parent_of(path)[0])
    right = node is not None and node.kind == "file" and node.content == content
    return right and parent_of(shelf)[1] == "worktrees" and is_of_git(path, state, ("commondir",))


def still_made(before: State, after: State) -> State:
    """Returns `after`, with `made` reduced to nodes that were not replaced since."""
    known = before.made & after.nodes.keys()
    return after._replace(
        made=frozenset(one for one in known if after.nodes[one].mark == before.nodes[one].mark)
    )
