"""Interprets option values and operands of a command by the roles of its program table row.

Roles: `read`, `write`, `remove` and `mention` are files, with a `/` suffix including everything
below; `text` is not a file. `list` is a file that names more files. `data` may be `@FILE`, `form`
`name=@FILE`, `named` `name@FILE`, `rev` a revision, `REV:FILE` or a file of git, `host` a host,
`mount` a directory for a container, `dir` the directory it changes to, `only` a glob of names that
a search is limited to, `shell` a script, `program` a program that it runs, `code` code that it
loads, `config` a setting of git, `format` a format of git that can check signatures, `runs`
anything that makes it more than a reader.

Marks: `recursive`, `given` (there is no leading pattern among the operands), `hidden`,
`untracked`, `follows` and `keeps` (links in a tree are followed, or not), `names` (it lists names
only), `info` (alone, it only prints), `writes`, `runs`, `doubt` (it can run any program), `helper`
(it runs a program that is configured elsewhere); others are specific to the row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tillerman.core.permission.shell.dangerous_variables import is_harmless
from tillerman.core.permission.shell.parsed_script import HOLE, is_open, joined
from tillerman.core.permission.shell.programs.mentions import hosts_in, outputs
from tillerman.core.permission.shell.programs.options import ProgramOption, parse
from tillerman.core.permission.shell.programs.row import InvocationDraft, Kind

_FILES: dict[str, Kind] = {
    "read": "read", "write": "write", "remove": "remove", "mention": "mention",
}  # fmt: skip
_OPAQUE = frozenset({"program", "code", "shell"})
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_ANY_ASSIGNMENT = re.compile("([^=]*)=", re.DOTALL)  # env accepts any name
_ENV = frozenset({"env", "genv"})
_MOST_SUFFIXES = 40
# git: settings whose value is run, and formats for which it runs gpg.
_RUNS_ITS_VALUE = re.compile(
    r"^(alias|pager|hook)\.|(cmd|command|prog|program|helper|hook|driver|editor|pager|external|textconv"
    r"|fsmonitor|clean|smudge|process|askpass|proxy|pack|difffilter|browser|tunnel)$"
)
_CHECKS_SIGNATURES = re.compile("%G|signature")
_READ_ONLY = re.compile(r"[:,](ro|readonly)\b(?!=(false|0))")  # of a mount
_GLOB = re.compile(r"[*?\[]")


def fill(draft: InvocationDraft, options: Mapping[str, ProgramOption]) -> None:
    """Applies everything that the row defines, except its `refine`."""
    row, parsed = draft.row, draft.parsed
    if row.own:
        return
    if parsed.open and any("recursive" in option.marks for option in options.values()):
        parsed.marks.add("recursive")
    marks = parsed.marks
    draft.only += [value for option, value in parsed.values if option.role == "only"]
    for option, value in parsed.values:
        take(draft, option.role, value, f"{option.name} of {draft.program}")
    if "writes" in marks:
        draft.at_least("writes")
    if "runs" in marks:
        draft.at_least("runs")
    if {"doubt", "helper"} & marks:
        draft.doubt(f"an option of {draft.program} can run any program")
    if row.command is not None:
        _command(draft)
    else:
        operands = next((roles for mark, roles in row.when if mark in marks), row.operands)
        _operands(draft, operands)
    if parsed.open:
        _open(draft, options)
    if parsed.unknown:
        draft.at_least("runs")
        draft.mention(draft.words[1:])
        for path in outputs(draft.words, parsed.unknown):
            draft.access(path, "write")
        if row.style == "posix" and row.command is None:
            _behind_unknown(draft, options)


def _behind_unknown(draft: InvocationDraft, options: Mapping[str, ProgramOption]) -> None:
    """An unknown option may have a value, so that more options follow what seems an operand."""
    for option, value in parse(draft.words[1 + draft.parsed.rest :], options).values:
        if option.role not in ("text", "dir"):
            take(draft, option.role, value, f"{option.name} of {draft.program}")


def take(draft: InvocationDraft, role: str, value: str, what: str = "") -> None:
    """Applies the role of one value or operand."""
    name, recursive = role.removesuffix("/"), role.endswith("/")
    if kind := _FILES.get(name):
        draft.access(value, kind, recursive=recursive)
        if kind == "mention":
            draft.mention([value])
        return
    match name:
        case "list":
            draft.access(value, "read")
            draft.access(HOLE, "read")
        case "data" if value.startswith("@"):
            draft.access(value[1:], "read")
        case "form":
            for part in re.split(r"[=;,]", value):
                if part.startswith(("@", "<")):
                    draft.access(part[1:].strip('"'), "read")
        case "named" if "@" in value:
            draft.access(value.partition("@")[2], "read")
        case "rev":
            revision(draft, value)
        case "runs":
            draft.at_least("runs")
        case "mount":
            source = re.sub(r"^.*?(source|src)=([^,]*).*$", r"\2", value).partition(":")[0]
            if "/" in source or source.startswith("."):  # otherwise the name of a volume
                draft.access(source, "mention", recursive=True)
                if not _READ_ONLY.search(value):
                    draft.access(source, "write")
            elif HOLE in source:
                draft.access(HOLE, "mention")
        case "host":
            draft.hosts += hosts_in([value], bare=True) or ([HOLE] if HOLE in value else [])
        case "dir" if value:
            draft.entered.append(value)
            draft.directory = f"{draft.directory}/{value}" if draft.directory else value
        case "config":
            draft.doubt(f"{what} can run any program")
            key, _, setting = value.partition("=")
            draft.mention([setting])
            if key.lower() == "init.templatedir":
                draft.access(".git/hooks", "mention")
            if _RUNS_ITS_VALUE.search(key.lower()):
                draft.script(setting.removeprefix("!").replace(HOLE, "$_"))
        case "format" if _CHECKS_SIGNATURES.search(value):
            draft.at_least("runs")
        case "shell":
            draft.script(value.replace(HOLE, "$_"), draft.row.command or "whole")
        case "program":
            draft.doubt(f"{what} can run any program")
            draft.mention([value])
            if value:
                draft.script(value.replace(HOLE, "$_"))
        case "code":
            draft.doubt(f"{what} loads code, which is not analyzed")
            draft.mention([value])
            draft.code(value)


def revision(draft: InvocationDraft, word: str) -> None:
    """An argument of git that is a revision, a file, or a file of a revision."""
    path = word.partition(":")[2] if ":" in word.lstrip(":") else word
    path = re.sub(r"^:(\(.*?\)|[/!^]+)?|^[0-3]:", "", path)  # `:1:FILE` is in the index
    if glob := _GLOB.search(path):  # a glob of git: its `*` also matches `/`
        ending = re.split(r"[*?\]]", path)[-1].rpartition("/")[2]
        draft.only[:] = [f"*{ending}"] if ending else []
        draft.access(path[: glob.start()].rpartition("/")[0] or ".", "read", recursive=True)
        draft.only.clear()
    else:
        draft.access(path, "read")
        if path == word:  # in the work tree: may be a directory
            draft.access(path, "read", recursive=True)


def _operands(draft: InvocationDraft, roles: str) -> None:
    row, marks, operands = draft.row, draft.parsed.marks, draft.parsed.operands
    parts = roles.split()
    if "given" in marks and parts[:1] == ["text"]:
        parts = parts[1:]
    recursive = "/" if "recursive" in marks else ""
    for role, operand in spread(parts, operands):
        slash = recursive if role in ("read", "write", "remove") else ""
        take(draft, role + slash, operand)
    given = len(operands) - (row.operands.startswith("text") and "given" not in marks)
    if (
        row.default
        and (given <= 0 or (draft.parsed.unknown and row.effect == "runs"))
        and (not row.needs or row.needs in marks)
    ):
        take(draft, f"{row.default}{recursive}" if row.default == "read" else row.default, ".")


def spread(parts: Sequence[str], operands: Sequence[str]) -> list[tuple[str, str]]:
    """Each operand with its role: the roles after the `*` apply to the last operands."""
    star = next((at for at, part in enumerate(parts) if part.endswith("*")), len(parts))
    tail = parts[star + 1 :]
    last = max(len(operands) - len(tail), min(star, len(operands)))
    found: list[tuple[str, str]] = list(zip(parts[:star], operands, strict=False))
    if star < len(parts):
        found += [(parts[star][:-1], one) for one in operands[star:last]]
    found += list(zip(tail, operands[last:], strict=False))
    return found


def _command(draft: InvocationDraft) -> None:
    """Records the command after the options of a wrapper."""
    row, parsed = draft.row, draft.parsed
    rest = list(draft.words[1 + parsed.rest :])
    skipped = [rest.pop(0) for _ in range(min(row.skip, len(rest)))]
    for role, operand in spread(row.operands.split(), skipped):
        take(draft, role, operand)
    environment: list[tuple[str, str]] = []
    while row.assignments and rest and (match := _ANY_ASSIGNMENT.match(rest[0])):
        if "/" in match[1] and draft.program not in _ENV:
            break
        value = rest.pop(0)[match.end() :]
        if not is_harmless(match[1], value):
            draft.doubt(f"{match[1]!r} may change what the program does")
        environment.append((match[1], value))
    unclear = [f"an unknown option of {draft.program}: {word}" for word in parsed.unknown]
    if parsed.open:
        unclear.append(f"unknown arguments of {draft.program}")
    if unclear:
        for why in unclear:
            draft.doubt(why)
        draft.others += suffixes(draft.words)
        for at in range(len(rest)):
            draft.mention(rest[at : at + 1])
    if not rest or row.command is None:
        return
    if ASSIGNMENT.match(rest[0]):  # not a program name, but a shell may read it as an assignment
        draft.others += suffixes(draft.words)
    if row.shell:
        text = " ".join(rest).replace(HOLE, "$_")
        draft.script(text, row.command, remote=row.remote)
        draft.others += suffixes(draft.words)
    else:
        draft.run(rest, row.command, remote=row.remote, environment=environment)


def response_file(draft: InvocationDraft) -> None:
    """`@FILE` stands for the options and files that it lists."""
    for word in draft.words[1:]:
        if word.startswith("@"):
            draft.access(word[1:], "read")
            draft.doubt(f"options of {draft.program} in a file that is not analyzed")


def suffixes(words: Sequence[str]) -> list[str]:
    """Every command that may begin at one of the words."""
    return [joined(words[at:]) for at in range(1, min(len(words), _MOST_SUFFIXES))]


def is_dangerous(option: ProgramOption) -> bool:
    return option.role in _OPAQUE or "doubt" in option.marks


def _open(draft: InvocationDraft, options: Mapping[str, ProgramOption]) -> None:
    """Handles a word known only at run time: it may be any option of the program."""
    writes = any(
        option.role.startswith(("write", "remove")) or {"writes", "runs"} & set(option.marks)
        for option in options.values()
    )
    if draft.row.command is None and any(map(is_dangerous, options.values())):
        draft.doubt(f"unknown arguments of {draft.program}")
    elif writes:
        draft.at_least("runs")
        draft.access(HOLE, "mention")
    if writes:
        # each may be the value of such an option
        draft.mention([word for word in draft.words[1:] if not is_open(word)])
