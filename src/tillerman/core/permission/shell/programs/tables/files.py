"""Program table: programs that create, change, move and remove files (cp, mv, rm, ln, chmod)."""

from __future__ import annotations

import posixpath

from tillerman.core.permission.shell.parsed_script import ANY, HOLE
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_CERTAINLY_DIRECTORIES = (".", "..", "/", "~")
_MAKES_LINKS = frozenset({"ln", "gln", "link"})
_MOVES = frozenset({"mv", "gmv"})


def _arrivals(draft: InvocationDraft) -> None:
    """Records targets: a file copied to a directory keeps its name; links may be made or copied."""
    parsed, marks = draft.parsed, draft.parsed.marks
    target = parsed.value("--target-directory")
    sources = parsed.operands if target is not None else parsed.operands[:-1]
    if target is None:
        if len(parsed.operands) < 2:
            return
        target = parsed.operands[-1]
    inside = "target" in marks or target in _CERTAINLY_DIRECTORIES or target.endswith("/")
    inside = inside and "plain" not in marks
    tree = "recursive" in marks or draft.program in _MAKES_LINKS | _MOVES | {"rsync"}
    if not inside:
        draft.access(target, "write", recursive=tree)
        _links(draft, sources, target)
    if "backup" in marks:
        draft.access(target.rstrip("/") + ANY, "write", recursive=True)
    if "plain" in marks:
        return
    for source in sources:
        base = posixpath.basename(source.rstrip("/"))
        if base in ("", ".", "..") or (draft.program == "rsync" and source.endswith("/")):
            draft.access(target, "write", recursive=tree)
            continue
        arrived = posixpath.join(target, source if "parents" in marks else base)
        draft.access(arrived, "write", recursive=tree)
        _links(draft, [source], arrived)
    if tree and draft.program not in _MAKES_LINKS and any(map(_holds_repository, sources)):
        draft.access(posixpath.join(target, ".git"), "write", recursive=True)


def _holds_repository(source: str) -> bool:
    return posixpath.normpath(source or "x") in (".", "..", "/")


def _links(draft: InvocationDraft, sources: list[str], name: str) -> None:
    """Records links that are created, copied or moved; targets are relative to the link."""
    marks = draft.parsed.marks
    copies = draft.program in _MOVES or {"recursive", "links"} & marks
    for source in sources:
        home, there = posixpath.dirname(name), posixpath.dirname(source.rstrip("/"))
        if "symbolic" in marks and "relative" not in marks:
            draft.links.append((_from(home, source), name))
        elif (
            draft.program in _MAKES_LINKS
            or {"symbolic", "hard"} & marks
            or (copies and posixpath.normpath(home or ".") == posixpath.normpath(there or "."))
        ):
            draft.links.append((source, name))
        elif copies:
            draft.links.append((HOLE, name))
    if {"symbolic", "hard"} & marks and draft.program in ("cp", "gcp"):
        for source in sources:  # writes to the copy go to the source
            draft.access(source, "write")


def _from(home: str, target: str) -> str:
    return target if target.startswith(("/", "~")) or not home else posixpath.join(home, target)


def _ln(draft: InvocationDraft) -> None:
    if len(draft.parsed.operands) == 1 and "target" not in draft.parsed.marks:
        source = draft.parsed.operands[0]
        name = posixpath.basename(source.rstrip("/"))
        draft.access(name, "write", recursive=True)
        draft.links.append((source, name))
    _arrivals(draft)
    for target, _ in draft.links:  # writes to the link go to its target
        draft.access(target, "write")


def _install(draft: InvocationDraft) -> None:
    if "directory" not in draft.parsed.marks:
        _arrivals(draft)


TEMPORARY = "/tmp"  # or the value of TMPDIR


def _mktemp(draft: InvocationDraft) -> None:
    parsed = draft.parsed
    if "dry" in parsed.marks:
        draft.accesses.clear()
        draft.effect = "none"
        return
    folders = [value for option, value in parsed.values if option.name in ("--tmpdir", "-p")]
    template = parsed.operands[0] if parsed.operands else "tmp.XXXXXXXXXX"
    template += parsed.value("--suffix") or ""
    if parsed.operands and not folders and "temporary" not in parsed.marks:
        draft.access(template, "write")
        return
    for folder in folders:
        draft.access(posixpath.join(folder, template), "write")
    if "temporary" in parsed.marks or not (folders and folders[-1]):
        draft.access(f"{TEMPORARY}/{template}", "write")


def _dd(draft: InvocationDraft) -> None:
    for word in draft.words[1:]:
        name, equals, value = word.partition("=")
        if equals and name in ("if", "of"):
            draft.access(value, "read" if name == "if" else "write")
        elif HOLE in name or not equals:
            draft.access(HOLE, "write")


_BACKUP = "-b:backup --backup?=text:backup -S|--suffix=text:backup"
_TARGET = "-t|--target-directory=write:target -T|--no-target-directory:plain"
_OWNERS = (
    "-cfhvHLP -R|--recursive:recursive --changes --silent --quiet --verbose --dereference "
    "--no-dereference --from=text --no-preserve-root --preserve-root --reference=read:given"
)

ROWS = (
    Row("mkdir", "writes", "write*", "-pvZ -m|--mode=text --parents --verbose --context?=text"),
    Row("rmdir", "writes", "remove*", "-pv --ignore-fail-on-non-empty --parents --verbose"),
    Row("touch", "writes", "write*",
        "-acfhm -d|--date=text --no-create --no-dereference -r|--reference=read -t=text "
        "--time=text"),
    Row("rm|grm", "writes", "remove*",
        "-fidIvx -r|-R|--recursive:recursive --force --interactive?=text --one-file-system "
        "--no-preserve-root --preserve-root?=text --dir --verbose"),
    Row("unlink", "writes", "remove*"),
    Row("shred|srm", "writes", "remove*",
        "-fuvxz -n|--iterations=text --random-source=read -s|--size=text --remove?=text --force "
        "--verbose --exact --zero -r:recursive"),
    Row("trash|trash-put|gio-trash|rmtrash", "writes", "remove/*", "-rfvid"),
    Row("mv|gmv", "writes", "remove/* text",
        f"-finuvZ {_BACKUP} {_TARGET} --force --interactive --no-clobber --strip-trailing-slashes "
        "--update?=text --verbose --context --exchange --no-copy --debug", refine=_arrivals,
        when=(("target", "remove/*"),)),
    Row("cp|gcp|ditto", "writes", "read* text",
        f"-fHinpuvxZ {_BACKUP} {_TARGET} -a|--archive:recursive,links -d:links -l|--link:hard "
        "-L|--dereference:follows -P|--no-dereference:links -R|-r|--recursive:recursive "
        "-s|--symbolic-link:symbolic --attributes-only --copy-contents --force --interactive "
        "--no-clobber --preserve?=text --no-preserve=text --parents:parents --reflink?=text "
        "--remove-destination --sparse=text --strip-trailing-slashes --update?=text --verbose "
        "--one-file-system --context?=text --debug --keep-directory-symlink", refine=_arrivals,
        when=(("target", "read*"),)),
    Row("install|ginstall", "writes", "read* text",
        f"-cCDpvZ {_BACKUP} {_TARGET} -d|--directory:directory -g|--group=text -m|--mode=text "
        "-o|--owner=text -s|--strip:runs --strip-program=program --compare --preserve-timestamps "
        "--verbose --preserve-context "
        "--context?=text --debug", when=(("directory", "write*"), ("target", "read*")),
        refine=_install),
    Row("ln|gln", "writes", "",
        f"-dfFiLnPv {_BACKUP} {_TARGET} -s|--symbolic:symbolic -r|--relative:relative --directory "
        "--force --interactive --logical --no-dereference --physical --verbose", refine=_ln),
    Row("link", "writes", "", refine=_ln),
    Row("tee|gtee", "writes", "write*",
        "-aip --append --ignore-interrupts --output-error?=text"),
    Row("sponge", "writes", "write*", "-a"),
    Row("truncate", "writes", "write*",
        "-co -r|--reference=read -s|--size=text --no-create --io-blocks"),
    Row("fallocate", "writes", "write*",
        "-cdinpzxv -l|--length=text -o|--offset=text --collapse-range --dig-holes --insert-range "
        "--keep-size --punch-hole --zero-range --posix --verbose"),
    Row("mkfifo|mknod", "writes", "write*", "-Z -m|--mode=text --context?=text"),
    Row("mktemp", "writes", "",
        "-dq -u|--dry-run:dry -t:temporary -p=text --tmpdir?=text --suffix=text --directory "
        "--quiet",
        refine=_mktemp),
    Row("dd", "writes", "", refine=_dd),
    Row("chmod|gchmod", "writes", "text write*",
        "-cfv -rwxXstugo:given -R|--recursive:recursive --changes --silent --quiet --verbose "
        "--no-preserve-root --preserve-root --reference=read:given"),
    Row("chown|chgrp|chcon", "writes", "text write*", _OWNERS),
    Row("setfacl", "writes", "write*",
        "-bknLPdv -R|--recursive:recursive -m|--modify=text -x|--remove=text -M|--modify-file=read "
        "-X|--remove-file=read --set=text --set-file=read --restore=read:runs --remove-all --test"),
    Row("chattr", "writes", "text write*", "-fV -R:recursive -v=text -p=text"),
    Row("rename|prename", "runs", "mention*"),
    Row("dos2unix|unix2dos", "writes", "write*", "-fkqs -n|--newfile -c|--convmode=text"),
)  # fmt: skip
