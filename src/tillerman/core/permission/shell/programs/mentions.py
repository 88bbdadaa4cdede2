"""Extracts files and hosts that an argument may name, for any program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence

from tillerman.core.permission.shell.parsed_script import HOLE, is_open

_LONGEST = 1_000
_OUTPUT_OPTIONS = frozenset({
    "-o", "-out", "--output", "--out", "--outfile", "--out-file", "--output-file", "--output-dir",
    "--outdir", "--out-dir", "--log-file", "--logfile",
})  # fmt: skip
_OUTPUT = re.compile(r"^-.*(out|log|report|prof|dump|trace|save|write|dest|warnings|snapshot)")
_PATH_START = re.compile(r"[./~]")
_AT_PATH = re.compile(r"\w@([./~].*)")
_AUTHORITY = re.compile(r"[^/?#\s]*")
_REMOTE = re.compile(r"(?:[\w.+-]+@)?([A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}|\d+(?:\.\d+){3}):(?!/)")
_HOST = re.compile(r"(?:[\w.+-]+@)?([A-Za-z0-9][\w-]*(?:\.[\w-]+)*\.[A-Za-z]{2,})(?:[:/].*)?")


def mentioned(word: str) -> list[str]:
    """`--opt=F`, `-TF`, `@F`, `key=@F`, `key@./F`, `REV:F` and `file://F` name F."""
    return list(dict.fromkeys(path for path in _mentioned(word) if path not in ("", "-")))


def _mentioned(word: str) -> Iterator[str]:
    if len(word) > _LONGEST or "\n" in word:
        return
    if word.startswith("-"):
        if not word.startswith("--"):
            yield word[2:]
            if start := _PATH_START.search(word, 1):  # `-sT.env`
                yield word[start.start() :]
    elif word[:7].lower() == "file://":
        yield word[7:]
    elif "://" not in word:
        yield word
    parts = re.split(r"[=,;]", word)
    for part in parts:
        bare = part.lstrip("@<:!^")
        if (bare != part or len(parts) > 1) and not bare.startswith("-"):
            yield bare
        if at := _AT_PATH.search(bare):  # `name@./FILE`
            yield at[1]
        scheme, colon, path = bare.partition(":")
        if colon and not path.startswith("//"):
            yield path.lstrip(":")
            if len(scheme) > 1:
                yield scheme
        elif scheme.lower() == "file":
            yield path.removeprefix("//")


def outputs(words: Sequence[str], only: Collection[str] = ()) -> list[str]:
    """Files that programs write by convention, whatever they are; `only`: by these options."""
    found: list[str] = []
    for at, word in enumerate(words[1:], 1):
        name, equals, value = word.partition("=")
        if only and word not in only:
            continue
        following = "".join(words[at + 1 : at + 2])
        like_path = "/" in (value if equals else following) and _OUTPUT.search(name)
        if name in _OUTPUT_OPTIONS or like_path:
            found.append(value if equals else following)
    return [path for path in found if path not in ("", "-")]


def hosts_in(words: Sequence[str], *, bare: bool = False) -> tuple[str, ...]:
    """The hosts of URLs and addresses, and with `bare` of all operands; HOLE for an unknown one."""
    found: list[str] = []
    for word in words:
        _, *rests = word.split("://")
        found += [_host(_first(rest)) for rest in rests]
        if len(word) > _LONGEST:
            continue
        match = _REMOTE.match(word)
        if not match and bare and not word.startswith("-"):
            match = _HOST.fullmatch(word)
        if match:
            found.append(match[1].lower())
    return tuple(dict.fromkeys(found))


def below(directory: str, path: str) -> str:
    """A path relative to another directory."""
    if not directory or path.startswith(("/", "~")):
        return path
    return posixpath.join(directory, path)


def _first(rest: str) -> str:
    match = _AUTHORITY.match(rest)
    return match[0] if match else ""


def _host(authority: str) -> str:
    host = authority.rpartition("@")[2].partition(":")[0].lower().rstrip(".")
    return HOLE if not host or is_open(authority) or "\\" in authority else host
