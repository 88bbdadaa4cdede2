"""git: the command behind the options before it, what that can run, and what it writes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridle.core.permission.shell.script import HOLE

_VALUED = frozenset({
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix",
    "--attr-source",
})  # fmt: skip
_ELSEWHERE = ("--git-dir", "--work-tree")
_RUN = frozenset({
    "filter-branch", "send-email", "difftool", "mergetool", "instaweb", "daemon", "shell",
    "remote-ext", "cvsserver", "svn", "p4", "web--browse", "imap-send",
})  # fmt: skip
_RUN_BY = {  # letters, and long options that may be cut short
    "rebase": ("x", "--exec"),
    "clone": ("uc", "--upload-pack", "--config", "--template"),
    "fetch": ("", "--upload-pack"),
    "pull": ("", "--upload-pack"),
    "fetch-pack": ("", "--upload-pack", "--exec"),
    "push": ("", "--receive-pack", "--exec"),
    "send-pack": ("", "--receive-pack", "--exec"),
    "ls-remote": ("", "--upload-pack", "--exec"),
    "archive": ("", "--exec", "--remote"),
    "init": ("", "--template"),
    "grep": ("O", "--open-files-in-pager"),
}
_RUN_WORD = {"bisect": "run", "submodule": "foreach"}
_TAKES = frozenset({
    "-b", "-B", "-o", "-u", "-c", "-j", "--depth", "--branch", "--origin", "--upload-pack",
    "--config", "--reference", "--reference-if-able", "--template", "--separate-git-dir", "--jobs",
    "--filter", "--shallow-since", "--shallow-exclude", "--server-option", "--bundle-uri",
    "--reason",
})  # fmt: skip
_CONFIG_READS = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"})
_CONFIG_CHANGES = ("--unset", "--add", "--replace", "--rename", "--remove", "-e", "--edit")


class Call(NamedTuple):
    before: Sequence[str]  # options of git itself
    folder: str
    command: str
    rest: Sequence[str]


def call_of(words: Sequence[str]) -> Call:
    at, folder = 1, ""
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C":
            folder = posixpath.join(folder, words[at + 1] if at + 1 < len(words) else "")
        at += 2 if words[at] in _VALUED else 1
    return Call(words[1:at], folder, words[at] if at < len(words) else "", words[at + 1 :])


def doubts_of(words: Sequence[str]) -> Iterator[str]:
    call = call_of(words)
    if any(word.startswith(_ELSEWHERE) for word in call.before):
        yield "git works on files that lie elsewhere"
    letters, *names = _RUN_BY.get(call.command, ("",))
    if (
        call.command in _RUN
        or any(_is_given(word, letters, names) for word in call.rest)
        or _RUN_WORD.get(call.command, HOLE) in call.rest
    ):
        yield f"git {call.command} can run any program"


def _is_given(word: str, letters: str, names: Sequence[str]) -> bool:
    if word.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and any(one.startswith(name) for one in names)
    return word.startswith("-") and not set(letters).isdisjoint(word)


def writes_of(words: Sequence[str]) -> tuple[list[str], bool]:
    """And whether it takes them away."""
    call = call_of(words)
    found = [*_written(call), *_outputs(call)]
    moved = [posixpath.join(call.folder, path) if path else path for path in found]
    return moved, call.command in ("mv", "rm")


def _written(call: Call) -> list[str]:
    operands = _operands(call.rest)
    match call.command:
        case "mv" | "rm" | "init":
            return operands
        case "worktree" if operands[:1] in (["add"], ["move"], ["remove"]):
            return operands[1:] if operands[0] != "add" else operands[1:2]
        case "clone":
            return operands[1:]
        case "submodule" if operands[:1] == ["add"]:
            return operands[2:]
        case "bundle" if operands[:1] == ["create"]:
            return operands[1:2]
        case "config":
            return _configured(call.rest)
    return []


def _outputs(call: Call) -> list[str]:
    names = ["--output"]
    if call.command == "checkout-index":
        names = ["--prefix"]
    elif call.command == "format-patch":
        names = ["--output-directory", "--output"]
    elif call.command == "clone":
        names = ["--separate-git-dir"]
    elif call.command == "apply":
        names = ["--directory"]
    short = call.command in ("format-patch", "archive", "fast-export")
    found: list[str] = []
    for at, word in enumerate(call.rest):
        name, equals, value = word.partition("=")
        following = call.rest[at + 1] if at + 1 < len(call.rest) else ""
        if word.startswith("--") and len(name) > 3 and any(one.startswith(name) for one in names):
            found.append(value if equals else following)
        elif short and word.startswith("-o"):
            found.append(word[2:] or following)
    return found


def _operands(rest: Sequence[str]) -> list[str]:
    found: list[str] = []
    words = iter(rest)
    for word in words:
        if word == "--":
            found += words
        elif word in _TAKES:
            next(words, None)
        elif not word.startswith("-"):
            found.append(word)
    return found


def _configured(rest: Sequence[str]) -> list[str]:
    """A setting of git can start programs."""
    if not rest or _CONFIG_READS.intersection(rest):
        return []
    if any(word.startswith(("--global", "--system", "--glo", "--sys")) for word in rest):
        return ["~/.gitconfig"]
    changes = any(word.startswith(_CONFIG_CHANGES) for word in rest)
    plain = [word for word in rest if not word.startswith("-")]
    return [".git/config"] if changes or len(plain) > 1 or plain[:1] in (["set"], ["edit"]) else []
