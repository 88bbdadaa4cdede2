"""Snapshots a git work tree and lists changes since, without writing to the repository.

The state of the folder is stored in a separate git directory: a copy of the index, whose stat data
avoids reading unchanged files, and new objects beside the real ones. The repository's config is not
used, so none of its filters, hooks or programs run. Ignored files, submodules and nested
repositories are not scanned.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tillerman.core.events import FileChange
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.file_signatures import FileSignature, file_clock, signature
from tillerman.workspace.git.git import Deadline, GitFailed, WorkTree, git, work_tree

LISTED = 50_000  # files that differ from the index; more are not inspected
READ_FILES = 2_000  # of those; the rest is compared by size and time
READ_BYTES = 32 << 20
READ_FILE_BYTES = 4 << 20

_Kind = Literal["added", "modified", "deleted", "renamed"]

PREFIX = "tillerman-changes-"


class Differing(NamedTuple):
    path: str
    tag: str  # of `git ls-files -t`: ? other, C changed, R removed


class GitSnapshot:
    """A work tree at one time; holds a temporary folder until it is closed or collected."""

    def __init__(self, root: Path, tree: WorkTree, deadline: Deadline) -> None:
        self.root = root
        self.captured_at = file_clock()
        self.store, lock = _locked_folder()
        self.index = self.store / "index"
        self.env = {"GIT_DIR": str(self.store), "GIT_WORK_TREE": str(tree.top)}
        self.unread: dict[str, FileSignature | None] = {}
        self.most = LISTED
        self.crowded = False  # more than `most` files differed
        self.close = weakref.finalize(self, _remove, self.store, lock)
        _prepare_store(self.store, tree, _core_settings(root, deadline))


def sweep() -> None:
    """Removes snapshots of killed processes: they contain users' changes."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.getuid() and (lock := _lock(folder)) is not None:
                _remove(folder, lock)


def _locked_folder() -> tuple[Path, int]:
    """Creates and locks a folder; retries if another process swept it before the lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = _lock(folder)
            if lock is not None and (folder / "lock").exists():
                return folder, lock
            if lock is not None:
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Locks it; None if held. File locks work across pid namespaces, pids do not."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def capture(root: Path, deadline: Deadline, *, most: int = LISTED) -> GitSnapshot | None:
    """Takes a snapshot; None if git does not track this folder."""
    tree = work_tree(root, deadline)
    if tree is None or _ignored(root, tree, deadline):
        return None
    snapshot = GitSnapshot(root, tree, deadline)
    snapshot.most = most
    try:
        listing = _listing(snapshot, snapshot.index, deadline)
        differing, snapshot.crowded = _first(snapshot.most, listing)
        unread = _absorb(snapshot, snapshot.index, differing, deadline)
    except BaseException:
        snapshot.close()
        raise
    snapshot.unread = {each.path: signature(root / each.path) for each in unread}
    return snapshot


def compare(snapshot: GitSnapshot, deadline: Deadline) -> tuple[list[FileChange], bool]:
    """Returns the changes, and whether a limit was exceeded, then or now."""
    after = snapshot.store / "index.after"
    if snapshot.index.exists():
        shutil.copy2(snapshot.index, after)
    listing = _listing(snapshot, after, deadline)
    new_changes = (each for each in listing if _is_new_change(snapshot, each))
    differing, crowded = _first(snapshot.most, new_changes)
    unread = _absorb(snapshot, after, differing, deadline)
    changes = list(_diff(snapshot, after, deadline)) if differing else []
    for each in unread:
        changes.append(FileChange(shown(each.path), "added" if each.tag == "?" else "modified"))
    for path, before in snapshot.unread.items():
        now = signature(snapshot.root / path)
        if now != before:
            changes.append(FileChange(shown(path), "deleted" if now is None else "modified"))
    return changes, crowded or snapshot.crowded


def _core_settings(root: Path, deadline: Deadline) -> str:
    """Returns the repository's settings for reading files; only alphabetic values."""
    keys = "autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode"
    try:
        told = git(
            root, "config", "-z", "--local", "--get-regexp", rf"^core\.({keys})$", deadline=deadline
        )
    except GitFailed:
        return ""
    pairs = (record.split("\n", 1) for record in os.fsdecode(told).split("\0") if "\n" in record)
    return "".join(f"\t{key[5:]} = {value}\n" for key, value in pairs if value.isalpha())


def _prepare_store(store: Path, tree: WorkTree, settings: str) -> None:
    version = 0 if tree.object_format == "sha1" else 1
    config = f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{settings}"
    if version:
        config += f"[extensions]\n\tobjectformat = {tree.object_format}\n"
    (store / "config").write_text(config)
    (store / "HEAD").write_text("ref: refs/heads/none\n")
    (store / "refs").mkdir()
    (store / "objects" / "info").mkdir(parents=True)
    (store / "objects" / "info" / "alternates").write_bytes(os.fsencode(tree.objects) + b"\n")
    (store / "info").mkdir()
    for source, target in (
        (tree.exclude, store / "info" / "exclude"),
        (tree.index, store / "index"),
        *((shared, store / shared.name) for shared in tree.index.parent.glob("sharedindex.*")),
    ):
        if source.is_file():
            shutil.copy2(source, target)  # with its time, by which git decides what is unchanged


def _ignored(root: Path, tree: WorkTree, deadline: Deadline) -> bool:
    """Returns whether the repository ignores the workspace, so that it would never change."""
    if root.resolve() == tree.top.resolve():
        return False
    try:
        git(root, "check-ignore", "-q", ".", deadline=deadline)
    except GitFailed:
        return False
    return True


def _listing(snapshot: GitSnapshot, index: Path, deadline: Deadline) -> Iterator[Differing]:
    words = ("ls-files", "-z", "-t", "--modified", "--deleted", "--others", "--exclude-standard")
    env = {**snapshot.env, "GIT_INDEX_FILE": str(index)}
    with tempfile.TemporaryFile(dir=snapshot.store) as listing:  # it may be larger than memory
        git(snapshot.root, *words, deadline=deadline, env=env, into=listing)
        listing.seek(0)
        rest = b""
        while block := listing.read(1 << 20):
            *records, rest = (rest + block).split(b"\0")
            for record in records:
                yield Differing(os.fsdecode(record[2:]), os.fsdecode(record[:1]))


def _first(most: int, listing: Iterable[Differing]) -> tuple[list[Differing], bool]:
    """Returns up to `most` tracked and `most` untracked files; True when there are more."""
    known: dict[str, Differing] = {}
    others: list[Differing] = []
    crowded = False
    for each in listing:
        if each.tag == "?":
            crowded = crowded or len(others) == most
            if not crowded:
                others.append(each)
        elif each.path not in known:  # a removed file is also listed as changed, later
            if len(known) == most:
                return [*known.values(), *others], True
            known[each.path] = each
    return [*known.values(), *others], crowded


def _is_new_change(snapshot: GitSnapshot, each: Differing) -> bool:
    if each.path in snapshot.unread:
        return False
    if not snapshot.crowded or each.tag != "?":
        return True
    try:  # too many files to list all: only files newer than the snapshot count
        return (snapshot.root / each.path).lstat().st_ctime_ns >= snapshot.captured_at
    except OSError:
        return False


def _absorb(
    snapshot: GitSnapshot, index: Path, differing: Iterable[Differing], deadline: Deadline
) -> list[Differing]:
    """Adds the current files to the index; returns those that were not read."""
    added: list[Differing] = []
    unread: list[Differing] = []
    room = READ_BYTES
    for each in differing:
        path = snapshot.root / each.path
        try:
            status = path.lstat()
        except OSError:
            if each.tag == "R":
                added.append(each)
            continue
        if stat.S_ISLNK(status.st_mode):
            added.append(each)
        elif stat.S_ISREG(status.st_mode):
            room -= status.st_size
            fits = status.st_size <= READ_FILE_BYTES and room >= 0 and len(added) < READ_FILES
            (added if fits and os.access(path, os.R_OK) else unread).append(each)
    if added:
        env = {**snapshot.env, "GIT_INDEX_FILE": str(index)}
        names = b"".join(os.fsencode(each.path) + b"\0" for each in added)
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        speed = {"core.compression": "0", "core.fsync": "none"}
        git(snapshot.root, *words, deadline=deadline, env=env, config=speed, stdin=names)
    return unread


def _diff(snapshot: GitSnapshot, after: Path, deadline: Deadline) -> Iterator[FileChange]:
    trees = []
    for index in (snapshot.index, after):
        env = {**snapshot.env, "GIT_INDEX_FILE": str(index)}
        written = git(snapshot.root, "write-tree", "--missing-ok", deadline=deadline, env=env)
        trees.append(written.decode().strip())
    words = ("diff-tree", "-r", "-z", "--relative", "--no-ext-diff", "--no-textconv", "--raw")
    try:
        told = git(
            snapshot.root,
            *(*words, "--numstat", "-M", "--end-of-options", *trees),
            deadline=deadline,
            env=snapshot.env,
        )
    except GitFailed:  # old content is missing, as in a partial clone: names without counts
        yield from _index_changes(snapshot, after, deadline)
        return
    yield from _parse(told)


def _index_changes(snapshot: GitSnapshot, after: Path, deadline: Deadline) -> Iterator[FileChange]:
    """Compares the two indexes, which needs no object of the repository."""
    old, new = (_staged(snapshot, index, deadline) for index in (snapshot.index, after))
    for path in sorted(old.keys() | new.keys()):
        if path not in old:
            yield FileChange(shown(path), "added")
        elif path not in new:
            yield FileChange(shown(path), "deleted")
        elif old[path] != new[path]:
            yield FileChange(shown(path), "modified")


def _staged(snapshot: GitSnapshot, index: Path, deadline: Deadline) -> dict[str, str]:
    """Mode and object of each file, by path."""
    env = {**snapshot.env, "GIT_INDEX_FILE": str(index)}
    told = git(snapshot.root, "ls-files", "-z", "--stage", deadline=deadline, env=env)
    records = (line.partition("\t") for line in os.fsdecode(told).split("\0")[:-1])
    return {path: entry for entry, _, path in records}


def _parse(told: bytes) -> Iterator[FileChange]:
    """Parses `:modes ids X\\0path\\0[new\\0]`, then `added\\tremoved\\tpath\\0` of each file."""
    fields = iter(os.fsdecode(told).split("\0")[:-1])
    changes: dict[str, tuple[_Kind, str | None]] = {}
    counts: dict[str, tuple[int | None, int | None]] = {}
    for head in fields:
        if head.startswith(":"):
            letter = head.rsplit(" ", 1)[1][0]
            path, old = next(fields), None
            if letter == "R":
                path, old = next(fields), path
            changes[path] = (_kind(letter), old)
        else:
            added, removed, path = head.split("\t", 2)
            if not path:
                _, path = next(fields), next(fields)
            counts[path] = (_count(added), _count(removed))
    for path, (kind, old) in changes.items():
        added_lines, removed_lines = counts.get(path, (None, None))
        yield FileChange(shown(path), kind, added_lines, removed_lines, shown(old) if old else None)


def _kind(letter: str) -> _Kind:
    match letter:
        case "A":
            return "added"
        case "D":
            return "deleted"
        case "R":
            return "renamed"
        case _:
            return "modified"


def _count(number: str) -> int | None:
    return None if number == "-" else int(number)
