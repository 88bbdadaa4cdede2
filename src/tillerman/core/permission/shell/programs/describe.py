"""Describes the effects of one external command by applying its row of the program table."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tillerman.core.permission.shell.parsed_script import HOLE, FileAccess, is_open, joined
from tillerman.core.permission.shell.programs.code_text import named_files, passed_commands
from tillerman.core.permission.shell.programs.invocation import Invocation, StdinSource
from tillerman.core.permission.shell.programs.mentions import hosts_in, mentioned, outputs
from tillerman.core.permission.shell.programs.options import Parsed, ProgramOption, grammar, parse
from tillerman.core.permission.shell.programs.roles import fill, take
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row
from tillerman.core.permission.shell.programs.table import ROWS, WITH_SUBCOMMANDS, family
from tillerman.core.permission.shell.programs.work_folders import named_folders

_STANDARD = frozenset({
    "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin",
    "/opt/homebrew/bin",
})  # fmt: skip
_MOST = 500  # maximum number of files and hosts
_COMMON = "--help:info --version:info"
_GIT_QUIET = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_NOTHING = StdinSource()


def describe(words: Sequence[str], stdin: StdinSource = _NOTHING) -> Invocation:
    """Describes a command; `words` are expanded; the program may be unknown."""
    if not words:
        return Invocation("")
    folder, base = posixpath.split(words[0])
    others: list[str] = []
    if folder in _STANDARD:
        words = [base, *words[1:]]
        folder = ""
    elif folder:
        others.append(joined([base, *words[1:]]))
    if is_open(words[0]):
        return _bounded(_unknown(words, others, "the program is only known at run time"))
    name = family(base)
    row = ROWS.get(name) if " " not in name else None  # `"git status"` is a program of that name
    if row is None:
        doubts = ["a name that zsh looks up"] if base.startswith("=") else []
        return _bounded(_unknown(words, others, *doubts, stdin=stdin))
    found = _known([name, *words[1:]], words, row, stdin, others)
    if folder:  # a program of this name of unknown origin
        found = replace(
            found,
            effect="runs",
            row="",
            accesses=(FileAccess(words[0], "mention"), *found.accesses),
        )
    return _bounded(found)


def _unknown(
    words: Sequence[str], others: Sequence[str], *doubts: str, stdin: StdinSource = _NOTHING
) -> Invocation:
    first = [words[0]] if "/" in words[0] else []
    paths = dict.fromkeys([*first, *(path for word in words[1:] for path in mentioned(word))])
    paths |= dict.fromkeys(path for word in words[1:] for path in named_files(word))
    accesses = [FileAccess(path, "mention") for path in paths]
    accesses += [FileAccess(path, "write") for path in outputs(words)]
    text = joined(words)
    return Invocation(
        text,
        tuple(others),
        accesses=tuple(accesses),
        hosts=hosts_in(words[1:]),
        doubts=doubts,
        passed=(*passed_commands(words), *passed_commands(["", stdin.text or ""])),
        folders=named_folders(words),
    )


def _known(
    words: Sequence[str], written: Sequence[str], row: Row, stdin: StdinSource, others: list[str]
) -> Invocation:
    """`words` begin with the program's plain name, `written` with the name it was called by."""
    text = joined(written)
    if words[0] not in WITH_SUBCOMMANDS:
        parsed, options = _parsed(words[1:], row.options, row)
        draft = _filled(InvocationDraft(words, row, stdin, parsed), options)
        return _finished(draft, text, others, words, row)
    top, options = _parsed(words[1:], row.options, replace(row, style="posix"))
    rest = words[1 + top.rest :]
    if top.rest:
        others.append(joined([words[0], *rest]))
    if words[0] == "git":
        text = joined([written[0], *_without_quiet(words[1 : 1 + top.rest]), *rest])
        others.append(joined(written))
    sub, depth = _subcommand(words[0], rest)
    if sub is None:
        draft = InvocationDraft(words, row, stdin, top)
        fill(draft, options)
        if rest and is_open(rest[0]):
            draft.doubt(f"the command of {words[0]} is only known at run time")
        draft.mention(rest[1:])
        if rest:
            draft.at_least("runs")
            if row.refine is not None:
                row.refine(draft)
        for path in outputs(rest):
            draft.access(path, "write")
        _settle(draft)
        found = _finished(draft, text, others, words, row)
        return replace(found, passed=passed_commands(words))
    spec = f"{sub.options} {row.options}" if row.everywhere else sub.options
    parsed, options = _parsed(rest[depth:], spec, sub)
    draft = InvocationDraft(
        [" ".join([words[0], *rest[:depth]]), *rest[depth:]], sub, stdin, parsed
    )
    _take_top(draft, top)
    return _finished(_filled(draft, options), text, others, words, row)


def _finished(
    draft: InvocationDraft, text: str, others: Sequence[str], words: Sequence[str], row: Row
) -> Invocation:
    found = draft.finish(text, others)
    if found.effect == "reads" or any(run.remote for run in found.runs):
        return found
    folders = named_folders(words, row, draft.entered)
    return replace(found, folders=folders) if folders else found


def _parsed(
    words: Sequence[str], spec: str, row: Row
) -> tuple[Parsed, Mapping[str, ProgramOption]]:
    options = grammar(f"{spec} {_COMMON}", row.style)
    return parse(words, options, row.style), options


def _subcommand(program: str, rest: Sequence[str]) -> tuple[Row | None, int]:
    for depth in (2, 1):
        row = ROWS.get(" ".join([program, *rest[:depth]])) if len(rest) >= depth else None
        if row is not None:
            return row, depth
    return None, 0


def _take_top(draft: InvocationDraft, top: Parsed) -> None:
    """Applies the options before the subcommand."""
    program = draft.program.partition(" ")[0]
    for option, value in top.values:
        take(draft, option.role, value, f"{option.name} of {program}")
    if "runs" in top.marks:
        draft.at_least("runs")
    if "doubt" in top.marks:
        draft.doubt(f"an option of {program} can run any program")
    if top.unknown:
        draft.doubt(f"an unknown option of {program}: {top.unknown[0]}")
    draft.parsed.marks |= top.marks & {"untracked", "dry"}


def _filled(draft: InvocationDraft, options: Mapping[str, ProgramOption]) -> InvocationDraft:
    fill(draft, options)
    if draft.row.refine is not None:
        draft.row.refine(draft)
    _settle(draft)
    return draft


def _settle(draft: InvocationDraft) -> None:
    alone = len(draft.words) == 2 and not draft.parsed.unknown
    if (
        "info" in draft.parsed.marks
        and alone
        and not (draft.doubts or draft.runs or draft.accesses)
    ):
        draft.effect = "none"
    draft.hosts += hosts_in(draft.words[1:], bare=draft.row.hosts)


def _without_quiet(options: Sequence[str]) -> list[str]:
    return [word for word in options if word not in _GIT_QUIET]


def _bounded(found: Invocation) -> Invocation:
    if len(found.accesses) + len(found.hosts) <= _MOST:
        return found
    kinds = dict.fromkeys(one.kind for one in found.accesses[_MOST:])
    return replace(
        found,
        effect="runs",
        accesses=(*found.accesses[:_MOST], *(FileAccess(HOLE, kind) for kind in kinds)),
        hosts=found.hosts[:_MOST],
        doubts=(*found.doubts, f"more than {_MOST} files"),
    )
