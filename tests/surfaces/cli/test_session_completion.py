"""Completion of session ids in bash, zsh and fish, each in the real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tillerman.surfaces.cli.main import main

_ASKS = {
    "bash": """{script}
COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_tillerman; printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """_describe() {{ print -rl -- "${{(@P)2}}" }}
_files() {{ }}
{script}
words=({words} ''); CURRENT=$#words
_tillerman
""",
    "fish": """{script}
complete -C '{words} '
""",
}


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The id of the only session of this folder; another folder has one too."""
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("other", "here"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        line = [
            "tillerman",
            "run",
            "-a",
            "mock",
            "--title",
            f"a: {name}",
            "--approve",
            "auto",
            "hi",
        ]
        subprocess.run(line, check=True, timeout=60, stdin=subprocess.DEVNULL)
    assert main(["completion", "bash", "--sessions"]) == 0
    found = capsys.readouterr().out.split()
    assert len(found) == 1
    return found[0]


def _offered(shell: str, line: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    script = _ASKS[shell].format(script=capsys.readouterr().out, words=line)
    done = subprocess.run(
        [program], input=script, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", _ASKS)
@pytest.mark.parametrize(
    "line", ["tillerman sessions show", "tillerman sessions export", "tillerman run --resume"]
)
def test_a_shell_completes_the_session_ids_of_this_folder(
    shell: str, line: str, ids: str, capsys: pytest.CaptureFixture[str]
) -> None:
    offered = _offered(shell, line, capsys)
    between = {"bash": "", "zsh": ":a: here", "fish": "\ta: here"}[shell]
    assert ids + between in offered
    assert not any("other" in one for one in offered)


@pytest.mark.parametrize("shell", _ASKS)
def test_completion_prints_nothing_without_a_store(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    assert main(["completion", shell, "--sessions"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "home").exists()
