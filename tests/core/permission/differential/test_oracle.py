"""What counts as named: the oracle is exactly as strict as the shells."""

from __future__ import annotations

import pytest

from tests.core.permission.differential import tree
from tests.core.permission.differential.facts import Exec, Facts
from tests.core.permission.differential.oracle import BLIND, Judgement, failures
from tests.core.permission.differential.reading import Access, Reading
from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE

WS = tree.WORKSPACE


def said(*accesses: Access, programs: frozenset[str] = frozenset()) -> Reading:
    return Reading(programs, accesses, (), (), frozenset(), is_opaque=False)


def write(path: str, **more: object) -> Access:
    return Access(path, "write", **{"directories": ("",), **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("access", "covered", "left"),
    [
        (write("a.txt"), "a.txt", "b.txt"),
        (write("src"), "src", "src/x"),
        (write("src", redirection=True), "src", "src/x"),
        (write("src", recursive=True), "src/deep/x", "x"),
        (write(".", recursive=True, only=("*.txt",)), "src/b.txt", ".env"),
        (write(".", recursive=True, skips_hidden=True), "src/b.txt", ".git/config"),
        (write("x", directories=("src", "tools")), "tools/x", "x"),
        (write("x", directories=(None,)), ".git/hooks/y", None),
        (write(f"src/{ANY}"), "src/x", "src/deep/d.txt/x"),
        (write(f".e{ONE}v"), ".env", ".eenv"),
        (write(f"{HOLE}/x"), ".git/config", None),
        (write("out/z"), "../outside/z", "../outside/y"),
        (write(f"o{ANY}/z"), "../outside/z", "../outside/y"),
        (write("envlink"), ".env", ".env.local"),
        (write("~/x"), "../home/x", "../home/y"),
        (write("src/../z"), "z", "src/z"),
        (write(f"/{WS}//z"), "z", "src/z"),
        (write("/proc/self/cwd/z", directories=("src",)), "src/z", "z"),
        (Access("a.txt", "mention", ("",)), "a.txt", "b.txt"),
        (Access("a.txt", "remove", ("",)), "a.txt", "b.txt"),
    ],
)
def test_an_access_covers_what_it_names(access: Access, covered: str, left: str | None) -> None:
    def names(path: str) -> bool:
        return said(access).covers(tree.absolute(path), written=True)

    assert (names(covered), left is not None and names(left)) == (True, False)


def test_what_is_read_is_not_named_as_written() -> None:
    reads = said(Access("a.txt", "read", ("",)))
    assert reads.covers(f"{WS}/a.txt", written=False)
    assert not reads.covers(f"{WS}/a.txt", written=True)


def test_parents_that_mkdir_makes_and_scratch_files_need_no_name() -> None:
    facts = Facts(changed=(f"{WS}/n", f"{WS}/n/x", f"{WS}/sedAbCd12", "/tmp/sortAb12"))
    decided = Judgement(said(write("n/x")), dict.fromkeys(BLIND.verdicts, "ask"))
    assert failures("mkdir -p n/x", "bash", facts, decided) == []


def test_a_program_inside_of_another_needs_no_name() -> None:
    gzip = Exec("/usr/bin/gzip", ("gzip",), WS, ("sh", "tar"))
    decided = Judgement(said(), dict.fromkeys(BLIND.verdicts, "ask"))
    assert failures("x", "bash", Facts((gzip,)), decided) == []
    alone = failures("x", "bash", Facts((gzip._replace(via=()),)), decided)
    assert [one.cause for one in alone] == [("program not named", "gzip")]
