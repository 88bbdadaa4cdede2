"""`tillerman init` and `tillerman pipeline check|graph`, as a person uses them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.pipelines.bad_files import BESIDE, bad_files
from tests.surfaces.conftest import Bench

EXAMPLES = sorted(str(path) for path in (CHECKOUT / "examples/pipelines").glob("*.yaml"))
NAMES = [
    "config.toml",
    "agents/developer.md",
    "agents/reviewer.md",
    "pipelines/simple-task.yaml",
    "pipelines/code-review.yaml",
]


def write(bench: Bench, name: str, text: str) -> Path:
    path = bench.project / ".tillerman" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_init_writes_files_that_are_valid_and_says_what_is_next(bench: Bench) -> None:
    done = bench.run("init")
    folder = bench.project / ".tillerman"
    assert (done.returncode, done.stderr) == (0, "")
    *wrote, last = done.stdout.splitlines()
    assert wrote == [f"wrote {folder / name}" for name in NAMES]
    assert "tillerman trust" in last
    assert bench.run("trust", "--yes").returncode == 0
    checked = bench.run("pipeline", "check")
    assert (checked.returncode, checked.stderr, len(checked.stdout.splitlines())) == (0, "", 2)
    listed = json.loads(bench.run("agents", "--json").stdout)
    assert "developer" in json.dumps(listed)


def test_init_never_overwrites(bench: Bench) -> None:
    mine = write(bench, "agents/developer.md", "Mine.\n")
    done = bench.run("init", "--json")
    found = json.loads(done.stdout)
    assert found["kept"] == [str(mine)]
    assert mine.read_text() == "Mine.\n"
    before = {path: path.read_bytes() for path in mine.parents[1].rglob("*") if path.is_file()}
    assert json.loads(bench.run("init", "--json").stdout)["written"] == []
    assert before == {path: path.read_bytes() for path in before}


def test_init_minimal_writes_one_profile_and_one_pipeline(bench: Bench) -> None:
    written = json.loads(bench.run("init", "--minimal", "--json").stdout)["written"]
    assert [Path(path).name for path in written] == ["developer.md", "simple-task.yaml"]


def test_init_writes_at_the_root_of_the_repository(bench: Bench) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=bench.project, check=True)
    inner = bench.project / "src"
    inner.mkdir()
    assert json.loads(bench.run("init", "src", "--json").stdout)["folder"] == str(
        bench.project / ".tillerman"
    )


def test_init_follows_no_link(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (bench.project / ".tillerman").mkdir()
    (bench.project / ".tillerman/agents").symlink_to(tmp_path / "elsewhere")
    done = bench.run("init")
    assert (done.returncode, "is not a folder" in done.stderr) == (2, True)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert bench.run("init", "missing").returncode == 2


def test_check_reads_every_example(bench: Bench) -> None:
    done = bench.run("pipeline", "check", *EXAMPLES)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(EXAMPLES) == 6


@pytest.mark.parametrize("case", bad_files()[::12], ids=lambda case: case.title)
def test_a_bad_file_ends_with_one_error_and_exit_code_2(bench: Bench, case: object) -> None:
    bad = next(one for one in bad_files() if one == case)
    for name, text in BESIDE.items():
        write(bench, f"pipelines/{name}", text)
    path = write(bench, f"pipelines/case.{bad.suffix}", bad.text)
    for words in (["pipeline", "check", "case"], ["pipeline", "graph", "case"]):
        done = bench.run(*words)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert (done.returncode, done.stdout, len(errors)) == (2, "", 1)
        assert bad.problem in errors[0]
        assert "hint: " in done.stderr
    [row] = json.loads(bench.run("pipeline", "check", "case", "--json").stdout)
    assert (row["path"], row["line"] > 0) == (str(path), True)


def test_check_tells_of_all_files_and_fails_if_one_is_bad(bench: Bench) -> None:
    good = write(bench, "pipelines/good.yaml", "process: [mock]\n")
    bad = write(bench, "pipelines/bad.toml", 'process = ["nobody"]\n')
    done = bench.run("pipeline", "check")
    assert done.returncode == 2
    assert done.stdout == f"{good}: 1 step\n"
    assert f"{bad}:1: there is no agent and no profile 'nobody'" in done.stderr


def test_check_without_a_pipeline_says_how_to_begin(bench: Bench) -> None:
    done = bench.run("pipeline", "check")
    assert (done.returncode, "tillerman init" in done.stdout) == (0, True)
    missing = bench.run("pipeline", "check", "nope")
    assert (missing.returncode, "there is no pipeline 'nope'" in missing.stderr) == (2, True)
    assert bench.run("pipeline", "check", "nope.yaml").returncode == 2


def test_an_untrusted_pipeline_is_checked_with_a_warning(bench: Bench) -> None:
    path = write(bench, "pipelines/mine.yaml", "process: [mock]\n")
    assert "is not trusted as it is now" in bench.run("pipeline", "check").stderr
    bench.run("trust", "--yes")
    assert bench.run("pipeline", "check").stderr == ""
    path.write_text("process: [mock, mock]\n")
    assert "is not trusted as it is now" in bench.run("pipeline", "check").stderr


def test_graph_draws_with_lines_with_ascii_and_as_a_flowchart(bench: Bench) -> None:
    text = "steps:\n- {id: a, run: make}\n- {id: b, run: test}\n- {id: c, needs: a, run: lint}\n"
    write(bench, "pipelines/three.yaml", text)
    drawn = bench.run("pipeline", "graph", "three").stdout.splitlines()
    assert [line.partition("  run")[0] for line in drawn] == ["● a", "├─╮", "│ ● b", "│", "●   c"]
    ascii = bench.run("pipeline", "graph", "three", "--ascii").stdout
    assert ascii.isascii()
    assert bench.run("pipeline", "graph", "three", PYTHONIOENCODING="ascii").stdout == ascii
    chart = bench.run("pipeline", "graph", "three", "--mermaid").stdout
    assert chart.startswith("flowchart TD\n")
    assert "step_a --> step_c" in chart
    graph = json.loads(bench.run("pipeline", "graph", "three", "--json").stdout)
    assert [(step["id"], step["needs"]) for step in graph["steps"]] == [
        ("a", []),
        ("b", ["a"]),
        ("c", ["a"]),
    ]


def test_without_pyyaml_the_error_says_how_to_install_it(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "broken/yaml").mkdir(parents=True)
    (tmp_path / "broken/yaml/__init__.py").write_text("raise ImportError('absent')\n")
    path = write(bench, "pipelines/mine.yaml", "process: [mock]\n")
    done = subprocess.run(
        [sys.executable, "-m", "tillerman", "pipeline", "check", str(path)],
        cwd=bench.project,
        env=bench.environment | {"PYTHONPATH": str(tmp_path / "broken")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "PyYAML, which is not installed" in done.stderr
    assert "tillerman[pipelines]" in done.stderr or "[pipelines]" in done.stderr


_COMPLETE = """{script}
COMP_WORDS=(tillerman pipeline {command} ''); COMP_CWORD=3
_tillerman; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize("command", ["check", "graph"])
def test_bash_completes_the_names_of_pipelines(bench: Bench, command: str) -> None:
    write(bench, "pipelines/first.yaml", "process: [mock]\n")
    write(bench, "pipelines/broken.toml", "process = [\n")
    if not (bash := shutil.which("bash")):
        pytest.skip("bash is not installed")
    script = bench.run("completion", "bash").stdout
    folder = Path(sys.executable).parent
    done = subprocess.run(
        [bash],
        input=_COMPLETE.format(script=script, command=command),
        cwd=bench.project,
        env=bench.environment | {"PATH": f"{folder}:{bench.environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert {"first", "broken"} <= set(done.stdout.split())


def test_the_schema_of_pipeline_files_in_the_docs_is_the_program_s(bench: Bench) -> None:
    stored = (CHECKOUT / "docs/pipeline.schema.json").read_text()
    assert bench.run("schema", "--pipelines").stdout == stored, "run: make docs"
