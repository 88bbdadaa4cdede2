"""`${x…}` of values that a line sets, compared with bash: what the reader computes, bash prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from random import Random

import pytest

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE
from tillerman.core.permission.shell.reader import read

COUNT = int(os.environ.get("TILLERMAN_OPERATOR_LINES", "1500"))
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
_PIECES = (
    *("a", "b", "ab", "A", "i", ".", ".txt", "/", "-", " ", "é", "x=1", "*", "?", "~", "&", "#"),
    *("%", "0", "'"),
)
_WORDS = (
    *("a", "b", ".txt", ".", "/", "\\/", "*", "?", "[ab]", "a*", "'*'", '"a"', "\\*", "#", "%"),
    *("#a", "%a", "~", "&", "\\&", "$u", "''", " ", "é", "x"),
)
_NUMBERS = (
    *("0", "1", "2", "7", "01", " -1", " -3", "-2", "1:1", "0:2", "2:0", " -2:1", "1:-1"),
    *(" 1 : 2 ", "9:9", "a", "$u", "(1)"),
)
_LISTS = ("1", "2", "0", "1:1", "2:1", "3:5", "9", " -1", "0:2", "1:0")


def word(rng: Random) -> str:
    return "".join(rng.choice(_WORDS) for _ in range(rng.choice((0, 1, 1, 2))))


def expansion(rng: Random) -> str:
    """An expansion of `v`, a list `w` or the arguments."""
    kind = rng.randrange(6)
    if kind == 0:
        return f"${{v{rng.choice(('%', '%%', '#', '##'))}{word(rng)}}}"
    if kind == 1:
        return f"${{v{rng.choice(('/', '//'))}{word(rng)}/{word(rng)}}}"
    if kind == 2:
        return f"${{v{rng.choice(('/', '//'))}{word(rng)}}}"
    if kind == 3:
        return f"${{v:{rng.choice(_NUMBERS)}}}"
    if kind == 4:
        return f"${{v{rng.choice(('^', '^^', ',', ',,'))}}}"
    return f"${{{rng.choice(('@', 'w[@]'))}:{rng.choice(_LISTS)}}}"


def value(rng: Random) -> str:
    return "".join(rng.choice(_PIECES) for _ in range(rng.randrange(1, 5)))


def line(seed: int) -> str:
    rng = Random(seed)
    listed = " ".join(shlex.quote(value(rng)) for _ in range(rng.randrange(4)))
    given = f"v={shlex.quote(value(rng))}; w=({listed}); set -- {listed}; "
    return f'{given}printf "<%s>" "{expansion(rng)}"'


def known_words(text: str) -> list[str] | None:
    """The words that the reader computes for the last command; None if they are unknown."""
    command = read(text).commands[-1]
    if any(sign in word for word in command.words for sign in (HOLE, ANY, ONE)):
        return None
    return list(command.words[2:])


def test_what_the_reader_knows_of_an_expansion_is_what_bash_makes_of_it(tmp_path: Path) -> None:
    lines = [line(seed) for seed in range(COUNT)]
    script = tmp_path / "script"
    script.write_text("".join(f"({text}) 2> /dev/null; printf '\\0'\n" for text in lines))
    done = subprocess.run(["bash", script], env=ENVIRONMENT, capture_output=True, text=True)
    printed = done.stdout.split("\0")[:-1]
    assert len(printed) == COUNT
    known = {text: words for text in lines if (words := known_words(text)) is not None}
    wrong = {
        text: (words, real)
        for text, real in zip(lines, printed, strict=True)
        if (words := known.get(text)) is not None
        and real  # bash refuses some: nothing runs then
        and real != "".join(f"<{one}>" for one in words or [""])
    }
    assert wrong == {}
    assert len(known) > COUNT // 4


@pytest.mark.parametrize(
    "pattern", [".txt/.md", ".txt", "./_", ".t/.", ".x/..", "/.", "a/.", "c/", ".txt//", ".*/x"]
)
def test_a_name_in_a_directory_stays_there_or_is_not_known(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "dir"
    folder.mkdir()
    names = ("a.txt", "c.txt.txt", "a.env.txt", "c.git.txt", "txt.txt", "b.t.txt")
    for name in names:
        (folder / name).touch()
    loop = f'for f in dir/*.txt; do printf "%s\\0" "${{f/{pattern}}}"; done'
    done = subprocess.run(["bash", "-c", loop], cwd=tmp_path, env=ENVIRONMENT, capture_output=True)
    (reported,) = {one.words[2] for one in read(loop).commands if one.words[0] == "printf"}
    parts = {HOLE: ".*", ANY: "[^./][^/]*", ONE: "[^/]"}
    regex = "".join(parts.get(c) or re.escape(c) for c in reported)
    printed = done.stdout.decode().split("\0")[:-1]
    assert len(printed) == len(names)
    assert [text for text in printed if not re.fullmatch(regex, text)] == []
