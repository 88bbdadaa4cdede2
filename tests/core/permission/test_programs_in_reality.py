"""Rows declared to change nothing, compared with the kernel: each sample runs under strace."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tillerman.core.permission.shell.parsed_script import FileAccess
from tillerman.core.permission.shell.programs import describe
from tillerman.core.permission.shell.programs.row import Row
from tillerman.core.permission.shell.programs.table import ROWS

_ROWS = list(dict.fromkeys(row for row in ROWS.values() if row.effect in ("none", "reads")))
_SAMPLES = [(row, sample) for row in _ROWS for sample in row.samples]
_SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# What these write is in the user's own cache or settings, and no file that they are given.
_CACHES = ("npm", "pnpm", "yarn", "pip", "top")
_WRITES = (
    "unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,"
    "truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,mknod,mknodat"
)
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MARK = "import pathlib; pathlib.Path('ran').write_text('')\n"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository full of names that a program may use as its own code or settings."""
    tmp_path = tmp_path_factory.mktemp("reality")
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "bin").mkdir()
    (tmp_path / "home").mkdir()
    environment = _environment(root)
    files = {
        "a.txt": "x,1\ny,2\n",
        "src/b.py": "x = 1\n",
        "data.json": '{"a": 1}\n',
        "package.json": '{"name":"n","version":"1.0.0","scripts":{"preinstall":"touch ran"}}\n',
        "sitecustomize.py": _MARK,
        "usercustomize.py": _MARK,
        "json.py": _MARK,
        "Makefile": "all:\n\ttouch ran\n",
        ".env": "SECRET=1\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    for name in ("ls", "git", "sh", "less", "pager", "cat", "sort", "node", "python3"):
        (root / name).write_text("#!/bin/sh\ntouch ran\n")
        (root / name).chmod(0o755)
    for line in (
        "git init -q -b main",
        "git config user.email a@example.com",
        "git config user.name a",
        "git add a.txt src data.json",
        "git commit -qm one",
        "git tag v1",
        "tar cf a.tar a.txt",
    ):
        subprocess.run(shlex.split(line), cwd=root, check=True, env=environment)
    (root / "a.txt").write_text("x,1\ny,3\n")
    subprocess.run(["git", "stash", "-q"], cwd=root, check=True, env=environment)
    (root / "a.txt").write_text("x,1\ny,4\n")
    if shutil.which("zip"):
        subprocess.run(["zip", "-q", "a.zip", "a.txt"], cwd=root, check=True)
    if shutil.which("openssl"):
        line = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=a -keyout key.pem -out cert.pem"
        subprocess.run(line.split(), cwd=root, check=True, capture_output=True)
    shutil.copy(shutil.which("true") or "/bin/true", root / "program")
    return root


def _environment(workspace: Path) -> dict[str, str]:
    return {
        "PATH": _SYSTEM,
        "HOME": str(workspace.parent / "home"),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PAGER": "cat",
    }


def _state(root: Path) -> dict[str, str]:
    """Every file of a tree, except the index, which git refreshes."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and name != ".git/index":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = f"{digest} {path.stat().st_mode}"
        else:
            found[name] = ""
    return found


def _traced(sample: str, workspace: Path) -> list[str]:
    log = workspace.parent / "strace"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace=execve,openat,open,creat,{_WRITES}",
         "sh", "-c", sample],
        cwd=workspace, env=_environment(workspace), stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60,
    )  # fmt: skip
    if b"ptrace" in done.stderr and b"not permitted" in done.stderr:
        pytest.skip("strace is not permitted here")
    return log.read_text(errors="replace").splitlines()


def _written(lines: list[str], workspace: Path) -> list[str]:
    """Paths of this workspace that a call opened to write, or changed otherwise."""
    found = []
    for line in lines:
        call = re.match(r"\d+\s+(\w+)\(", line)
        path = _PATH.search(line)
        if call is None or path is None or call[1] == "execve" or " = -1 " in line:
            continue
        if call[1] in ("openat", "open") and not re.search(r"O_WRONLY|O_RDWR|O_CREAT", line):
            continue
        full = os.path.normpath(workspace / path[1])
        ours = full.startswith(str(workspace))  # which may lie in /dev/shm
        if ours or not full.startswith(("/dev/", "/tmp/npm-", "/proc/")):
            found.append(full)
    return found


def _opened(lines: list[str], workspace: Path) -> set[str]:
    """Files of the workspace with text or secrets that were opened."""
    found = set()
    for line in lines:
        path = _PATH.search(line)
        if path and re.match(r"\d+\s+open(at)?\(", line) and " = -1 " not in line:
            name = os.path.relpath(workspace / path[1], workspace)
            if name in ("a.txt", "src/b.py", "data.json", ".env", "a.tar", "a.zip"):
                found.add(name)
    return found


def _is_named(name: str, accesses: Sequence[FileAccess], workspace: Path) -> bool:
    for one in accesses:
        path = os.path.relpath(workspace / one.path, workspace)
        if path == name or (one.recursive and (path == "." or name.startswith(f"{path}/"))):
            return True
    return False


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    ("row", "sample"), _SAMPLES, ids=[sample.replace("/", "|") for _, sample in _SAMPLES]
)
def test_a_row_that_reads_writes_nothing_and_runs_nothing_of_the_workspace(
    row: Row, sample: str, workspace: Path
) -> None:
    words = shlex.split(sample)
    if shutil.which(words[0], path=_SYSTEM) is None:
        pytest.skip(f"{words[0]} is not installed")
    found = describe(words)
    assert (ROWS[found.row], found.effect in ("none", "reads"), found.doubts) == (row, True, ())
    before = _state(workspace)
    lines = _traced(sample, workspace)
    assert _state(workspace) == before
    executed = [
        os.path.normpath(workspace / path[1])
        for line in lines
        if "execve(" in line and " = 0" in line and (path := _PATH.search(line))
    ]
    assert executed[1:] or len(executed) == 1, "strace saw nothing"
    assert [path for path in executed if path.startswith(str(workspace))] == []
    if words[0] != "git":  # which looks at all that it tracks
        opened = _opened(lines, workspace)
        assert [name for name in opened if not _is_named(name, found.accesses, workspace)] == []
    written = [path for path in _written(lines, workspace) if "/.git/index" not in path]
    if words[0] not in _CACHES:
        assert written == []
    assert [path for path in written if path.startswith(str(workspace))] == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_instrument_sees_a_write_and_a_program_of_the_workspace(
    workspace: Path, tmp_path: Path
) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(workspace, root, symlinks=True)
    (tmp_path / "home").mkdir()
    before = _state(root)
    lines = _traced("./ls; touch q", root)
    assert {name for name in _state(root) if name not in before} == {"q", "ran"}
    assert str(root / "q") in _written(lines, root)
    assert any("execve(" in line and '"./ls"' in line for line in lines)


def test_every_row_that_reads_has_a_sample_or_is_unavailable() -> None:
    """A row without a sample would be an unchecked claim."""
    without = [row.names for row in _ROWS if not row.samples and " " not in row.names]
    assert sorted(name.partition("|")[0] for name in without) == [
        "cargo", "docker", "gh", "git", "go", "locate", "look", "npm", "pip", "pnpm", "ptx", "uv",
        "yq",
    ]  # fmt: skip
