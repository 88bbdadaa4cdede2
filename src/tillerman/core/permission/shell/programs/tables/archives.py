"""Program table: programs that pack and unpack archives (tar, zip, 7z, cpio, ar)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Literal

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, is_open
from tillerman.core.permission.shell.programs.mentions import below
from tillerman.core.permission.shell.programs.options import (
    Parsed,
    ProgramOption,
    grammar,
    parse,
    read_option,
)
from tillerman.core.permission.shell.programs.roles import fill, response_file
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_TAR = (
    "-tdGnSkUWmpsMBijJzZalRvwo -h|--dereference:follows -A|--catenate|--concatenate:packs "
    "-C|--directory=text -c|--create:packs --delete:packs --diff --compare -r|--append:packs "
    "--test-label --list -u|--update:packs -x|--extract|--get:unpacks "
    "-g|--listed-incremental=write -f|--file=text "
    "-b|--blocking-factor=text -T|--files-from=list:listed -X|--exclude-from=read "
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
    "--verify -O|--to-stdout:stdout --keep-old-files --skip-old-files --keep-newer-files "
    "--overwrite --overwrite-dir --no-overwrite-dir --unlink-first --recursive-unlink "
    "--keep-directory-symlink --touch --preserve-permissions --same-permissions --same-owner "
    "--no-same-owner --no-same-permissions --numeric-owner --hard-dereference "
    "--wildcards --no-wildcards --anchored --no-anchored --ignore-case --no-recursion --recursion "
    "--null --exclude-vcs --exclude-vcs-ignores --exclude-caches --exclude-caches-all "
    "--exclude-backups --one-file-system --full-time --block-number --interactive --confirmation "
    "--show-defaults --sparse --seek --no-seek --posix --acls --no-acls --selinux --no-selinux "
    "--xattrs --no-xattrs --force-local:local --ignore-zeros --ignore-failed-read --utc"
)


_TEST_COMMAND = re.compile("-[^-]*TT")  # zip: the command that tests the archive
_FAR = re.compile(r"[^/:]+:")  # a file on another host
_ZIP_VALUES = re.compile("-[^-]*(lf|tt|ds|UN)")  # zip: takes the next word, unlike its last letter
_ZIP_LISTS = re.compile("-[^-]*[xiR]|--(ex|in|rec)")  # zip: takes any number of words
_RAR_MOVES = re.compile("-d[frw]|-sdel")


def _tar(draft: InvocationDraft) -> None:
    """`tar xCf DIR FILE` takes values in the order of its letters; -C applies to what follows."""
    words = _dashed(draft.words[1:])
    if words != list(draft.words[1:]):
        draft.parsed = parse(words, grammar(_TAR))
        fill(draft, grammar(_TAR))
    marks = draft.parsed.marks
    folder = _tar_values(draft)
    if "packs" in marks:
        _tar_packs(draft, words)
    elif folder or "unpacks" in marks:
        if "unpacks" not in marks or "stdout" in marks:
            draft.access(folder, "read")
        else:
            _unpacks(draft, folder)


def _tar_values(draft: InvocationDraft) -> str:
    """Records the values of its options; returns the last directory it changes to."""
    folder = ""
    for option, value in draft.parsed.values:
        if option.name == "--file":
            draft.access(value, "write" if "packs" in draft.parsed.marks else "read")
            if "local" not in draft.parsed.marks:
                _far(draft, value)
        elif option.name == "--directory":
            folder = below(folder, value)
        elif option.name == "--checkpoint-action" and value.startswith("exec="):
            draft.script(value.removeprefix("exec=").replace(HOLE, "$_"))
    return folder


def _tar_packs(draft: InvocationDraft, words: Sequence[str]) -> None:
    kind: Literal["read", "remove"] = "remove" if "remove" in draft.parsed.marks else "read"
    for path in _members(words):
        draft.access(path, kind, recursive=True)
    if "listed" in draft.parsed.marks:
        draft.access(HOLE, kind)
    draft.at_least("writes")


def _far(draft: InvocationDraft, archive: str) -> None:
    """An archive on another host is accessed by rsh or ssh."""
    if _FAR.match(archive):
        draft.hosts.append(archive.partition(":")[0].rpartition("@")[2].lower())
        draft.at_least("runs")


def _unpacks(draft: InvocationDraft, folder: str = "") -> None:
    """Records unpacking: the archive, not the line, determines which files it writes there."""
    draft.some_below(folder or ".")
    draft.at_least("runs")


def _dashed(words: Sequence[str]) -> list[str]:
    odd = bool(words) and not words[0].isascii() and not is_open(words[0])
    if not words or words[0].startswith("-") or odd:
        return list(words)
    if is_open(words[0]):
        return [f"-{words[0]}", *words[1:]]
    options = grammar(_TAR)
    rest = list(words[1:])
    found: list[str] = []
    for letter in words[0]:
        option = options.get(f"-{letter}", ProgramOption(""))
        found += [f"-{letter}", *([rest.pop(0)] if option.takes == "value" and rest else [])]
    return [*found, *rest]


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


def _zip(draft: InvocationDraft) -> None:
    operands = _zip_operands(draft)
    if any(word.startswith("-") and "@" in word for word in draft.words[1:]):
        _packs_listed(draft)
        if "moves" in draft.parsed.marks:
            draft.access(HOLE, "remove")
    for option, value in draft.parsed.values:
        if option.name in ("--output-file", "--out"):
            draft.access(_zip_name(value), "write")
    # words of a list before the archive look like the archive
    listed = any(map(_ZIP_LISTS.match, draft.words[1:]))
    for path in operands if listed else operands[:1]:
        draft.access(_zip_name(path), "write")
        if "adjusts" in draft.parsed.marks:
            draft.access(path, "write")
        if "tests" in draft.parsed.marks:  # a failed test leaves the archive under a temporary name
            draft.access(posixpath.dirname(path) or ".", "write", recursive=True)
    for path in operands if listed else operands[1:]:
        draft.access(path, "read", recursive=True)
        if "moves" in draft.parsed.marks:
            draft.access(path, "remove", recursive=True)
    if draft.parsed.unknown:
        draft.doubt(f"an unknown option of zip: {draft.parsed.unknown[0]}")


def _zip_name(path: str) -> str:
    return path if "." in posixpath.basename(path) else f"{path}.zip"


def _zip_operands(draft: InvocationDraft) -> list[str]:
    """The archive and its members, without the values of options of two letters."""
    operands = list(draft.parsed.operands)
    for at, word in enumerate(draft.words[1:], 1):
        following = draft.words[at + 1] if at + 1 < len(draft.words) else ""
        if _TEST_COMMAND.match(word):
            attached = word.partition("TT")[2]
            if not attached and following in operands:
                operands.remove(following)
            draft.script((attached or following).replace(HOLE, "$_"))
            draft.doubt("-TT of zip can run any program")
        elif match := _ZIP_VALUES.match(word):
            attached = word[match.end() :]
            if not attached and following in operands:
                operands.remove(following)
            if match[1] == "lf":
                draft.access(attached or following, "write")
                draft.access(f"{attached or following}.log", "write")
    return operands


def _seven_zip(draft: InvocationDraft) -> None:
    """Commands and operands of 7z and rar; their options are single words."""
    options, operands = _without_options(draft.words[1:])
    command, archive, members = "".join(operands[:1]), "".join(operands[1:2]), operands[2:]
    moves = any(map(_RAR_MOVES.match, options)) or (command in ("m", "mf"))
    draft.access(archive, "read")
    for word in options:
        if word.startswith(("-i@", "-ir@", "-x@")):
            members.append(word[word.index("@") :])
        elif word.startswith("-u") and "!" in word:  # updates another archive
            draft.access(word.partition("!")[2], "write")
        elif word.startswith("-spf"):
            draft.doubt(f"{draft.program} may use absolute paths of the archive")
    if command not in _ONLY_READS:
        endings = ("", *(f".{name}" for name in ("7z", "zip", "tar", "rar", "xz", "exe")))
        for ending in endings if archive else ():
            draft.access(archive + ending, "write")
            if any(word.startswith("-v") for word in options):  # volumes: a.7z.001, a.7z.002
                draft.access(f"{archive}{ending}.{ANY}", "write")
    if command[:1] in ("x", "e") or command not in _PACKS | _ONLY_READS:
        folders = [word[2:].removeprefix("p") for word in options if word.startswith("-o")]
        _unpacks(draft, next(filter(None, folders), ""))
    lists = [word[1:] for word in members if word.startswith("@")]
    for path in lists:
        draft.access(path, "read")
    for path in [HOLE] * bool(lists) + [word for word in members if word[:1] != "@"]:
        draft.access(path, "mention", recursive=True)
        if moves:
            draft.access(path, "remove", recursive=True)


_PACKS = frozenset({"a", "u", "d", "rn", "m", "mf", "f", "k", "c", "cf", "cw", "s", "rr"})
_ONLY_READS = frozenset({"l", "t", "h", "i", "b", "v", "lt", "lb", "vt", "vb", "p", "pb"})


def _without_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options up to `--`, and the other words."""
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word.startswith("-")]
    operands = [word for word in words[:end] if not word.startswith("-")]
    return options, [*operands, *words[end + 1 :]]


def _unar(draft: InvocationDraft) -> None:
    _unpacks(draft, draft.parsed.value("--output-directory") or "")


def _cpio(draft: InvocationDraft) -> None:
    marks, unclear = draft.parsed.marks, bool(draft.parsed.unknown or draft.parsed.open)
    for option, value in draft.parsed.values:
        if option.name in ("--file", "-I", "-O"):
            draft.access(value, "write" if unclear or "packs" in marks else "read")
            _far(draft, value)
    if "passes" in marks:
        _unpacks(draft, (draft.parsed.operands or [""])[-1])
    elif unclear or ("unpacks" in marks and not {"lists", "stdout"} & marks):
        _unpacks(draft)
        if "relative" not in marks:
            draft.doubt("the archive may contain absolute paths")
    if unclear or {"packs", "passes"} & marks:
        _packs_listed(draft)


def _pax(draft: InvocationDraft) -> None:
    """-r unpacks, -w packs, both copy to the last operand; without them it lists."""
    marks, unclear = draft.parsed.marks, bool(draft.parsed.unknown or draft.parsed.open)
    archive = draft.parsed.value("-f") or ""
    draft.access(archive, "write" if unclear or "packs" in marks else "read")
    _far(draft, archive)
    if "unpacks" in marks and "packs" in marks:
        _unpacks(draft, (draft.parsed.operands or [""])[-1])
    elif unclear or "unpacks" in marks:
        _unpacks(draft)
        draft.doubt("the archive may contain absolute paths")
    if unclear or ("packs" in marks and not draft.parsed.operands[int("unpacks" in marks) :]):
        _packs_listed(draft)


def _packs_listed(draft: InvocationDraft) -> None:
    """Standard input lists the files to pack."""
    given = draft.stdin.text if draft.stdin.certain else None
    for path in [HOLE] if given is None else given.splitlines():
        draft.access(path, "read", recursive=True)


def _ar(draft: InvocationDraft) -> None:
    """The first word is its key, with or without a dash; `a`, `b` and `i` name a member first."""
    letters, operands = "", list[str]()
    values = {value for option, value in draft.parsed.values}
    for at, word in enumerate(draft.words[1:]):
        if not word.startswith("--") and (at == 0 or word.startswith("-")):
            letters += word
        elif not word.startswith(("-", "@")) and word not in values:
            operands.append(word)
    response_file(draft)
    if is_open(letters) or "M" in letters:
        draft.doubt("ar reads commands that are not analyzed")
    if is_open(letters) or set("xo") & set(letters):
        _unpacks(draft, draft.parsed.value("--output") or "")
    before = len(set("abi") & set(letters)) + ("N" in letters)
    for path in operands[: before + 1]:
        draft.access(path, "write" if set("dmqrs") & set(letters) else "read")
    for path in operands[before + 1 :]:
        draft.access(path, "mention", recursive=True)


def _jar(draft: InvocationDraft) -> None:
    """The letters of the first word tell the order of archive, manifest and main class."""
    letters = draft.words[1] if len(draft.words) > 1 else ""
    letters = "" if letters.startswith("--") else letters
    if is_open(letters) or "x" in letters or "--extract" in draft.words:
        _unpacks(draft, draft.parsed.value("-C") or "")
    operands = [word for word in draft.words[2:] if not word.startswith("-")]
    for path in operands[: 1 + len(set("fme") & set(letters))] if set("cui") & set(letters) else ():
        draft.access(path, "write")
    for path in operands:
        draft.access(path, "mention", recursive=True)
    for option, value in draft.parsed.values:
        if option.name == "--file":
            draft.access(value, "write")
            draft.access(value, "read")


def _unzip(draft: InvocationDraft) -> None:
    marks, unknown = draft.parsed.marks, draft.parsed.unknown
    if unknown:  # a second dash among its letters takes back the first
        draft.doubt(f"an unknown option of unzip: {unknown[0]}")
    if "touches" in marks or unknown:
        for path in draft.parsed.operands[:1]:
            draft.access(path, "write")
            draft.access(f"{path}.zip", "write")
    if not {"looks", "info"} & marks or unknown:
        _unpacks(draft, draft.parsed.value("-d") or "")


ROWS = (
    Row("tar|gtar|bsdtar", "reads", "", _TAR, refine=_tar,
        samples=("tar tf a.tar", "tar -tvf a.tar")),
    Row("zip", "writes", "",
        "-rfudq0123456789jlLovwXzegFcDS$@hkCV -A|--adjust-sfx:adjusts -J|--junk-sfx:adjusts "
        "-y|--symlinks:keeps "
        "-T|--test:tests -m|--move:moves -x=text -i=text -R -n=text -t=text "
        "-b|--temp-path=write -P=text -s=text --unzip-command=program "
        "-O|--output-file=write --out=write "
        "--recurse-paths --quiet --junk-paths --exclude=text --include=text "
        "--update --freshen --logfile-path=write",
        follows_links=True, refine=_zip),
    Row("unzip", "reads", "read text*",
        "-fuvnojUCXKMqaALVbBDGNSWs$hH -l:looks -p:looks -t:looks -z:looks -Z:looks -c:looks "
        "-T:touches -d=text -P=text -x=text -O=text -I=text", refine=_unzip,
        samples=("unzip -l a.zip",)),
    Row("zipinfo", "reads", "read text*", "-12smlvhtTzCMZ -x=text",
        samples=("zipinfo -1 a.zip", "zipinfo a.zip")),
    Row("lsar", "runs", "mention*"),
    Row("7z|7za|7zr|7zz|rar|unrar|p7zip", "runs", follows_links=True, own=True,
        refine=_seven_zip),
    Row("unar", "runs", "mention text*",
        "-fsDqh -o|-output-directory|--output-directory=text -p=text -e=text -k=text",
        refine=_unar),
    Row("cpio", "runs", "mention/*",
        "-dmuvaBcsVn0fblkS -A|--append:packs -o|--create:packs -L|--dereference:follows "
        "-t|--list:lists -i|-r|--extract:unpacks -p|--pass-through:passes -F|--file=text -O=text "
        "-I=text -D|--directory=dir -H|--format=text -E|--pattern-file=read -C|--io-size=text "
        "-R|--owner=text -M|--message=text -W|--warning=text --block-size=text --to-stdout:stdout "
        "--no-absolute-filenames:relative --absolute-filenames --quiet --rsh-command=program "
        "--make-directories --unconditional --preserve-modification-time --null --verbose --dot "
        "--reproducible --sparse --link --numeric-uid-gid --nonmatching --no-preserve-owner "
        "--only-verify-crc --force-local --reset-access-time --renumber-inodes --ignore-devno "
        "--swap --swap-bytes --swap-halfwords --rename", refine=_cpio),
    Row("pax", "runs", "mention/*",
        "-0acdDhHiklLnOPtuvXYZz -r:unpacks -w:packs -f=text -b=text -o=text -p=text -s=text "
        "-x=text -B=text -E=text -G=text -T=text -U=text -M=text", refine=_pax),
    Row("ar", "runs", options="--output=text --plugin=code --target=text --record-libdeps=text "
        "--thin", follows_links=True, refine=_ar),
    Row("jar", "runs", options="-f|--file=text -C=text -m|--manifest=read -e|--main-class=text",
        follows_links=True, refine=_jar),
)  # fmt: skip
