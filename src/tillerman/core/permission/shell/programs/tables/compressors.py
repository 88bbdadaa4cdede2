"""Program table: programs that replace a file by its compressed form, or the reverse (gzip, xz)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from tillerman.core.permission.shell.parsed_script import HOLE
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_PACKED = {  # endings of the files that they write
    "gzip": (".gz", ".z", "-z", ".Z"), "compress": (".Z", ".gz", ".z", "-z"),
    "pigz": (".gz", ".zz", ".zip"), "bzip2": (".bz2",), "lzma": (".lzma", ".xz"),
    "xz": (".xz", ".lzma"), "zstd": (".zst", ".gz", ".xz", ".lzma", ".lz4"), "lz4": (".lz4",),
}  # fmt: skip
# Endings that they remove, and what they put in their place; each program knows some of them.
_UNPACKED = {
    **dict.fromkeys((".gz", "-gz", "_gz", ".z", "-z", "_z", ".zz", ".zip"), ""),
    **dict.fromkeys((".bz2", ".bz", ".xz", ".lzma", ".lz", ".zst", ".lz4"), ""),
    **dict.fromkeys((".taz", ".tgz", ".tbz", ".tbz2", ".tz2", ".txz", ".tlz", ".tzst"), ".tar"),
    ".tlz4": ".tar",
}  # fmt: skip
_ALIASES = {
    "gunzip": "gzip", "zcat": "gzip", "unpigz": "pigz", "bunzip2": "bzip2", "bzcat": "bzip2",
    "unxz": "xz", "xzcat": "xz", "unlzma": "lzma", "lzcat": "lzma", "unzstd": "zstd",
    "zstdcat": "zstd", "zstdmt": "zstd", "unlz4": "lz4", "lz4cat": "lz4", "lz4c": "lz4",
    "uncompress": "compress",
}  # fmt: skip
_MODES = frozenset({"packs", "unpacks", "tests"})


def _compressor(draft: InvocationDraft) -> None:
    """Records what appears in place of each file, unless the program only prints or tests."""
    marks, mode = draft.parsed.marks, _mode(draft)
    if not _is_unclear(draft) and "deletes" not in marks:
        prints = {"stdout", "info"} & marks or draft.program.endswith("cat")
        if prints or mode == "tests":
            return
    draft.at_least("writes")
    recursive = "recursive" in marks
    for path in draft.parsed.operands:
        draft.access(path, "remove", recursive=recursive)
        if recursive:
            draft.access(path, "write", recursive=True)
        for written in dict.fromkeys(_written(draft, path, mode)):
            draft.access(written, "write")
        if mode != "packs":  # `gunzip a` unpacks a.gz if there is no file a
            for ending in _endings(draft):
                draft.access(path + ending, "remove")
    if "listed" in marks:  # a file names the others
        draft.access(HOLE, "write")
        draft.access(HOLE, "remove")


def _is_unclear(draft: InvocationDraft) -> bool:
    return bool(draft.parsed.unknown or draft.parsed.open)


def _mode(draft: InvocationDraft) -> str:
    """What the options agree on; without any, what the program's name says; "" is unknown."""
    given = {mark for option in draft.parsed.given for mark in option.marks if mark in _MODES}
    if len(given) == 1 and not _is_unclear(draft):
        return given.pop()
    name = draft.program
    if given or _is_unclear(draft) or name in ("lz4", "lz4c"):  # by the ending
        return ""
    return "unpacks" if name in _ALIASES and name != "zstdmt" else "packs"


def _endings(draft: InvocationDraft) -> list[str]:
    """Endings of the files that the program writes, those of options included."""
    named = [value for option, value in draft.parsed.values if option.name == "--suffix"]
    return [*_PACKED[_ALIASES.get(draft.program, draft.program)], *named]


def _written(draft: InvocationDraft, path: str, mode: str) -> Iterator[str]:
    endings = _endings(draft)
    if mode != "unpacks":
        yield from (path + ending for ending in endings)
    if mode == "packs":
        return
    if "named" in draft.parsed.marks:  # the file contains the name of the one that it becomes
        yield posixpath.join(posixpath.dirname(path), HOLE)
    yield path
    yield posixpath.splitext(path)[0]
    yield f"{path}.out"  # bzip2
    lower = path.lower()
    for ending, instead in (_UNPACKED | {one.lower(): "" for one in endings}).items():
        if ending and lower.endswith(ending):
            yield path[: -len(ending)] + instead


ROWS = (
    Row("gzip|gunzip|zcat|compress|uncompress", "reads", "read*",
        "-123456789fkqvLhVa -b=text -n|--no-name -N|--name:named -c|--stdout|--to-stdout:stdout "
        "-l|--list:tests -t|--test:tests -d|--decompress|--uncompress:unpacks "
        "-r|--recursive:recursive -S|--suffix=text --force --keep --quiet --silent --verbose "
        "--fast --best --rsyncable --synchronous --license --ascii",
        refine=_compressor, samples=("gzip -c a.txt",)),
    Row("pigz|unpigz", "reads", "read*",
        "-0123456789FhHiKmMLnqRTvYVzfk -N|--name:named -c|--stdout|--to-stdout:stdout "
        "-l|--list:tests -t|--test:tests -d|--decompress|--uncompress:unpacks "
        "-r|--recursive:recursive -S|--suffix=text -A|--alias=text -b|--blocksize=text "
        "-C|--comment=text -I|--iterations=text -J|--maxsplits=text -p|--processes=text "
        "--force --keep --zlib --zip --quiet --silent --verbose --fast --best --independent "
        "--no-name --no-time --time --rsyncable --synchronous --huffman --rle",
        refine=_compressor, samples=("pigz -c a.txt",)),
    Row("bzip2|bunzip2|bzcat", "reads", "read*",
        "-123456789fkqsvLhV -c|--stdout:stdout -t|--test:tests -d|--decompress:unpacks "
        "-z|--compress:packs --force --keep --quiet --verbose --license --small --fast --best "
        "--repetitive-fast --repetitive-best --exponential", refine=_compressor,
        samples=("bzip2 -c a.txt",)),
    Row("xz|unxz|xzcat|lzma|unlzma|lzcat", "reads", "read*",
        "-0123456789efkqQvhHV -c|--stdout|--to-stdout:stdout -t|--test:tests -l|--list:tests "
        "-d|--decompress|--uncompress:unpacks -z|--compress:packs -S|--suffix=text "
        "-F|--format=text -C|--check=text -T|--threads=text -M|--memlimit|--memory=text "
        "--files?=list:listed --files0?=list:listed --force --keep --extreme --fast --best "
        "--single-stream --no-sparse --ignore-check --block-size=text --block-list=text "
        "--flush-timeout=text --memlimit-compress=text --memlimit-decompress=text "
        "--memlimit-mt-decompress=text --no-adjust --lzma1?=text --lzma2?=text --x86?=text "
        "--arm?=text --armthumb?=text --arm64?=text --powerpc?=text --ia64?=text --sparc?=text "
        "--delta?=text --quiet --verbose --no-warn --robot --info-memory --long-help",
        refine=_compressor, samples=("xz -kc a.txt",)),
    Row("zstd|unzstd|zstdcat|zstdmt", "reads", "read*",
        "-0123456789fkqvChHV -c|--stdout:stdout -t|--test:tests -l|--list:tests "
        "-d|--decompress|--uncompress:unpacks -z|--compress:packs -r:recursive -o=write -D=read "
        "-T?=text -M?=text -B?=text -i?=text --rm:deletes --force --keep --quiet --verbose "
        "--output-dir-flat=write/ --output-dir-mirror=write/ --filelist=list:listed "
        "--trace=write --patch-from=read --ultra --adapt?=text --long?=text --fast?=text "
        "--format=text --threads=text --memory=text --memlimit=text --size-hint=text "
        "--stream-size=text --target-compressed-block-size=text --auto-threads=text "
        "--single-thread --rsyncable --exclude-compressed --no-dictID --check --no-check "
        "--sparse --no-sparse --progress --no-progress --asyncio --no-asyncio --pass-through "
        "--no-pass-through --compress-literals --no-compress-literals --row-match-finder "
        "--no-row-match-finder --content-size --no-content-size",
        refine=_compressor, samples=("zstd -c a.txt",)),
    Row("lz4|unlz4|lz4cat|lz4c", "reads", "read write*",
        "-0123456789fkqvlhHV -c|--stdout|--to-stdout:stdout -t|--test:tests --list:tests "
        "-d|--decompress|--uncompress:unpacks -z|--compress:packs -r:recursive -m|--multiple:many "
        "-D=read -B?=text --rm:deletes --force --keep --quiet --verbose --no-frame-crc --frame-crc "
        "--content-size --no-content-size --sparse --no-sparse --favor-decSpeed --fast?=text "
        "--best", when=(("many", "read*"), ("recursive", "read*")), refine=_compressor,
        samples=("lz4 -c a.txt",)),
)  # fmt: skip
