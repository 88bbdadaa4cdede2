"""Git config files as git itself reads them, and without new programs."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from tillerman.workspace.protection.git.config import BadConfig, disarm, parse, runs_a_program

# Every key that git documents and that neither runs a program nor leads to one, by its section.
HARMLESS = frozenset(
    [
        "add",
        "advice",
        "am",
        "apply",
        "author",
        "blame",
        "branch",
        "bundle",
        "checkout",
        "clean",
        "clone",
        "color",
        "column",
        "commit",
        "commitgraph",
        "committer",
        "completion",
        "credentialcache",
        "credentialstore",
        "extensions",
        "fastimport",
        "feature",
        "fetch",
        "format",
        "fsck",
        "fsmonitor",
        "gc",
        "gitweb",
        "grep",
        "gui",
        "help",
        "http",
        "i18n",
        "index",
        "log",
        "lsrefs",
        "mailinfo",
        "mailmap",
        "maintenance",
        "merge",
        "mergetool",
        "notes",
        "pack",
        "pretty",
        "push",
        "rebase",
        "receive",
        "remotes",
        "repack",
        "rerere",
        "revert",
        "safe",
        "showbranch",
        "sparse",
        "splitindex",
        "stash",
        "status",
        "tag",
        "trace2",
        "transfer",
        "uploadarchive",
        "uploadpackfilter",
        "user",
        "versionsort",
        "worktree",
    ]
)
# Of sections that have both: those that are harmless.
HARMLESS_KEYS = re.compile(
    r"core\.(?:abbrev|alternaterefsprefixes|autocrlf|bare|bigfilethreshold|check\w+|comment\w+"
    r"|commitgraph|compression|createobject|deltabasecachelimit|eol|excludesfile|filemode"
    r"|filesreflocktimeout|fsmonitorhookversion|fsync\w*|hidedotfiles|ignorecase|ignorestat"
    r"|logallrefupdates|loosecompression|maxtreedepth|multipackindex|notesref|packed\w+"
    r"|precomposeunicode|prefersymlinkrefs|preloadindex|quotepath|repositoryformatversion"
    r"|restrictinheritedhandles|safecrlf|sharedrepository|sparse\w+|splitindex|symlinks|trustctime"
    r"|unsetenvvars|untrackedcache|usereplacerefs|warnambiguousrefs|whitespace|attributesfile|lock\w+)"
    r"|credential\.(?:protectprotocol|sanitizeprompt|usehttppath|username|x\..+|interactive|guiprompt)"
    r"|diff\.(?!external).+|difftool\.(?:prompt|trustexitcode|guidefault)|mergetool\..+"
    r"|gpg\.(?:format|mintrustlevel|ssh\.(?:allowedsignersfile|revocationfile))"
    r"|guitool\.x\.(?!cmd).+|imap\.(?!tunnel).+|init\.(?!templatedir).+|instaweb\.(?:local|port)"
    r"|interactive\.singlekey|man\.viewer|merge\..+|protocol\.version|pull\.(?:ff|rebase)"
    r"|remote\.x\.(?!receivepack|uploadpack|vcs).+|remote\.pushdefault|sendemail\..+"
    r"|submodule\..+|tar\.umask|uploadpack\.(?!packobjectshook).+|url\..+|trailer\.[^.]+"
)


KEYS = Path(__file__).with_name("git_config_keys.txt")  # of `git help --config`, as recorded


def plain(lines: str) -> list[str]:
    keys = [line.strip() for line in lines.splitlines()]
    return [re.sub(r"<[^>]*>|\*", "x", key) for key in keys if "." in key and " " not in key]


def documented() -> list[str]:
    return plain(KEYS.read_text("utf-8"))


def installed() -> list[str]:
    output = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True)
    return plain(output.stdout)


def lower(key: str) -> str:
    section, _, rest = key.partition(".")
    subsection, dot, name = rest.rpartition(".")
    return f"{section.lower()}.{subsection}{dot}{name.lower()}"


def is_harmless(key: str) -> bool:
    return key.partition(".")[0] in HARMLESS or HARMLESS_KEYS.fullmatch(key) is not None


def test_every_documented_git_key_is_classified() -> None:
    keys = [lower(key) for key in documented()]
    assert len(keys) > 500
    unknown = [key for key in keys if not runs_a_program(key, "/tmp/evil") and not is_harmless(key)]
    assert unknown == []


# How settings that run a program are called, in git and in what people add to it.
PROGRAM_NAMES = (
    "cmd", "command", "sshCommand", "tocmd", "program", "prog", "helper", "hook", "packObjectsHook",
    "hooksPath", "editor", "pager", "browser", "driver", "process", "clean", "smudge", "textconv",
    "external", "askpass", "exec", "execute", "run", "script", "shell", "proxyCommand", "launcher",
    "handler", "filter", "tunnel", "transferAgent", "executable", "binary",
)  # fmt: skip


def test_an_unknown_key_named_like_a_program_counts_as_one() -> None:
    known = {lower(key) for key in documented()}
    new = [
        *(f"newsection.{name}" for name in PROGRAM_NAMES),
        *(f"newsection.x.y.new{name}" for name in PROGRAM_NAMES),
        *(f"core.new{name}" for name in PROGRAM_NAMES),
        *(f"diff.x.new-{name}" for name in PROGRAM_NAMES),
    ]
    switched = [key for key in new if runs_a_program(lower(key), "true")]
    assert switched == []
    new += [key for key in installed() if lower(key) not in known and re.search(
        r"(?i)(cmd|command|program|helper|hook|editor|pager|driver)$", key)]  # fmt: skip
    passed = [key for key in new if not runs_a_program(lower(key), "/tmp/evil")]
    assert passed == []


def test_a_key_of_a_harmless_section_is_not_taken_for_a_program() -> None:
    keys = [lower(key) for key in documented()]
    ordinary = [key for key in keys if key.partition(".")[0] in HARMLESS - {"merge", "mergetool"}]
    mistaken = [key for key in ordinary if runs_a_program(key, "/tmp/evil")]
    assert mistaken == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("core.fsmonitor", "true", False),
        ("core.fsmonitor", "/tmp/evil", True),
        ("pager.log", "false", False),
        ("pager.log", "less", True),
        ("submodule.a.b.update", "rebase", False),
        ("submodule.a.b.update", "!evil", True),
        ("remote.o.url", "https://example.org/a::b", False),
        ("remote.o.url", "ext::sh -c evil", True),
        ("url.ext::sh -c evil.insteadof", "https://", True),
        ("url.git@github.com:.insteadof", "https://github.com/", False),
        ("filter.LFS.a.process", "git-lfs", True),
        ("includeif.gitdir:/x/.path", "y", True),
        ("branch.main.remote", "origin", False),
    ],
)
def test_the_value_counts_where_only_some_run_a_program(
    key: str, value: str, expected: bool
) -> None:
    assert runs_a_program(key, value) is expected


_PARTS = (
    b"[core]", b'[remote "a\\"b"]', b'[a.B "X"]', b"[alias]", b"hooksPath", b"x", b"a-b9", b" = ",
    b"=", b"\n", b"\r\n", b"\r", b"\t", b" ", b"\\\n", b"\\n", b"\\\\", b'"', b"# c", b";", b"val",
    b"!sh", b"\xc3\xa4", b"[", b"]", b"\\q", b"url", b"path",
)  # fmt: skip
_LINES = (
    b"[core]\n", b"\thooksPath = evil\n", b"\tbare = false\n", b'[remote "o"]\n', b"\turl = a b\n",
    b"[alias] st = !evil\n", b"; comment\n", b"\tname\n", b'\tx = "a\\tb" # c\n',
    b"\ty = a\\\n b\n",
    b"\r\n", b'[filter "x"]\n', b"\tclean = evil\n", b"[include]\n", b"\tpath = evil\n",
)  # fmt: skip


def config(rng: random.Random) -> bytes:
    parts = _LINES if rng.random() < 0.7 else _PARTS
    return b"".join(rng.choice(parts) for _ in range(rng.randint(0, 12)))


def by_git(data: bytes, path: Path) -> list[tuple[bytes, bytes | None]] | None:
    """None if git refuses it."""
    path.write_bytes(data)
    output = subprocess.run(["git", "config", "-z", "--list", "-f", path], capture_output=True)
    if output.returncode:
        return None
    fields = [field.partition(b"\n") for field in output.stdout.split(b"\0")[:-1]]
    return [(key, value if sign else None) for key, sign, value in fields]


def ours(data: bytes) -> list[tuple[bytes, bytes | None]] | None:
    try:
        found = parse(data)
    except BadConfig:
        return None
    encoded = [(one.key, one.value) for one in found]
    return [
        (key.encode("utf-8", "surrogateescape"), None if value is None else
         value.encode("utf-8", "surrogateescape"))
        for key, value in encoded
    ]  # fmt: skip


def squeezed(found: list[tuple[bytes, bytes | None]] | None) -> object:
    """Newer versions of git keep the white space inside a value."""
    if found is None:
        return None
    return [(key, value and b" ".join(value.split())) for key, value in found]


@pytest.mark.parametrize("seed", range(4))
def test_a_config_is_read_as_git_reads_it(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        data = config(rng)
        assert squeezed(ours(data)) == squeezed(by_git(data, tmp_path / "config")), data


@pytest.mark.parametrize("seed", range(4))
def test_only_new_programs_are_removed(seed: int, tmp_path: Path) -> None:
    """Git itself reports the result: the previous programs, and all other current settings."""
    rng = random.Random(100 + seed)
    path = tmp_path / "config"
    for _ in range(40):
        known, now = config(rng), config(rng)
        before, after = by_git(known, path), by_git(now, path)
        if before is None or after is None:
            continue
        left = by_git(disarm(now, known).content, path)
        assert left is not None
        assert [one for one in left if runs(one)] == [one for one in before if runs(one)]
        assert [one for one in left if not runs(one)] == [one for one in after if not runs(one)]


def runs(setting: tuple[bytes, bytes | None]) -> bool:
    key, value = setting
    return runs_a_program(key.decode(), None if value is None else value.decode())


def test_a_config_that_git_cannot_read_is_replaced_by_the_known_one() -> None:
    known = b"[user]\n\tname = Ann\n"
    assert disarm(b"[core\nhooksPath = x", known).content == known


def test_an_ordinary_change_is_left_unchanged() -> None:
    now = b'# mine\n[user]\n   name=  Ann ; really\n[remote "o"]\r\n\turl = x\r\n'
    assert disarm(now, b"") == (now, ())
