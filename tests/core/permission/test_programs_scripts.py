"""Scripts of awk and sed that are reported to only print: real awks and sed run changed ones."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tillerman.core.permission.shell.programs import describe

AWK = [
    '{print $1 > "f"}', '{print $1, "b" > "f" ".g"}', '{if ($1 > 2) print "x"; else print "f"}',
    '/x/ {n++} END {print n / 2}', '{print (1 > 2) > "f"}', '{print a ? "b" : "c" > "f"}',
    '{printf("%s/", $1); print "/"}', 'BEGIN {print "x" | "tee f"}', '{print /x/ ? 1 : 2}',
    '$1 ~ /"/ {print "f"}', '{x = $1 / 2; print x "/" > "f"}', '{print > $1}', '{print -1 " " -2}',
    '{print substr($0, 1, 3) > "f"} # end', '{print length($1) / 2 > "f"; print /"/}',
    'BEGIN {while ((getline l < "x.txt") > 0) print l}', '{print !($1 > 2), $2 > "f"}',
    '{a["f"] = $1 > 2; for (k in a) print a[k]}', "NR == 1, NR == 2 {print}",
    '{print !($1 >\n 2), $2 > "f"}',
    'function f(x) {print x > "f"} {f($1)}', '{print $1 >> "f"}', '{print "a" "b" > "f" "g"}',
]  # fmt: skip
AWK_PIECES = [
    ">", '"f"', '"', "/", "\n", ";", ",", "(", ")", "{", "}", " ", "#", "\\\n", "?", ":", "print",
    "printf", "$1", "!", "[", "]", "~", "|", "-", "+", "1", "/x/", '/"/', "a", "if", "else", "in",
    "&&",
    "||", "++", "getline", "\\", "\\/", "[/]", '\\"', "=", "<", "$", "^", "\t", "return", "delete",
]  # fmt: skip
SED = [
    "s/x/f/w f", "1w f", "/x/w f", "s/x/y/;w f", "1{p;w f\n}", "s/a/b/g;s|x|y|w f", "y/x/y/;p",
    "a\\\nw "
        "f",
    "i x\nw f", "1,2p;$!w f", "s/x/touch f/e", "1e touch f", "s,x,y,gpw f", "/\\//p;w f", "s/[/]/w "
        "f/",
    "c w f\nw f", "n;d;w f", "/[/]w f/p", "s/x/\\\nw f/", "x;G;h;l;=;q", "1~2p;w f", "$!{N;D};w f",
]  # fmt: skip
SED_PIECES = [
    "w f", "e touch f", "/", "|", "\\", "\n", ";", "{", "}", "s", "y", "a", "i", "c", "p", "d",
    "1", "$",
    ",", "!", " ", "[", "]", "w", "e", "x", "I", "g", "q", "#", "a\\", "r", "b", ":", "t", "M",
    "&", "~",
]  # fmt: skip

# Might name a file outside of the test's own folder. Scripts are run by a user who could not write
# there, too: nothing that is made up at random may leave a trace.
_LEAVES = re.compile(r'"\\?[./~]|[we] *\\?[./~]|\.\.|\\/')
_NOBODY = 65534 if os.geteuid() == 0 else None


def _changed(samples: list[str], pieces: list[str], count: int) -> list[str]:
    """Samples with pieces inserted or removed, or two of them spliced."""
    chooser = random.Random(7)
    found = dict.fromkeys(samples)
    while len(found) < count:
        text = chooser.choice(samples)
        for _ in range(chooser.randint(1, 4)):
            at = chooser.randint(0, len(text))
            match chooser.randint(0, 3):
                case 0:
                    text = text[:at] + text[at + chooser.randint(1, 3) :]
                case 1:
                    other = chooser.choice(samples)
                    text = text[:at] + other[chooser.randint(0, len(other)) :]
                case _:
                    text = text[:at] + chooser.choice(pieces) + text[at:]
        if not _LEAVES.search(text):
            found[text] = None
    return list(found)


def _writes(program: list[str], script: str, place: Path) -> bool:
    """Whether the real program created a file; it is stopped if it does not end."""
    place.mkdir()
    place.chmod(0o777)
    (place / "x.txt").write_text("x 1\ny/2 3\n")
    before = {path.name for path in place.iterdir()}
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [*program, script, "x.txt"], cwd=place, stdin=subprocess.DEVNULL, timeout=2,
            capture_output=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            user=_NOBODY, extra_groups=None if _NOBODY is None else [],
        )  # fmt: skip
    after = {path.name for path in place.iterdir()}
    unchanged = (place / "x.txt").is_file() and (place / "x.txt").read_text() == "x 1\ny/2 3\n"
    shutil.rmtree(place)
    return after != before or not unchanged


def _missed(program: list[str], scripts: list[str], tmp_path: Path) -> tuple[int, list[str]]:
    """How many wrote a file, and those of them that were reported to only print."""
    name = program[-1]
    passed = [script for script in scripts if not describe([name, script, "x.txt"]).doubts]
    refused = [script for script in scripts if script not in set(passed)][: len(passed)]
    ran = [*passed, *refused]
    with ThreadPoolExecutor(2) as pool:
        numbered = enumerate(ran)
        wrote = list(
            pool.map(lambda one: _writes(program, one[1], tmp_path / f"{one[0]}"), numbered)
        )
    missed = [
        script for script, did in zip(ran, wrote, strict=True) if did and script in set(passed)
    ]
    return sum(wrote), missed


def _installed(program: list[str]) -> None:
    if shutil.which(program[0], path="/usr/bin:/bin") is None:
        pytest.skip(f"{program[0]} is not installed")


@pytest.mark.parametrize("count", [200, pytest.param(2_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("program", [["mawk"], ["gawk"], ["busybox", "awk"]], ids=" ".join)
def test_a_script_of_awk_that_writes_is_uncertain(
    program: list[str], count: int, tmp_path: Path
) -> None:
    _installed(program)
    wrote, missed = _missed(program, _changed(AWK, AWK_PIECES, count), tmp_path)
    assert missed == []
    assert wrote > 10  # the scripts are such that some do


@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("program", [["sed"], ["busybox", "sed"]], ids=" ".join)
def test_a_script_of_sed_that_writes_is_uncertain(
    program: list[str], count: int, tmp_path: Path
) -> None:
    _installed(program)
    wrote, missed = _missed(program, _changed(SED, SED_PIECES, count), tmp_path)
    assert missed == []
    assert wrote > 10
