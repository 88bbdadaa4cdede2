"""Which of its words a well known program takes for files, to read or to write."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from itertools import pairwise

from bridle.core.permission import names
from bridle.core.permission.shell import git

_WRITE_ALL = frozenset({
    "rm", "rmdir", "unlink", "shred", "srm", "touch", "mkdir", "mkfifo", "mknod", "truncate",
    "tee", "ln", "mv", "rename", "sponge", "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz",
    "zstd", "dos2unix", "unix2dos", "nano", "trash", "trash-put",
})  # fmt: skip
_REMOVE = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "mv", "trash", "trash-put"})
_WRITE_BUT_FIRST = frozenset({"chmod", "chown", "chgrp", "setfacl", "chattr"})
_WRITE_LAST = frozenset({"cp", "install", "rsync", "scp", "ditto"})
_READ_ALL = frozenset({
    "cat", "tac", "nl", "head", "tail", "less", "bat", "wc", "sort", "uniq", "cut", "strings",
    "xxd", "od", "hexdump", "base64", "base32", "diff", "cmp", "file", "stat", "ls", "tree", "du",
    "cd", "pushd", "md5sum", "sha1sum", "sha256sum", "source", ".", "readlink", "realpath",
    "paste", "comm",
})  # fmt: skip
_READ_BUT_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "jq", "yq", "awk", "gawk"})
_OUTPUT = {
    "curl": (
        "-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar", "--trace",
        "--trace-ascii", "--stderr", "--libcurl", "--etag-save", "--hsts", "--alt-svc",
    ),
    "wget": (
        "-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file", "-a",
        "--append-output", "--save-cookies", "--warc-file", "--hsts-file", "--rejected-log",
    ),
    "rsync": (
        "--log-file", "--backup-dir", "--partial-dir", "--temp-dir", "-T", "--write-batch",
        "--only-write-batch",
    ),
    "csplit": ("-f", "--prefix"),
    "base64": ("-o", "--output"),
    "sort": ("-o", "--output"),
    "cp": ("-t", "--target-directory"),
    "mv": ("-t", "--target-directory"),
    "ln": ("-t", "--target-directory"),
    "install": ("-t", "--target-directory"),
    "patch": ("-o", "--output", "-i", "-d", "--directory"),
    "tar": ("-C", "--directory", "--one-top-level"),
    "unzip": ("-d",),
    "gcc": ("-o",),
    "openssl": ("-out",),
}  # fmt: skip
_IN_ROWS = frozenset({  # whose letters may stand in a row
    "curl", "wget", "sort", "cp", "mv", "ln", "install", "tar", "patch", "unzip", "rsync",
})  # fmt: skip
_SECOND = frozenset({"uniq", "xxd", "split"})  # is what they write
_TAR_TAKES = "fCbgTXKNLVFIH"
_SCRIPTS = {
    "sed": ("-e", "-f", "--expression", "--file"),
    "gsed": ("-e", "-f", "--expression", "--file"),
    "perl": ("-e", "-E", "-pe", "-ne", "-pie", "-i", "-pi"),
    "ruby": ("-e", "-pe", "-ne"),
}
_CHOOSE = ("-name", "-iname", "-path", "-regex", "-type", "-empty", "-size", "-mtime", "-newer")
_HERE = (".", "./")  # of which nobody takes all, if some are chosen


def writes_files(name: str) -> bool:
    """Whether it is for files that are written that one would run this program."""
    return name in _WRITE_ALL | _WRITE_BUT_FIRST | _WRITE_LAST or name in ("dd", "sed", "gsed")


def files_of(name: str, words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Those it reads, those it writes, and whether it takes the latter away."""
    operands, outputs = _operands(
        words, _OUTPUT.get(name, ()), _SCRIPTS.get(name, ()), rows=name in _IN_ROWS
    )
    reads: Sequence[str] = ()
    writes: Sequence[str] = outputs
    if name in _WRITE_ALL:
        writes = [*operands, *outputs]
        if name in ("ln", "mv"):
            writes = [*_with_protected(writes), *_arrivals(operands, outputs)]
    elif name in _WRITE_BUT_FIRST:
        writes = operands[1:]
    elif name in _WRITE_LAST:
        into = outputs or operands[-1:]
        reads = operands if outputs else operands[:-1]
        writes = [*_with_protected(into), *_arrivals(operands, outputs)]
    elif name in _SECOND:
        reads, writes = operands[:1], [*operands[1:], *outputs]
    elif name == "tar":
        writes = _with_protected([*outputs, *_tar_writes(words)])
    elif name == "unzip":
        writes = _with_protected(outputs)
    elif name in _READ_ALL:
        reads = operands
    elif name in _READ_BUT_FIRST:
        reads = operands[1:]
    elif name in _SCRIPTS:
        given = any(word.startswith(_SCRIPTS[name]) for word in words[1:])
        files = operands if given else operands[1:]
        reads, writes = ((), files) if _in_place(words) else (files, ())
    elif name == "dd":
        reads = [word[3:] for word in words if word.startswith("if=")]
        writes = [word[3:] for word in words if word.startswith("of=")]
    elif name in ("find", "gfind"):
        return (), _known(_found(words)), "-delete" in words
    elif name == "git":
        writes, removes = git.writes_of(words)
        return (), _known(_with_protected(writes)), removes
    return _known(reads), _known(writes), name in _REMOVE


def _operands(
    words: Sequence[str], outputs: Sequence[str], scripts: Sequence[str], *, rows: bool
) -> tuple[list[str], list[str]]:
    operands: list[str] = []
    found: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            operands += rest
        elif word in outputs or (rows and _awaits(word, outputs)):
            found += [value for value in [next(rest, "")] if value]
        elif word in scripts and word.endswith(("e", "E", "f", "expression", "file")):
            next(rest, None)
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        else:
            found += _attached(word, outputs, rows=rows)
    return operands, found


def _awaits(word: str, outputs: Sequence[str]) -> bool:
    """`--outp` and `-so`."""
    if word.startswith("--"):
        return len(word) > 2 and any(one.startswith(word) for one in outputs)
    letters = [one[1] for one in outputs if len(one) == 2]
    return word.startswith("-") and any(word.find(one) == len(word) - 1 for one in letters)


def _attached(word: str, outputs: Sequence[str], *, rows: bool) -> list[str]:
    """`--output=x` and `-ox`, `--outp=x` and `-sox`."""
    name, equals, value = word.partition("=")
    if equals and len(name) > 2 and any(one.startswith(name) for one in outputs):
        return [value]
    if rows and not word.startswith("--"):
        return [word.partition(one[1])[2] for one in outputs if len(one) == 2 and one[1] in word]
    short = [one for one in outputs if len(one) == 2 and word.startswith(one)]
    return [word[2:]] if short and not word.startswith("--") and len(word) > 2 else []


def _in_place(words: Sequence[str]) -> bool:
    flags = [word for word in words[1:] if word.startswith("-")]
    return any(
        word.startswith("--i") or (not word.startswith("--") and "i" in word) for word in flags
    )


def _with_protected(targets: Sequence[str]) -> list[str]:
    """A folder put in place of one that holds protected names puts such names there."""
    found = list(targets)
    for target in targets:
        last = names.plain(posixpath.basename(target.rstrip("/")))
        if names.is_protected([last], removed=True) and not names.is_protected([last]):
            found.append(posixpath.join(target, "workflows"))
    return found


def _arrivals(operands: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """What comes into a folder keeps its name."""
    folders = outputs or operands[-1:]
    came = operands if outputs else operands[:-1]
    into = [one for one in folders if outputs or one in (".", "..") or one.endswith("/")]
    bases = [base for one in came if (base := posixpath.basename(one.rstrip("/"))) not in _HERE]
    return _with_protected([posixpath.join(one, base) for one in into for base in bases if base])


def _tar_writes(words: Sequence[str]) -> list[str]:
    """The archive, where one is made, and folders named in the old way, `tar xCf folder file`."""
    first = words[1] if len(words) > 1 else ""
    letters = first.lstrip("-") if not first.startswith("--") else ""
    flags = "".join(word for word in words[2:] if word.startswith("-") and word[:2] != "--")
    makes = bool(set("cruA") & set(letters + flags)) or any(
        word.startswith(("--c", "--ap", "--up", "--cat")) for word in words[1:]
    )
    found: list[str] = []
    if not first.startswith("-"):
        values = iter(words[2:])
        for letter in letters:
            value = next(values, "") if letter in _TAR_TAKES else ""
            if letter == "C" or (letter == "f" and makes):
                found.append(value)
    for word, value in pairwise([*words[1:], ""]):
        name, equals, attached = word.partition("=")
        if makes and word.startswith("--fi") and "--file".startswith(name):
            found.append(attached if equals else value)
        elif makes and word.startswith("-") and not word.startswith("--") and "f" in word:
            found.append(word.partition("f")[2] or value)
    return found


def _found(words: Sequence[str]) -> list[str]:
    """What find takes away, and the lists that it writes."""
    starts: list[str] = []
    for word in words[1:]:
        if word in ("-H", "-L", "-P"):
            continue
        if word.startswith(("-", "(", "!")):
            break
        starts.append(word)
    lists = [value for word, value in pairwise(words) if word.startswith(("-fprint", "-fls"))]
    if "-delete" not in words:
        return lists
    chooses = any(word.startswith(_CHOOSE) for word in words)
    return [*(one for one in starts or ["."] if not (chooses and one in _HERE)), *lists]


def _known(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if path and path != "-")
