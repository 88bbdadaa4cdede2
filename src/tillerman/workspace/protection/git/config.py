"""Parses git config files and removes new settings that can run a program.

Ordinary git commands write the config often (`push -u`, `remote add`, `config user.name`), so the
file stays writable. Only entries that name a program, or lead to one, are removed. The parser
follows git's own (config.c) byte by byte; a file that git cannot read is rejected.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

# By full key: section and name in lower case. Their values are run, or lead to what is run.
_RUNS = re.compile(
    r"alias\..+"
    r"|(?:browser|difftool|mergetool|man)\..+\.(?:cmd|path)|guitool\..+\.cmd"
    r"|core\.(?:alternaterefscommand|askpass|attributesfile|editor|fsmonitor|gitproxy|hookspath"
    r"|pager|protecthfs|protectntfs|sshcommand|worktree)"
    r"|credential\.(?:.+\.)?helper"
    r"|diff\.external|diff\..+\.(?:command|textconv)|merge\..+\.driver"
    r"|filter\..+\.(?:clean|smudge|process|required)"
    r"|gitcvs\..+|gitflow\.path\.hooks"
    r"|gpg\.(?:.+\.)?(?:program|defaultkeycommand)"
    r"|hook\..+"
    r"|imap\.tunnel"
    r"|include\.path|includeif\..+\.path"
    r"|init\.templatedir"
    r"|instaweb\.(?:browser|httpd|modulepath)|web\.browser"
    r"|interactive\.difffilter"
    r"|lfs\.(?:customtransfer|extension)\..+|lfs\.(?:.+\.)?standalonetransferagent"
    r"|pager\..+"
    r"|protocol\.(?:.+\.)?allow"
    r"|pull\.(?:twohead|octopus)"
    r"|remote\..+\.(?:receivepack|uploadpack|vcs)"
    r"|sendemail\.(?:.+\.)?(?:cccmd|tocmd|headercmd|sendmailcmd|smtpserver)"
    r"|sequence\.editor|ssh\.variant|svn\.authorsprog"
    r"|tar\..+\.command|trailer\..+\.(?:command|cmd)"
    r"|uploadpack\.packobjectshook",
    re.DOTALL,
)
# Name patterns of settings that run a program, for keys unknown here, as of a newer git.
_CALLED_LIKE_PROGRAMS = re.compile(
    r".+\.[a-z0-9-]*(?:cmd|command|prog|program|helper|hook|hookspath|editor|pager|browser|driver"
    r"|process|clean|smudge|textconv|external|askpass|exec|execute|run|script|shell|launcher|handler"
    r"|filter|tunnel|agent|executable|binary)",
    re.DOTALL,
)
_DOCUMENTED_AS_DATA = re.compile(
    r"(?:advice|color|column)\..+|diff\..+\.(?:binary|cachetextconv)|help\.browser"
    r"|http\.(?:.+\.)?useragent|rebase\.reschedulefailedexec|remote\..+\.partialclonefilter"
    r"|uploadpack(?:filter)?\..+",
    re.DOTALL,
)
_HARMLESS_SWITCHES = re.compile(r"core\.fsmonitor|pager\..+", re.DOTALL)
_SWITCH = frozenset({None, "", "true", "false", "yes", "no", "on", "off", "0", "1"})
_UPDATES = re.compile(r"submodule\..+\.update", re.DOTALL)  # `!command`
_ADDRESSES = re.compile(r"(?:remote|submodule)\..+\.(?:push)?url", re.DOTALL)
_REWRITES = re.compile(r"url\.(.+)\.(?:push)?insteadof", re.DOTALL)
_HELPER = re.compile(r"\s*[A-Za-z0-9_+.-]+::")  # `ext::command`, or another remote helper

_SPACE = b" \t\n\r"
_ALPHA = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_KEY = _ALPHA | frozenset(b"0123456789-")
_ESCAPES = {0x74: 0x09, 0x62: 0x08, 0x6E: 0x0A, 0x5C: 0x5C, 0x22: 0x22}
_NEWLINE, _BOM = 0x0A, b"\xef\xbb\xbf"


class BadConfig(ValueError):
    """Git itself would refuse to read the file."""


class GitConfigEntry(NamedTuple):
    key: str  # section and name in lower case, as git prints it
    value: str | None  # None: only the name is given, which means true
    start: int  # of its name
    end: int  # of its value, without the line end

    @property
    def runs(self) -> bool:
        return runs_a_program(self.key, self.value)


class Disarmed(NamedTuple):
    content: bytes
    undone: tuple[str, ...]  # keys; empty if nothing had to be changed


def runs_a_program(key: str, value: str | None) -> bool:
    if _RUNS.fullmatch(key):
        switch = _HARMLESS_SWITCHES.fullmatch(key) and (value and value.lower()) in _SWITCH
        return not switch
    if _CALLED_LIKE_PROGRAMS.fullmatch(key) and not _DOCUMENTED_AS_DATA.fullmatch(key):
        return (value and value.lower()) not in _SWITCH
    if _UPDATES.fullmatch(key):
        return (value or "").lstrip().startswith("!")
    if _ADDRESSES.fullmatch(key):
        return _HELPER.match(value or "") is not None
    rewritten = _REWRITES.fullmatch(key)
    return rewritten is not None and _HELPER.match(rewritten[1]) is not None


def disarm(now: bytes, known: bytes, *, own_folder: str = "") -> Disarmed:
    """Returns `now` with the program settings of `known` and no others.

    `own_folder` is the folder of a submodule's config, relative to its workspace.
    """
    before = _programs(known, own_folder)
    try:
        entries = parse(now)
    except BadConfig:
        return Disarmed(known, ("the whole file, which git could not read",))
    running = _running(entries, own_folder)
    if [(entry.key, entry.value) for entry in running] == before:
        return Disarmed(now, ())
    left = Counter(before)
    added = []
    for entry in running:
        if left[entry.key, entry.value]:
            left[entry.key, entry.value] -= 1
        else:
            added.append(entry)
    content = _without(now, added)
    undone = [entry.key for entry in added]
    if _programs(content, own_folder) != before:  # some were removed or reordered
        content = _without(now, running)
        content = with_settings(content, before)
        undone += [key for key, _ in left.elements()]
    return Disarmed(content, tuple(dict.fromkeys(undone or (key for key, _ in before))))


def parse(data: bytes) -> list[GitConfigEntry]:
    return _Parser(data).entries()


def _is_own(entry: GitConfigEntry, folder: str) -> bool:
    """Returns whether it is a submodule's work tree: inside the workspace, not in its `.git`."""
    if entry.key != "core.worktree" or not folder or not entry.value:
        return False
    target = posixpath.normpath(f"{folder}/{entry.value}")
    first = target.split("/")[0].lower()
    return not entry.value.startswith("/") and first not in ("..", ".", ".git")


def _running(entries: Iterable[GitConfigEntry], own_folder: str) -> list[GitConfigEntry]:
    return [entry for entry in entries if entry.runs and not _is_own(entry, own_folder)]


def _programs(data: bytes, own_folder: str) -> list[tuple[str, str | None]]:
    try:
        return [(entry.key, entry.value) for entry in _running(parse(data), own_folder)]
    except BadConfig:
        return []


def _without(data: bytes, entries: Iterable[GitConfigEntry]) -> bytes:
    """Removes entries; a line with nothing else is removed completely."""
    for entry in sorted(entries, key=lambda one: one.start, reverse=True):
        start, end = entry.start, entry.end
        line = start
        while line and data[line - 1] in b" \t":
            line -= 1
        if not line or data[line - 1] == _NEWLINE:
            start = line
            end += 2 if data[end : end + 2] == b"\r\n" else 1
        data = data[:start] + data[end:]
    return data


def with_settings(data: bytes, settings: Iterable[tuple[str, str | None]]) -> bytes:
    """Appends settings at the end, where they override all others."""
    lines = [data if not data or data.endswith(b"\n") else data + b"\n"]
    for key, value in settings:
        section, _, rest = key.partition(".")
        subsection, dot, name = rest.rpartition(".")
        quoted = subsection.replace("\\", "\\\\").replace('"', '\\"')
        head = f'[{section} "{quoted}"]' if dot else f"[{section}]"
        line = f"{head}\n\t{name}" + ("" if value is None else f" = {_quoted(value)}") + "\n"
        lines.append(line.encode("utf-8", "surrogateescape"))
    return b"".join(lines)


def _quoted(value: str) -> str:
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        value = value.replace(character, escape)
    return '"' + value.replace("\b", "\\b") + '"'


class _Parser:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_BOM) if data.startswith(_BOM) else 0
        self._ended = False

    def entries(self) -> list[GitConfigEntry]:
        found: list[GitConfigEntry] = []
        section = bytearray()
        while True:
            start = self._at
            c = self._next()
            if c == _NEWLINE and self._ended:
                return found
            if c in _SPACE:
                continue
            if c in b"#;":
                self._skip_comment()
                if self._ended:
                    return found
            elif c == 0x5B:  # [
                section = self._section()
            elif c in _ALPHA:
                found.append(self._entry(section, c, start))
                if self._ended:
                    return found
            else:
                raise BadConfig(f"byte {start}")

    def _next(self) -> int:
        if self._at >= len(self._data):
            self._ended = True
            return _NEWLINE
        c = self._data[self._at]
        self._at += 1
        if c == 0x0D and self._data[self._at : self._at + 1] == b"\n":
            self._at += 1
            return _NEWLINE
        return c

    def _skip_comment(self) -> None:
        while self._next() != _NEWLINE:
            pass

    def _section(self) -> bytearray:
        name = bytearray()
        while True:
            c = self._next()
            if self._ended:
                raise BadConfig("a section without an end")
            if c == 0x5D:  # ]
                break
            if c in _SPACE:
                self._subsection(name, c)
                break
            if c not in _KEY and c != 0x2E:
                raise BadConfig(f"byte {self._at}")
            name += bytes((c,)).lower()
        if not name:
            raise BadConfig("a section without a name")
        return name + b"."

    def _subsection(self, name: bytearray, c: int) -> None:
        while c in _SPACE:
            if c == _NEWLINE:
                raise BadConfig("a section without an end")
            c = self._next()
        if c != 0x22:
            raise BadConfig(f"byte {self._at}")
        name += b"."
        while (c := self._next()) != 0x22:
            if c == 0x5C:
                c = self._next()
            if c == _NEWLINE:
                raise BadConfig("a section without an end")
            name.append(c)
        if self._next() != 0x5D:
            raise BadConfig(f"byte {self._at}")

    def _entry(self, section: bytearray, c: int, start: int) -> GitConfigEntry:
        key = section + bytes((c,)).lower()
        while True:
            end = self._at
            c = self._next()
            if c not in _KEY:
                break
            key += bytes((c,)).lower()
        while c in b" \t":
            end = self._at
            c = self._next()
        value: str | None = None
        if c == 0x3D:  # =
            text, end = self._value()
            value = _text(text)
        elif c != _NEWLINE:
            raise BadConfig(f"byte {self._at}")
        return GitConfigEntry(_text(bytes(key)), value, start, end)

    def _value(self) -> tuple[bytes, int]:
        value, spaces = bytearray(), bytearray()
        quoted = comment = False
        while True:
            end = self._at
            c = self._next()
            if c == _NEWLINE:
                if quoted:
                    raise BadConfig("a value without an end")
                return bytes(value), end
            if comment:
                continue
            if not quoted and c in _SPACE:
                spaces += b" " if value else b""
                continue
            if not quoted and c in b"#;":
                comment = True
                continue
            value += spaces
            spaces.clear()
            if c == 0x5C:
                c = self._next()
                if c == _NEWLINE:
                    continue
                if c not in _ESCAPES:
                    raise BadConfig(f"byte {self._at}")
                value.append(_ESCAPES[c])
            elif c == 0x22:
                quoted = not quoted
            else:
                value.append(c)


def _text(data: bytes) -> str:
    """Decodes the bytes up to the first NUL, like git's C strings."""
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
