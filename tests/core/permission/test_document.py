"""Every example in docs/policy.md runs, and prints the documented output."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from tests import CHECKOUT
from tests.stand_ins.warm_python import run_tillerman

DOCUMENT = CHECKOUT / "docs/policy.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# whether a rule is enforced depends on the machine, and on who runs this
STATE = re.compile(r"^(?:enforced|restored|advisory)(: ).*$", re.MULTILINE)


def test_the_examples_print_the_documented_output(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    user = home / "config.toml"
    ran = 0
    for language, name, text in BLOCK.findall(DOCUMENT.read_text()):
        match language, name.strip():
            case "toml", "user":
                user.write_text(text)
            case "toml", file:
                (project / file).write_text(text)
            case "console", _:
                for line, expected in examples(text):
                    message = printed(line, project, home).replace(str(user), "USER")
                    assert STATE.sub(r"\1", message) == STATE.sub(r"\1", expected)
                    ran += 1
    assert ran == 6


def examples(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def printed(line: str, project: Path, home: Path) -> str:
    program, *words = shlex.split(line)
    assert program == "tillerman"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TILLERMAN_HOME": str(home)}
    done = run_tillerman(words, cwd=project, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
