"""Git of a run: a worktree for each step at work, a commit for each step that ended."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tillerman.core.errors import UsageError
from tillerman.paths import make_private
from tillerman.workspace.git.git import Deadline, GitFailed, git, work_tree
from tillerman.workspace.git.worktree import missing_notes, repository_label, tamed_filters

STEP_TRAILER = "Tillerman-Step"
RUN_TRAILER = "Tillerman-Run"
RESULT = "RESULT"  # the branch of a run's end; step ids are in lower case
MOST_FILES = 200  # named in a result
_SECONDS = 300.0  # for the commands of one operation
_NAMED = 20  # files in an error


class Place(NamedTuple):
    """Where a run starts."""

    top: str
    commit: str
    branch: str  # empty: detached


class Merged(NamedTuple):
    commit: str
    conflicts: tuple[str, ...] = ()


def find_place(folder: Path) -> Place | None:
    """Returns None outside of a repository."""
    deadline = Deadline(_SECONDS)
    tree = work_tree(folder, deadline)
    if tree is None:
        return None
    try:
        commit = _text(git(tree.top, "rev-parse", "--verify", "HEAD^{commit}", deadline=deadline))
    except GitFailed:
        raise UsageError(
            f"{tree.top} has no commit yet, so the worktrees of a run would be empty",
            hint="commit first, or set `workspace: shared` in the pipeline",
        ) from None
    if git(tree.top, "for-each-ref", "refs/heads/tillerman", deadline=deadline).split()[2:3] == [
        b"refs/heads/tillerman"
    ]:
        raise UsageError(
            f"{tree.top} has a branch `tillerman`, so git cannot create `tillerman/RUN/STEP`",
            hint="rename it: `git branch -m tillerman NAME`",
        )
    try:
        words = ("symbolic-ref", "--quiet", "--short", "HEAD")
        branch = _text(git(tree.top, *words, deadline=deadline))
    except GitFailed:
        branch = ""
    return Place(str(tree.top), commit, branch)


def notes_on(top: Path) -> list[str]:
    """Says what of the repository the worktrees of a run do not have."""
    deadline = Deadline(_SECONDS)
    return missing_notes(top, deadline, tamed_filters(top, deadline))


def branch_of(run: str, path: str) -> str:
    """Returns the branch of a step. Places inside a step are joined by dots, as git needs it."""
    return f"tillerman/{run}/{path.replace('/', '.')}"


class RunGit:
    """Git operations of one run. Everything blocks: call it in a thread."""

    def __init__(self, run: str, repository: Path, folder: Path, worktrees: Path) -> None:
        self._run = run
        self._top = repository
        self._inside = folder.resolve().relative_to(repository.resolve())
        self._under = worktrees / repository_label(repository) / run
        self._identity: dict[str, str] | None = None

    def worktree(self, slot: str) -> Path:
        return self._under / slot

    def folder(self, slot: str) -> Path:
        """Returns the folder inside the worktree in which the run was started."""
        inside = self.worktree(slot) / self._inside
        return inside if inside.is_dir() else self.worktree(slot)

    # -- worktrees -------------------------------------------------------------------------------

    def prepare(self, slot: str, start: str, *, clean: bool) -> None:
        """Makes the worktree have the files of a commit; ignored files of earlier steps stay.

        `clean`: what is in it may be half done.
        """
        path, deadline = self.worktree(slot), Deadline(_SECONDS)
        if not (path / ".git").is_file():
            self._add(path, start, deadline)
            return
        if not clean and self._head(path) == start:
            return
        _unlock(path)
        config = tamed_filters(self._top, deadline)
        words = ("checkout", "--quiet", "--force", "--detach", start)
        git(path, *words, deadline=deadline, config=config, helpers=True)
        git(path, "clean", "-fdq", deadline=deadline)

    def _add(self, path: Path, start: str, deadline: Deadline) -> None:
        make_private(path.parent)
        config = tamed_filters(self._top, deadline)
        words = ("worktree", "add", "--quiet", "-f", "-f", "--detach", str(path), start)
        with self._administration():
            _remove(path)  # half made
            git(self._top, *words, deadline=deadline, config=config, helpers=True)

    @contextmanager
    def _administration(self) -> Iterator[None]:
        """Held while worktrees are added or removed: git's own commands disturb each other."""
        make_private(self._under.parent.parent)
        path = self._under.parent.parent / f"{self._under.parent.name}.lock"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def commit(self, folder: Path, start: str, subject: str, path: str) -> str:
        """Commits all files of a worktree, and returns the commit; no branch has it yet."""
        deadline = Deadline(_SECONDS)
        config = tamed_filters(self._top, deadline)
        _unlock(folder)
        git(folder, "add", "--all", deadline=deadline, config=config, helpers=True)
        tree = _text(git(folder, "write-tree", deadline=deadline))
        parent = self._head(folder)
        return self._commit_tree(tree, [parent or start], subject, path, deadline)

    def snapshot(self, start: str, subject: str, path: str) -> str:
        """Commits the files of the shared folder; its index and branch stay as they are."""
        deadline = Deadline(_SECONDS)
        make_private(self._under)
        index = self._under / f"{path.replace('/', '.')}.index"
        env = {"GIT_INDEX_FILE": str(index)}
        config = tamed_filters(self._top, deadline)
        try:
            git(self._top, "read-tree", start, deadline=deadline, env=env)
            git(self._top, "add", "--all", deadline=deadline, env=env, config=config, helpers=True)
            tree = _text(git(self._top, "write-tree", deadline=deadline, env=env))
        finally:
            index.unlink(missing_ok=True)
        return self._commit_tree(tree, [start], subject, path, deadline)

    def publish(self, path: str, commit: str, slot: str = "") -> None:
        """Makes the commit the end of the step's branch. Doing it again changes nothing."""
        place = self.worktree(slot) if slot else self._top
        changes = f"update refs/heads/{branch_of(self._run, path)} {commit}\n"
        if slot and (place / ".git").is_file():
            changes += f"option no-deref\nupdate HEAD {commit}\n"
        else:
            place = self._top
        git(place, "update-ref", "--stdin", deadline=Deadline(_SECONDS), stdin=changes.encode())

    def remove_worktrees(self, slots: Iterable[str]) -> None:
        deadline = Deadline(_SECONDS)
        with self._administration():
            for slot in slots:
                path = self.worktree(slot)
                try:
                    words = ("worktree", "remove", "--force", "--force", str(path))
                    git(self._top, *words, deadline=deadline)
                except GitFailed:  # half made, or removed before
                    _remove(path)
            with suppress(GitFailed):  # the repository is gone; else git prunes it later
                git(self._top, "worktree", "prune", deadline=deadline)
        for folder in (self._under, self._under.parent):
            try:
                folder.rmdir()
            except OSError:
                return

    # -- commits ---------------------------------------------------------------------------------

    def merge(self, commits: Sequence[str]) -> Merged:
        """Merges commits without a worktree; those that others contain are left out."""
        deadline = Deadline(_SECONDS)
        heads = list(dict.fromkeys(commits))
        if len(heads) > 1:
            told = git(self._top, "merge-base", "--independent", *heads, deadline=deadline)
            kept = set(_text(told).split())
            heads = [head for head in heads if head in kept]
        result = heads[0]
        for head in heads[1:]:
            words = ("merge-tree", "--write-tree", "--name-only", "-z", "--no-messages")
            try:
                told = git(self._top, *words, result, head, deadline=deadline)
            except GitFailed:
                return Merged(result, self._conflicts(result, head, deadline))
            tree = told.split(b"\0")[0].decode().strip()
            result = self._commit_tree(tree, [result, head], "Merge parallel steps", "", deadline)
        return Merged(result)

    def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        if before == after:
            return ()
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-ext-diff", before, after)
        told = git(self._top, *words, deadline=Deadline(_SECONDS))
        names = [name.decode("utf-8", "replace") for name in told.split(b"\0") if name]
        return tuple(names[:MOST_FILES])

    def diff(self, before: str, after: str) -> bytes:
        words = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", before, after)
        return git(self._top, *words, deadline=Deadline(_SECONDS))

    def resolve(self, revision: str) -> str:
        """Returns the commit that a person named."""
        try:
            words = ("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
            return _text(git(self._top, *words, deadline=Deadline(_SECONDS)))
        except GitFailed:
            raise UsageError(
                f"there is no commit {revision!r} in {self._top}",
                hint="commit the edited files there, and name the branch or the commit",
            ) from None

    def leave_on_branch(
        self, branch: str, base: str, end: str, message: str, *, shared: bool
    ) -> tuple[str, str]:
        """Puts one commit with all changes of a run on the branch that it began from.

        Returns the commit, and why the branch was not moved.
        """
        deadline = Deadline(_SECONDS)
        if not branch:
            return self._squash(base, end, message), "no branch was checked out"
        ref = f"refs/heads/{branch}"
        try:
            tip = _text(git(self._top, "rev-parse", "--verify", ref, deadline=deadline))
        except GitFailed:
            return self._squash(base, end, message), "it was deleted or renamed"
        if self._is_ours(tip, deadline):
            return tip, ""
        if tip != base:  # others committed meanwhile
            merged = self.merge([tip, end])
            if merged.conflicts:
                return self._squash(base, end, message), "it has conflicting commits now"
            end = merged.commit
        commit = self._squash(tip, end, message)
        if elsewhere := self._checked_out_elsewhere(ref, deadline):
            return commit, f"it is checked out in {elsewhere}"
        try:
            self._move(ref, tip, commit, deadline, shared=shared)
        except GitFailed:
            return commit, "files there would be overwritten that are not committed"
        return commit, ""

    def _checked_out_elsewhere(self, ref: str, deadline: Deadline) -> str:
        """Returns the other work tree that has this branch; its files would not follow a move."""
        told = git(self._top, "worktree", "list", "--porcelain", "-z", deadline=deadline)
        for record in os.fsdecode(told).split("\0\0"):
            fields = dict(line.partition(" ")[::2] for line in record.split("\0"))
            path = fields.get("worktree", "")
            if fields.get("branch") == ref and path and not _same(Path(path), self._top):
                return path
        return ""

    def _squash(self, base: str, end: str, message: str) -> str:
        """Returns one commit on `base` with all files of `end`; it is the same one each time."""
        deadline = Deadline(_SECONDS)
        tree = _text(git(self._top, "rev-parse", f"{end}^{{tree}}", deadline=deadline))
        message = f"{message}\n\n{RUN_TRAILER}: {self._run}\n"
        told = git(self._top, "show", "-s", "--format=%ct +0000", end, deadline=deadline)
        return self._tree_commit(tree, [base], message, deadline, date=_text(told))

    def _is_ours(self, commit: str, deadline: Deadline) -> bool:
        words = ("show", "-s", f"--format=%(trailers:key={RUN_TRAILER},valueonly)", commit)
        return _text(git(self._top, *words, deadline=deadline)) == self._run

    def _move(self, ref: str, tip: str, commit: str, deadline: Deadline, *, shared: bool) -> None:
        head = ("rev-parse", "--symbolic-full-name", "HEAD")
        checked_out = _text(git(self._top, *head, deadline=deadline)) == ref
        if not checked_out or shared:  # the files of a shared folder are those of the commit
            git(self._top, "update-ref", ref, commit, tip, deadline=deadline)
        if not checked_out:
            return
        config = tamed_filters(self._top, deadline)
        words = ["merge", "--quiet", "--ff-only", "--no-stat", commit]
        if shared:
            words = ["read-tree", commit]
        git(self._top, *words, deadline=deadline, config=config, helpers=True)

    def delete_branches(self) -> None:
        if not self._top.is_dir():  # its branches are gone with it
            return
        deadline = Deadline(_SECONDS)
        words = ("for-each-ref", "--format=delete %(refname)", f"refs/heads/tillerman/{self._run}/")
        try:
            if changes := git(self._top, *words, deadline=deadline):
                git(self._top, "update-ref", "--stdin", deadline=deadline, stdin=changes)
        except GitFailed as error:
            raise UsageError(
                f"git cannot delete the branches of {self._run}: {error}",
                hint=f"`git -C {self._top} branch --list 'tillerman/{self._run}/*'` lists them",
            ) from None

    # --------------------------------------------------------------------------------------------

    def _commit_tree(
        self, tree: str, parents: Sequence[str], subject: str, path: str, deadline: Deadline
    ) -> str:
        trailers = f"{RUN_TRAILER}: {self._run}\n"
        if path:
            trailers += f"{STEP_TRAILER}: {path}\n"
        return self._tree_commit(tree, parents, f"{subject}\n\n{trailers}", deadline)

    def _tree_commit(
        self, tree: str, parents: Sequence[str], message: str, deadline: Deadline, date: str = ""
    ) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        env = {**self._author(deadline)}
        if date:
            env |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        said = git(
            self._top, "commit-tree", tree, *words,
            deadline=deadline, env=env, stdin=message.encode("utf-8", "replace"),
        )  # fmt: skip
        return _text(said)

    def _author(self, deadline: Deadline) -> Mapping[str, str]:
        if self._identity is None:
            try:
                git(self._top, "config", "user.email", deadline=deadline)
                self._identity = {}
            except GitFailed:
                names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME")
                emails = ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
                self._identity = dict.fromkeys(names, "tillerman")
                self._identity |= dict.fromkeys(emails, "tillerman@localhost")
                self._identity |= {
                    name: os.environ[name] for name in (*names, *emails) if name in os.environ
                }
        return self._identity

    def _conflicts(self, one: str, other: str, deadline: Deadline) -> tuple[str, ...]:
        """Names the files that two commits change differently."""
        base = _text(git(self._top, "merge-base", one, other, deadline=deadline))
        names = []
        for commit in (one, other):
            words = ("diff-tree", "-r", "-z", "--name-only", "--no-ext-diff", base, commit)
            names.append(set(git(self._top, *words, deadline=deadline).split(b"\0")) - {b""})
        both = sorted(name.decode("utf-8", "replace") for name in names[0] & names[1])
        return tuple(both[:_NAMED]) or ("?",)

    def _head(self, worktree: Path) -> str:
        """Returns the commit of a worktree's HEAD, without starting git if it is detached."""
        try:
            pointer = (worktree / ".git").read_text().removeprefix("gitdir:").strip()
            head = (Path(pointer) / "HEAD").read_text().strip()
        except OSError:
            head = "ref:"
        if head.startswith("ref:"):
            return _text(git(worktree, "rev-parse", "HEAD", deadline=Deadline(_SECONDS)))
        return head


def _text(output: bytes) -> str:
    return os.fsdecode(output).strip()


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # a work tree whose folder was removed
        return False


def _unlock(worktree: Path) -> None:
    """Removes the lock that a killed git left in a worktree of ours, which nobody else uses."""
    try:
        pointer = (worktree / ".git").read_text().removeprefix("gitdir:").strip()
    except OSError:
        return
    (Path(pointer) / "index.lock").unlink(missing_ok=True)
    (Path(pointer) / "HEAD.lock").unlink(missing_ok=True)


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
