"""What the reader reports as a syntax error of a POSIX shell, compared with dash."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.core.permission.differential.generator import line
from tillerman.core.permission.shell.parsing.parser import ShellParser
from tillerman.core.permission.shell.parsing.syntax import UnparsableCommand

LINES = int(os.environ.get("TILLERMAN_SYNTAX_LINES", "600"))
_LIMITS = ("too many", "more than")


def is_refused(text: str) -> bool:
    """Whether the reading as a POSIX shell stops there with a definite error."""
    parser = ShellParser(text, "posix")
    try:
        parser.whole_script()
    except UnparsableCommand as error:
        limited = any(limit in str(error) for limit in _LIMITS)
        return not (parser.deferred or parser.problems or limited)
    return False


def dash_accepts(text: str) -> bool:
    done = subprocess.run(["dash", "-n", "-c", text], capture_output=True, timeout=20)
    return done.returncode == 0 and b"yntax" not in done.stderr


@pytest.mark.skipif(not shutil.which("dash"), reason="dash is not installed")
def test_a_line_that_ends_the_reading_for_one_dialect_is_refused_by_that_shell() -> None:
    texts = [text for seed in range(LINES) if is_refused(text := line(seed))]
    assert len(texts) > LINES // 20
    assert [text for text in texts if dash_accepts(text)] == []
