"""Reads git objects through git and verifies their hashes.

A program can write objects, replace some, or forge their files: an object whose content does not
match its id counts as missing.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SECONDS = 2.0
_LARGEST = 64 << 20


class UnreadableObject(Exception):
    """An object is missing, or its content does not match its id."""


def object_id(kind: str, content: bytes, like: str) -> str:
    """Returns the id of an object, with the hash algorithm of the id `like`."""
    import hashlib

    made = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return made(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


class GitObjects:
    """Objects read from git and verified."""

    def __init__(self, git: subprocess.Popen[bytes], head: str, prefix: str) -> None:
        self._git = git
        self.head, self.prefix = head, prefix
        self._until = time.monotonic() + _SECONDS
        self._trees: dict[str, list[tuple[str, str, str]]] = {}

    def read(self, name: str) -> tuple[str, bytes]:
        assert self._git.stdin and self._git.stdout
        if time.monotonic() > self._until:
            raise UnreadableObject("it took too long")
        self._git.stdin.write(f"{name}\n".encode())
        self._git.stdin.flush()
        words = self._git.stdout.readline().split()
        if len(words) != 3 or int(words[2]) > _LARGEST:
            raise UnreadableObject(name)
        content = self._git.stdout.read(int(words[2]))
        self._git.stdout.read(1)
        kind = words[1].decode()
        if object_id(kind, content, name) != name:
            raise UnreadableObject(name)
        return kind, content

    def commit_of(self, name: str) -> str:
        """Returns the commit that a tag refers to, through nested tags."""
        for _ in range(5):
            kind, content = self.read(name)
            if kind == "commit":
                return name
            if kind != "tag":
                break
            name = content.split(b"\n", 1)[0].removeprefix(b"object ").decode()
        raise UnreadableObject(name)

    def commit(self, name: str) -> tuple[str, list[str]]:
        """Returns its tree and its parents."""
        kind, content = self.read(name)
        if kind != "commit":
            raise UnreadableObject(name)
        lines = content.split(b"\n\n", 1)[0].split(b"\n")
        words = [line.split(b" ", 1) for line in lines]
        parents = [rest[0].decode() for word, *rest in words if word == b"parent"]
        return words[0][1].decode(), parents

    def tree(self, name: str) -> list[tuple[str, str, str]]:
        """Returns modes, names and ids."""
        if name in self._trees:
            return self._trees[name]
        kind, content = self.read(name)
        if kind != "tree":
            raise UnreadableObject(name)
        found, at, size = [], 0, len(name) // 2
        while at < len(content):
            end = content.index(b"\0", at)
            mode, _, called = content[at:end].partition(b" ")
            found.append(
                (mode.decode(), os.fsdecode(called), content[end + 1 : end + 1 + size].hex())
            )
            at = end + 1 + size
        self._trees[name] = found
        return found


@contextmanager
def git_objects(root: Path) -> Iterator[GitObjects]:
    from tillerman.workspace.git.execute_only import call
    from tillerman.workspace.git.git import SAFE, Deadline, GitFailed, git, safe_environment

    env = {**safe_environment(SAFE.items()), "GIT_NO_REPLACE_OBJECTS": "1"}
    try:
        asked = git(root, "rev-parse", "--show-prefix", "HEAD", deadline=Deadline(_SECONDS))
        prefix, head = os.fsdecode(asked).splitlines()
    except (GitFailed, ValueError) as error:
        raise UnreadableObject(str(error)) from None
    process = call(
        lambda: subprocess.Popen(
            ["git", "--no-optional-locks", "cat-file", "--batch"],
            cwd=root,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    )
    try:
        yield GitObjects(process, head, prefix)
    except (ValueError, IndexError) as error:
        raise UnreadableObject(str(error)) from None
    finally:
        process.kill()
        process.communicate()
