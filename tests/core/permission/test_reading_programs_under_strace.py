"""Every read-only program of the table, with every option of its row, run under strace.

Words are generated from the grammar of the row. A command that the table reports as read-only must
open nothing to write, create and remove nothing, and run no program but those named here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tillerman.core.permission.shell.programs import describe
from tillerman.core.permission.shell.programs.options import ProgramOption, grammar
from tillerman.core.permission.shell.programs.table import ROWS

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or shutil.which("unshare") is None or os.getuid() != 0,
    reason="needs strace, unshare and root",
)
SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
NOBODY = 65534
# Their reading ends when somebody stops them, or they ask a daemon that is not there.
NOT_RUN = frozenset({"yes", "docker", "podman", "nerdctl", "sleep", "usleep"})
# Launchers of other languages, with caches in the home of the user.
CACHES = frozenset({"npm", "pnpm", "yarn", "pip", "cargo", "uv", "go", "gh"})
SETTINGS = frozenset({"top"})  # that make a folder for them in the home of the user
# Programs that these run by their own will, none of them of the workspace.
RUNS = {
    "zgrep": {"sh", "bash", "grep", "gzip", "sed", "cat", "expr", "dash"},
    "zcat": {"sh", "bash", "gzip", "dash"},
    "bzcat": {"bzip2"},
    "rgrep": {"sh", "grep", "dash", "bash"},
    "egrep": {"sh", "grep", "dash", "bash"},
    "fgrep": {"sh", "grep", "dash", "bash"},
    "which": {"sh", "dash", "bash"},
    "gunzip": {"sh", "bash", "gzip", "dash"},
    "uncompress": {"sh", "bash", "gzip", "dash"},
    "tar": {"gzip", "bzip2", "xz", "zstd", "lzip", "lzop", "lzma", "compress"},
    "unzip": {"sh"},
    "git": {"git"},
    "locale": {"gzip"},
    "yq": {"jq", "python3"},
}
TEXTS = (
    "a",
    "1",
    "2",
    "x",
    "a.txt",
    "1,2",
    "+%F",
    "never",
    "auto",
    "HEAD",
    "/a/",
    "%s",
    "10",
    "utf8",
)
OPERANDS = ("a.txt", "src", "src/b.py", "data.json", "a.tar", "a.zip", "cert.pem", "program", ".",
            "HEAD", "x", "1", "{print $1}", "1,2p", "s/a/b/", ".a", "a.txt.gz", "origin",
            "-type f", "*.py")  # fmt: skip
CALLS = (
    "execve,openat,open,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,"
    "linkat,symlink,symlinkat,truncate,chmod,fchmodat,chown,lchown,fchownat,mknod,mknodat,"
    "utimensat,setxattr,kill"
)
FOREVER = {  # options that wait for more
    "tail": {"-f", "-F", "-s", "--follow", "--retry", "--pid", "--sleep-interval"},
    "free": {"-s", "--seconds"},
    "netstat": {"-c"},
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("read")
    for folder in (top, *top.parents):
        if folder.stat().st_uid == 0 and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    root = top / "w"
    (root / "src").mkdir(parents=True)
    (top / "home").mkdir()
    files = {"a.txt": "x,1\ny,2\n", "src/b.py": "x = 1\n", "data.json": '{"a": 1}\n',
             ".env": "S=1\n", "package.json": '{"name":"n","version":"1.0.0"}\n'}  # fmt: skip
    for name, text in files.items():
        (root / name).write_text(text)
    shutil.copy(shutil.which("true") or "/bin/true", root / "program")
    commands = ["git init -q -b main", "git remote add origin https://example.com/x",
                "git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m one",
                "tar cf a.tar a.txt", "gzip -k a.txt"]  # fmt: skip
    if shutil.which("zip"):
        commands.append("zip -q a.zip a.txt")
    if shutil.which("openssl"):
        commands.append("openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=a -keyout key.pem "
                        "-out cert.pem")  # fmt: skip
    environment = {"PATH": SYSTEM, "HOME": str(top / "home")}
    for line in commands:
        subprocess.run(line.split(), cwd=root, check=True, env=environment, capture_output=True)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(root), str(top / "home")], check=True)
    return root


def reading_names() -> list[str]:
    """The installed programs of all rows that are declared to read or less."""
    found: list[str] = []
    for name, row in ROWS.items():
        program = name.partition(" ")[0]
        if row.effect in ("none", "reads") and program not in NOT_RUN | CACHES:
            path = shutil.which(program, path=SYSTEM)
            if path and Path(path).resolve().is_relative_to("/usr"):
                found.append(name)
    return sorted(found)


def words_of(option: ProgramOption, name: str, chance: Random) -> list[str]:
    value = chance.choice(OPERANDS if option.role in ("read", "read/", "list", "rev") else TEXTS)
    if name == "-#":
        return [f"-{chance.randrange(1, 9)}"]
    match option.takes:
        case "nothing":
            return [name]
        case "attached":
            separator = "=" if name.startswith("--") else ""
            return [name + (f"{separator}{value}" if chance.random() < 0.5 else "")]
    return [f"{name}={value}"] if name.startswith("--") else [name, value]


def generated(name: str, chance: Random, count: int) -> Iterator[list[str]]:
    """Each option once, alone and with others; then random combinations."""
    row = ROWS[name]
    options = [(one, option) for one, option in grammar(row.options, row.style).items()
               if one not in FOREVER.get(name, ())]  # fmt: skip
    chance.shuffle(options)
    for at in range(max(count, 1)):
        picked = [options[at % len(options)]] if options else []
        picked += chance.sample(options, k=min(len(options), chance.choice((0, 0, 1, 2))))
        words = [word for one, option in picked for word in words_of(option, one, chance)]
        operands = chance.sample(OPERANDS, k=chance.choice((0, 1, 1, 2, 3)))
        yield [*name.split(" "), *words, *operands]


def traced(words: list[str], workspace: Path) -> list[str]:
    """Runs in separate namespaces, without network, as a user who owns only the workspace."""
    log = workspace.parent / "strace"
    log.unlink(missing_ok=True)
    jail = ["unshare", "--net", "--ipc", "--pid", "--fork", "--kill-child", "timeout", "5",
            "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            "--no-new-privs"]  # fmt: skip
    environment = {"PATH": SYSTEM, "HOME": str(workspace.parent / "home"), "LC_ALL": "C.UTF-8"}
    subprocess.run(
        ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={CALLS}", *jail, *words],
        cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
    )  # fmt: skip
    lines = log.read_text(errors="replace").splitlines()
    watching = {line.split()[0] for line in lines if '["timeout"' in line and line.endswith(" = 0")}
    lines = [line for line in lines if "kill(" not in line or line.split()[0] not in watching]
    begun = next((at for at, line in enumerate(lines) if f'["{words[0]}"' in line
                  and line.endswith(" = 0")), len(lines))  # fmt: skip
    return lines[begun:]


def wrong(words: list[str], lines: list[str], workspace: Path) -> list[str]:
    """What it did beyond reading."""
    found = []
    for line in lines[1:]:
        call = re.match(r"\d+\s+(\w+)\(", line)
        path = re.search(r'"((?:[^"\\]|\\.)*)"', line)
        if call is None or " = -1 " in line or "resumed>" in line:
            continue
        if call[1] == "execve" and path:
            if Path(path[1]).name not in RUNS.get(words[0], set()) or not path[1].startswith("/"):
                found.append(line)
        elif call[1] in ("openat", "open"):
            place = os.path.normpath(workspace / (path[1] if path else ""))
            writes = re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", line)
            ours = place.startswith(f"{workspace.parent}/")  # which may lie in /dev/shm
            if writes and (ours or not place.startswith(("/dev/", "/proc/"))):
                found.append(line)
        elif call[1] == "kill":
            if not re.search(r"kill\(\d+, (0|SIG_0)\)", line):
                found.append(line)
        else:
            found.append(line)
    if words[0] in SETTINGS:
        found = [line for line in found if f'"{workspace.parent}/home/' not in line]
    return [line for line in found if "/.git/index" not in line]  # which git brings up to date


def checked(
    names: list[str], workspace: Path, seed: str, count: int | None
) -> tuple[int, list[str]]:
    ran, problems = 0, []
    for name in names:
        chance = Random(f"{seed}/{name}")
        row = ROWS[name]
        options = len(grammar(row.options, row.style))
        for words in generated(name, chance, options if count is None else count):
            reported = describe(words)
            if reported.effect not in ("none", "reads") or reported.doubts or reported.runs:
                continue
            lines = traced(words, workspace)
            ran += bool(lines)
            problems += [f"{words}: {line}" for line in wrong(words, lines, workspace)]
    return ran, problems


def test_what_the_table_says_only_reads_does_only_read(workspace: Path) -> None:
    names = Random(os.environ.get("TILLERMAN_SEED", "1")).sample(reading_names(), k=25)
    ran, problems = checked(names, workspace, "short", 2)
    assert problems == []
    assert ran >= 20


@pytest.mark.torture
@pytest.mark.parametrize("name", reading_names())
def test_every_option_of_a_row_that_only_reads_does_only_read(name: str, workspace: Path) -> None:
    _, problems = checked([name], workspace, "long", None)
    assert problems == []


def test_the_instrument_sees_what_does_more_than_read(workspace: Path) -> None:
    for words in (["touch", "q"], ["sed", "-i", "s/x/x/", "a.txt"], ["env", "true"],
                  ["cp", "a.txt", "q"], ["rm", "q"], ["mkdir", "z"]):  # fmt: skip
        assert wrong(words, traced(words, workspace), workspace) != []
    for words in (["cat", "a.txt"], ["ls", "-la"], ["git", "log"]):
        lines = traced(words, workspace)
        assert (wrong(words, lines, workspace), bool(lines)) == ([], True)


def test_a_script_that_makes_a_temporary_file_does_more_than_read(workspace: Path) -> None:
    words = ["zgrep", "-f", "nothing", "a.txt.gz"]
    assert describe(words).effect == "runs"
    if shutil.which("zgrep", path=SYSTEM):
        assert wrong(words, traced(words, workspace), workspace) != []
