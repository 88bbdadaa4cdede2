"""Program table: programs that pack, unpack and compress (tar, gzip, zip, cpio)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from tillerman.core.permission.shell.parsed_script import HOLE, is_open
from tillerman.core.permission.shell.programs.mentions import below
from tillerman.core.permission.shell.programs.options import (
    Parsed,
    ProgramOption,
    grammar,
    parse,
    read_option,
)
from tillerman.core.permission.shell.programs.roles import fill
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_TAR = (
    "-AcrutdxGnSkUWOmpsMBijJzZalRvwo -h|--dereference:follows --catenate:make "
    "--concatenate:make -C|--directory=text "
    "--create:make --delete:make --diff --compare --append:make --test-label --list:list "
    "--update:make --extract:extract --get:extract -g|--listed-incremental=write -f|--file=text "
    "-b|--blocking-factor=text -T|--files-from=list -X|--exclude-from=read "
    "-K|--starting-file=text -N|--newer|--after-date=text -L|--tape-length=text -V|--label=text "
    "-H|--format=text -F|--info-script|--new-volume-script=shell:doubt "
    "-I|--use-compress-program=shell:doubt --to-command=shell:doubt --checkpoint-action=program "
    "--rmt-command=program --rsh-command=program -P|--absolute-names:doubt "
    "--transform|--xform=code --remove-files:remove --one-top-level?=write/ --index-file=write "
    "--volno-file=write --add-file=read/ --exclude=text --exclude-ignore=text "
    "--exclude-ignore-recursive=text --exclude-tag=text --exclude-tag-all=text "
    "--exclude-tag-under=text --owner=text --group=text --owner-map=read --group-map=read "
    "--mode=text --mtime=text --sort=text --strip-components=text --suffix=text --backup?=text "
    "--checkpoint?=text --totals?=text --warning=text --quoting-style=text --quote-chars=text "
    "--no-quote-chars=text --newer-mtime=text --pax-option=text --record-size=text --level=text "
    "--hole-detection=text --sparse-version=text --occurrence?=text --atime-preserve?=text "
    "--xattrs-exclude=text --xattrs-include=text --gzip --gunzip --ungzip --bzip2 --xz --lzip "
    "--lzma --lzop --zstd --compress --uncompress --auto-compress --no-auto-compress --verbose "
    "--verify --to-stdout:stdout --keep-old-files --skip-old-files --keep-newer-files --overwrite "
    "--overwrite-dir --no-overwrite-dir --unlink-first --recursive-unlink "
    "--keep-directory-symlink --touch --preserve-permissions --same-permissions --same-owner "
    "--no-same-owner --no-same-permissions --numeric-owner --hard-dereference "
    "--wildcards --no-wildcards --anchored --no-anchored --ignore-case --no-recursion --recursion "
    "--null --exclude-vcs --exclude-vcs-ignores --exclude-caches --exclude-caches-all "
    "--exclude-backups --one-file-system --full-time --block-number --interactive --confirmation "
    "--show-defaults --sparse --seek --no-seek --posix --acls --no-acls --selinux --no-selinux "
    "--xattrs --no-xattrs --force-local:local --ignore-zeros --ignore-failed-read --utc"
)


_TEST_COMMAND = re.compile("-[^-]*TT")  # zip: the command that tests the archive
_FAR = re.compile(r"[^/:]+:")  # tar: a file on another host, accessed by rsh or ssh
_ENDINGS = {
    "gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst", "compress": ".Z", "lzma": ".lzma",
    "lz4": ".lz4",
}  # fmt: skip


def _tar(draft: InvocationDraft) -> None:
    """`tar xCf DIR FILE` takes values in the order of its letters; -C applies to what follows."""
    words = _dashed(draft.words[1:])
    parsed = parse(words, grammar(_TAR))
    if words != list(draft.words[1:]):
        draft.parsed = parsed
        fill(draft, grammar(_TAR))
    makes = "make" in parsed.marks or _has(words, "cruA")
    extracts = "extract" in parsed.marks or _has(words, "x")
    lists = not makes and not extracts
    folder = ""
    for option, value in parsed.values:
        if option.name == "--file":
            draft.access(value, "write" if makes else "read")
            if _FAR.match(value) and "local" not in parsed.marks:
                draft.hosts.append(value.partition(":")[0].rpartition("@")[2].lower())
                draft.at_least("runs")
        elif option.name == "--directory":
            folder = below(folder, value)
        elif option.name == "--checkpoint-action" and value.startswith("exec="):
            draft.script(value.removeprefix("exec=").replace(HOLE, "$_"))
    if makes:
        for path in _members(words):
            draft.access(path, "remove" if "remove" in parsed.marks else "read", recursive=True)
    elif folder or extracts:
        to_stdout = "stdout" in parsed.marks or _has(words, "O")
        if lists or to_stdout:
            draft.access(folder, "read")
        else:
            _unpacks(draft, folder)
    if makes:
        draft.at_least("writes")


def _unpacks(draft: InvocationDraft, folder: str = "") -> None:
    """Records unpacking: the archive, not the line, determines which files it writes there."""
    draft.some_below(folder or ".")
    draft.at_least("runs")


def _dashed(words: Sequence[str]) -> list[str]:
    if not words or words[0].startswith("-") or not words[0].isascii():
        return list(words)
    options = grammar(_TAR)
    rest = list(words[1:])
    found: list[str] = []
    for letter in words[0]:
        option = options.get(f"-{letter}", ProgramOption(""))
        found += [f"-{letter}", *([rest.pop(0)] if option.takes == "value" and rest else [])]
    return [*found, *rest]


def _has(words: Sequence[str], letters: str) -> bool:
    """Whether one of these letters is among the short options."""
    options = grammar(_TAR)
    for word in words:
        if word.startswith("-") and not word.startswith("--"):
            for letter in word[1:]:
                if letter in letters:
                    return True
                if options.get(f"-{letter}", ProgramOption("")).takes == "value":
                    break
    return False


def _members(words: Sequence[str]) -> list[str]:
    """The files to pack, each relative to the last -C before it."""
    options = grammar(_TAR)
    folder, at = "", 0
    found: list[str] = []
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            return [*found, *(below(folder, one) for one in words[at:])]
        if word.startswith("-") and word != "-":
            one = Parsed()
            at += read_option(word, words[at : at + 1], options, "getopt", one)
            folder = below(folder, one.value("--directory") or "")
        else:
            found.append(below(folder, word))
    return found


def _gzip(draft: InvocationDraft) -> None:
    """Replaces a file by another, unless it only prints or lists."""
    if {"looks", "info"} & draft.parsed.marks:
        return
    draft.at_least("writes")
    if any(option.role == "list" for option, _ in draft.parsed.values):
        draft.access(HOLE, "remove")
    for path in draft.parsed.operands:
        draft.access(path, "remove", recursive="recursive" in draft.parsed.marks)
        stem, ending = posixpath.splitext(path)
        if ending in (".tgz", ".tbz", ".tbz2", ".txz", ".tzst"):
            draft.access(f"{stem}.tar", "write")
        elif ending in _ENDINGS.values():
            draft.access(stem, "write")
        else:
            draft.access(path + _ENDINGS.get(draft.program.removeprefix("un"), ".gz"), "write")


def _zip(draft: InvocationDraft) -> None:
    operands = list(draft.parsed.operands)
    for at, word in enumerate(draft.words[1:], 1):
        if _TEST_COMMAND.match(word):
            attached = word.partition("TT")[2]
            value = attached or " ".join(draft.words[at + 1 : at + 2])
            if not attached and value in operands:
                operands.remove(value)
            draft.script(value.replace(HOLE, "$_"))
            draft.doubt("-TT of zip can run any program")
    if any(word.startswith("-") and "@" in word for word in draft.words[1:]):
        _packs_listed(draft)
    for path in operands[:1]:
        draft.access(path if posixpath.splitext(path)[1] else f"{path}.zip", "write")
        if "tests" in draft.parsed.marks:  # a failed test leaves the archive under a temporary name
            draft.access(posixpath.dirname(path) or ".", "write", recursive=True)
    for path in operands[1:]:
        draft.access(path, "read", recursive=True)
        if "moves" in draft.parsed.marks:
            draft.access(path, "remove", recursive=True)
    if draft.parsed.unknown:
        draft.doubt(f"an unknown option of zip: {draft.parsed.unknown[0]}")


def _seven_zip(draft: InvocationDraft) -> None:
    for word in draft.words[1:]:
        if word.startswith("-o"):
            _unpacks(draft, word[2:])
        elif word.startswith(("@", "-i@", "-ir@")):  # a list of files to pack
            draft.access(word.partition("@")[2], "read")
            draft.access(HOLE, "read")
    if draft.program in ("unar", "unrar") or _is_key(draft.words[1:2], "xe"):
        _unpacks(draft)


def _is_key(words: Sequence[str], letters: str) -> bool:
    """Whether the first word has one of these letters, or is unknown."""
    return any(is_open(word) or set(letters) & set(word) for word in words)


def _copies(draft: InvocationDraft) -> None:
    """cpio and pax, except where they only list or pack."""
    marks = draft.parsed.marks
    if {"reads", "passes"} & marks or draft.parsed.unknown or draft.parsed.open:
        folders = draft.parsed.operands if "passes" in marks else []
        _unpacks(draft, folders[-1] if folders else "")
    if draft.program == "cpio" and ({"packs", "passes"} & marks or draft.parsed.open):
        _packs_listed(draft)


def _packs_listed(draft: InvocationDraft) -> None:
    """Standard input lists the files to pack."""
    given = draft.stdin.text if draft.stdin.certain else None
    for path in [HOLE] if given is None else given.splitlines():
        draft.access(path, "read", recursive=True)


def _library(draft: InvocationDraft) -> None:
    """`ar x` and `jar x` unpack into the working directory."""
    if _is_key(draft.words[1:2], "x") or {"--extract"} & set(draft.words):
        _unpacks(draft, draft.parsed.value("--output") or "")


def _unzip(draft: InvocationDraft) -> None:
    if {"looks", "info"} & draft.parsed.marks:
        return
    _unpacks(draft, draft.parsed.value("-d") or "")


_GZIP = (
    "-123456789fknNqvLe -c|--stdout|--to-stdout:looks -l|--list:looks -t|--test:looks "
    "-d|--decompress -z|--compress -r|--recursive:recursive -S|--suffix=text -T|--threads=text "
    "--force --keep --no-name --name --quiet --verbose --fast --best --rsyncable --synchronous "
    "--small -s --extreme --files?=list --files0?=list -#"
)

ROWS = (
    Row("tar|gtar|bsdtar", "reads", "", _TAR, refine=_tar,
        samples=("tar tf a.tar", "tar -tvf a.tar")),
    Row("gzip|gunzip|bzip2|bunzip2|xz|unxz|lzma|unlzma|lz4|pigz|compress|uncompress", "reads",
        "read*", _GZIP, refine=_gzip, samples=("gzip -c a.txt", "xz -kc a.txt")),
    Row("zstd|unzstd", "writes", "read*",
        "-123456789dfkqvrl -c|--stdout:looks -t|--test:looks -o=write -D=read --rm --force --keep "
        "--decompress --quiet --verbose --output-dir-flat=write/ --output-dir-mirror=write/ "
        "--filelist=list --trace=write --ultra --long?=text --fast?=text -T=text -#", refine=_gzip),
    Row("zip", "writes", "",
        "-rfudq0123456789jlLovwXzegFAcDS$@h -y|--symlinks:keeps "
        "-T|--test:tests -m|--move:moves -x=text -i=text -n=text -t=text "
        "-b=write -P=text -s=text --unzip-command=program -O|--output-file=write --out=write "
        "--recurse-paths --quiet --junk-paths --exclude=text --include=text "
        "--update --freshen --logfile-path=write",
        follows_links=True, refine=_zip),
    Row("unzip", "reads", "read text*",
        "-fuvnojUCXKMqaALV -l:looks -p:looks -t:looks -z:looks -Z:looks -c:looks -d=text -P=text "
        "-x=text", refine=_unzip, samples=("unzip -l a.zip",)),
    Row("zipinfo", "reads", "read text*", "-12smlvhtTzCMZ -x=text",
        samples=("zipinfo -1 a.zip", "zipinfo a.zip")),
    Row("lsar", "runs", "mention*"),
    Row("7z|7za|7zr|7zz|rar|unar|unrar|p7zip", "runs", "text write mention/*",
        follows_links=True, refine=_seven_zip),
    Row("cpio|pax", "runs", "mention/*",
        "-tdmuvaBcsVn0w -o|--create:packs -L|--dereference:follows -i|-r|--extract:reads "
        "-p|--pass-through:passes "
        "-O|--file=write -F=write -I=read -D|--directory=dir -H|--format=text "
        "-E=read -C=text -R=text --to-stdout --quiet --rsh-command=program", refine=_copies),
    Row("ar|jar", "runs", "text write mention/*", "--output=text", follows_links=True,
        refine=_library),
)  # fmt: skip
