"""`tillerman doctor --gate` without anything to probe; tests/real has the probes."""

from __future__ import annotations

import json

from tests.stand_ins.cursor_stand_in import install_cursor
from tests.surfaces.conftest import Bench

BARE = "/usr/bin:/bin"


def test_a_missing_agent_cannot_be_probed(bench: Bench) -> None:
    none = bench.run("doctor", "--gate", PATH=BARE)
    assert (none.returncode, none.stderr) == (0, "")
    assert "no installed agent" in none.stdout

    one = bench.run("doctor", "--gate", "codex", PATH=BARE)
    assert (one.returncode, one.stdout) == (3, "")
    assert "no `codex` on PATH" in one.stderr


def test_an_agent_without_a_gate_is_reported(bench: Bench) -> None:
    for name, exit, words in (
        ("mock", 2, "no separate program"),
        ("cluade", 2, "did you mean claude"),
    ):
        done = bench.run("doctor", "--gate", name)
        assert done.returncode == exit
        assert words in done.stderr


def test_an_agent_that_no_scripted_model_can_reach_is_reported_as_not_probed(bench: Bench) -> None:
    install_cursor(bench.home / "bin", bench.home)
    path = f"{bench.home / 'bin'}:{BARE}"
    done = bench.run("doctor", "--gate", "cursor", PATH=path)
    assert done.returncode == 0, done.stderr
    assert "not probed: it cannot be run with a scripted model" in done.stdout
    [proof] = json.loads(bench.run("doctor", "--gate", "cursor", "--json", PATH=path).stdout)
    assert (proof["agent"], proof["holds"]) == ("cursor", {})


def test_an_agent_that_cannot_be_inspected_is_reported_with_the_reason(bench: Bench) -> None:
    folder = bench.home / "bin"
    folder.mkdir()
    (folder / "codex").write_text("#!/nowhere\n")
    (folder / "codex").chmod(0o755)
    for words in ((), ("codex",)):
        done = bench.run("doctor", "--gate", *words, PATH=f"{folder}:{BARE}")
        assert "codex: not probed: " in done.stdout, done.stderr
