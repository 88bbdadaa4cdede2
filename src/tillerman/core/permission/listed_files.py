"""Resolves files that a pipeline lists and another command reads: `git ls-files | xargs wc -l`.

The shell reader knows only that such arguments are unknown until the line runs. If their only
source is commands that print paths, the files are in the folders that are listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    FileAccess,
    ParsedCommand,
    ParsedScript,
)

# A single pipeline, without arguments from variables, files or other commands. It may change the
# directory first, and discard errors.
_AROUND = re.compile(r"\A\s*cd [\w./-]+ && |(?<=\s)2> ?/dev/null(?=[\s|)]|$)")
_ELSEWHERE = re.compile(r"[;&<>\n\\`{}~]|\|\||\$(?!\()|\$\(\(")
_SOURCE = re.compile(r"xargs|\$\(")
_QUOTED = re.compile(
    r"(?<=[\s=(])(?:'[^']*'|\"[^\"$]*\")(?=[\s|)]|$)"
)  # complete words, not parts of words
# names that xargs or the shell would split, or a program would read as an option
_ODD_NAME = re.compile(r"[\s'\"\\]|^-")


def with_listed_files(
    line: str, script: ParsedScript, names: Callable[[FileAccess], Iterable[str]]
) -> ParsedScript:
    """Replaces accesses to unknown files by accesses to the listed files.

    `names` returns the names of all files in the folder of an access.
    """
    line, around = _AROUND.subn("", line)
    users = [at for at, one in enumerate(script.commands) if _takes_listed(one)]
    if len(users) != 1 or script.redirections or script.unread or not _has_one_source(line):
        return script
    (user,) = users
    command = script.commands[user]
    listed: list[FileAccess] = []
    moves = [one for one in script.commands if one.words[:1] == ("cd",)] if around else []
    if len(script.commands) - len(moves) != 1 + line.count("|") + line.count("$("):
        return script  # identical commands are counted once
    if any(other.effect not in ("none", "reads") for other in script.commands[user + 1 :]):
        return script
    for other in script.commands[:user]:
        if other in moves:
            continue
        found = _listed_by(other)
        if found is None or other.directories != command.directories:
            return script
        listed += (replace(one, directories=command.directories) for one in found)
    if not listed:
        return script
    below = {name for one in listed for name in names(one)}
    if any(map(_ODD_NAME.search, below)):
        return script
    by_git = any({"git", "--name-only"} <= set(one.words) for one in script.commands)
    if by_git and ".git" not in below:  # otherwise its paths are relative to another folder
        return script
    accesses: list[FileAccess] = []
    for access in command.accesses:
        if access.path == HOLE:
            accesses += (_each_of(one, access) for one in listed)
        else:
            accesses.append(access)
    changed = replace(command, accesses=tuple(dict.fromkeys(accesses)))
    commands = (*script.commands[:user], changed, *script.commands[user + 1 :])
    return replace(script, commands=commands)


def _each_of(listed: FileAccess, access: FileAccess) -> FileAccess:
    """Applies the program's access to the files of a listed tree."""
    changes = access.kind in ("write", "remove")
    return replace(
        listed, kind=access.kind, names_only=False, follows_links=not changes, possible=changes
    )


def _has_one_source(line: str) -> bool:
    """Whether it is one pipeline with one place where printed output becomes arguments."""
    if _ELSEWHERE.search(line) or len(_SOURCE.findall(line)) != 1:
        return False
    return not {"'", '"'} & set(_QUOTED.sub("", line))


def _takes_listed(command: ParsedCommand) -> bool:
    return any(HOLE in access.path for access in command.accesses) or any(
        HOLE in word for word in command.words
    )


def _listed_by(command: ParsedCommand) -> Sequence[FileAccess] | None:
    """The trees that contain the printed paths; empty for a filter that passes paths on.

    None for a command that prints anything else.
    """
    if command.effect != "reads":
        return None
    match command.words:
        case ("git", "ls-files", *rest) if _within(rest, _GIT_LS_FILES):
            plain = FileAccess(".", "read", recursive=True, tracked=True)
            return [one for one in command.accesses if one.recursive] or [plain]
        case ("git", "diff" | "show" | "diff-tree" as name, *rest) if _names_files(name, rest):
            # paths are relative to the top of the repository, from any directory
            if command.directories == ("",):
                # other revisions, and an index with removed files, name more
                tracked = name == "diff" and rest == ["--name-only"]
                return [FileAccess(".", "read", recursive=True, tracked=tracked)]
        case ("find", *rest) if _within(rest, _FIND):
            only = _name_pattern(rest)
            return [replace(one, recursive=True, only=only) for one in command.accesses]
        case ("rg" | "fd" | "fdfind" | "grep" as name, *rest) if _lists(name, rest):
            return [one for one in command.accesses if one.recursive] or None
        case ("ls",):
            return [FileAccess(".", "read", recursive=True, skips_hidden=True)]
        case ("head" | "tail" | "sort" | "uniq" | "grep" as name, *rest):
            passes = not command.accesses and _within(rest, _FILTERS[name])
            return [] if passes else None
    return None


_GIT_LS_FILES = re.compile(r"-z|-c|-m|--cached|--modified|--")
_GIT_DIFF = re.compile(
    r"--name-only|--cached|--staged|--diff-filter=\w+|--no-commit-id|-r|-z|--format=|--pretty=|--"
)
_FIND = re.compile(
    r"-type|-i?name|-not|-path|-maxdepth|-mindepth|-newer|-mtime|-size|-empty|-print0?|-o|-a"
)
_RG = re.compile(r"-[lLiwFS0]+|--files|--files-with-matches|--hidden|-t\w*|--type|-g|--glob|-e|--")
_FD = re.compile(r"-[Hi0]+|-e|-t|--type|--extension|--hidden|--")
_GREP = re.compile(r"-[rlLiIwEFsZ]+|--include=.*|--exclude=.*|--exclude-dir=.*|-e|--")
_FILTERS = {
    "head": re.compile(r"-n?\d*"),
    "tail": re.compile(r"-n?\d*"),
    "sort": re.compile(r"-[urVzf]+"),
    "uniq": re.compile(r"-[iz]+"),
    "grep": re.compile(r"-[viEFwxz]+|-e|--"),
}


def _names_files(name: str, words: Sequence[str]) -> bool:
    """Whether git prints only the names of changed files."""
    if "--name-only" not in words or not _within(words, _GIT_DIFF):
        return False
    return name == "diff" or not {"--format=", "--pretty=", "--no-commit-id"}.isdisjoint(words)


def _within(words: Sequence[str], options: re.Pattern[str]) -> bool:
    return all(options.fullmatch(word) for word in words if word.startswith("-"))


def _name_pattern(words: Sequence[str]) -> tuple[str, ...]:
    """The pattern that all names printed by find match; empty if it takes more than one test."""
    if words.count("-name") != 1 or {"-o", "(", ","} & set(words):
        return ()
    at = words.index("-name")
    return () if words[at - 1] in ("!", "-not") else (words[at + 1],)


def _lists(name: str, words: Sequence[str]) -> bool:
    """Whether it prints paths and not lines of files."""
    match name:
        case "rg":
            listing = any(re.fullmatch(r"-\w*[lL]\w*|--files.*", one) for one in words)
            return listing and _within(words, _RG)
        case "grep":
            listing = any(re.fullmatch(r"-\w*[lL]\w*", one) for one in words)
            return listing and _within(words, _GREP)
    return _within(words, _FD)
