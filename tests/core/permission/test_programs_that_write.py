"""Every file that a known program changes or opens is named, as reported by kernel and tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.core.permission.changed_files import all_accesses, covers, tree_state, unnamed_changes
from tillerman.core.permission.shell.programs import StdinSource, describe

_SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_PATH = re.compile(r'openat?\((?:AT_FDCWD, )?"((?:[^"\\]|\\.)*)", (\S+)')

_EVERY = 4  # of these lines, one runs each time: the others are for `make torture`
_LINES = tomllib.loads((Path(__file__).parent / "test_programs_lines.toml").read_text())


def _some(lines: list[str]) -> list[object]:
    return [
        line if at % _EVERY == 0 else pytest.param(line, marks=pytest.mark.torture)
        for at, line in enumerate(lines)
    ]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("writers") / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "empty").mkdir()
    (root.parent / "home").mkdir()
    files = {
        "a.txt": "x 1\ny 2\n", "b.txt": "b\n", "src/b.py": "x = 1\n", ".env": "KEY=1\n",
        "list": "a.txt\n", "run.sh": "#!/bin/sh\n", "src/Makefile": "q:\n\ttouch q\n",
        "q.c": "int main(void){return 0;}\n",
        "fix.diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-x 1\n+x 9\n y 2\n",
    }  # fmt: skip
    for name, text in files.items():
        (root / name).write_text(text)
    (root / "run.sh").chmod(0o755)
    for line in ("git init -q -b main", "git config user.email a@example.com",
                 "git config user.name a", "git add a.txt src list", "git commit -qm one",
                 "tar cf a.tar b.txt", "tar czf a.tgz b.txt", "sh -c 'gzip -c b.txt > a.gz'",
                 "zip -q a.zip b.txt"):  # fmt: skip
        if shutil.which(line.split()[0]):
            subprocess.run(shlex.split(line), cwd=root, check=True, env=_environment(root))
    (root / "src/b.py").write_text("x = 2\n")
    shutil.rmtree(root / ".git/hooks")
    return root


def _environment(root: Path) -> dict[str, str]:
    return {"PATH": _SYSTEM, "HOME": str(root.parent / "home"), "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1", "PAGER": "cat", "EDITOR": "true", "TERM": "dumb",
            "PWD": str(root)}  # fmt: skip


def _words(line: str, root: Path) -> list[str]:
    return shlex.split(line.replace("$PWD", str(root)))


def _run(line: str, root: Path, *before: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*before, "sh", "-c", line], cwd=root, env=_environment(root), capture_output=True,
        input=b"", timeout=20,
    )  # fmt: skip


def _skip_unless_installed(line: str) -> None:
    if shutil.which(line.split(maxsplit=1)[0], path=_SYSTEM) is None:
        pytest.skip(f"{line.split(maxsplit=1)[0]} is not installed")


@pytest.mark.parametrize(
    "line", _some(_LINES["writers"]), ids=lambda line: str(line).replace("/", "|")
)
def test_every_file_that_a_line_changes_is_named(line: str, template: Path, tmp_path: Path) -> None:
    _skip_unless_installed(line)
    root = tmp_path / "workspace"
    shutil.copytree(template, root, symlinks=True)
    (tmp_path / "home").mkdir()
    before = tree_state(root)
    found = describe(_words(line, root), StdinSource())
    done = _run(line, root)
    after = tree_state(root)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    missed = unnamed_changes(found, root, before, after)
    assert missed == [], (found, done.stderr)
    if changed:  # what is judged by itself has an effect of its own
        effects = [found.effect, *(describe(run.words).effect for run in found.runs if run.words)]
        assert {"writes", "runs"} & set(effects)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    "line", _some(_LINES["readers"]), ids=lambda line: str(line).replace("/", "|")
)
def test_a_file_that_a_line_opens_is_named(line: str, template: Path, tmp_path: Path) -> None:
    _skip_unless_installed(line)
    root = tmp_path / "workspace"
    shutil.copytree(template, root, symlinks=True)
    (tmp_path / "home").mkdir()
    log = tmp_path / "strace"
    found = describe(_words(line, root), StdinSource())
    done = _run(line, root, "strace", "-f", "-qq", "-o", str(log), "-e", "trace=open,openat")
    if b"not permitted" in done.stderr and b"ptrace" in done.stderr:
        pytest.skip("strace is not permitted here")
    opened = {
        os.path.relpath(root / path, root)
        for path, _ in _PATH.findall(log.read_text(errors="replace"))
    }
    accesses = all_accesses(found)
    named = any(covers(one, ".env", root) for one in accesses)
    assert named or not any(path.rpartition("/")[2] == ".env" for path in opened), found
    exact = [one for one in accesses if os.path.relpath(root / one.path, root) == ".env"]
    recursive = [one for one in accesses if one.recursive]
    assert exact or recursive or found.doubts or ".env" not in opened, found
