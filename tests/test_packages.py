"""The wheel and the source archive: built without a network, installed, and used."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"


def run(*words: str | Path, cwd: Path, timeout: float = 120) -> str:
    ran = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def wheel_names(built: Path) -> set[str]:
    [wheel] = built.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def tracked(*folders: str) -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = run("git", "ls-files", *folders, cwd=ROOT)
    return set(listed.splitlines())


def test_the_wheel_has_every_file_of_the_sources_and_nothing_else(built: Path) -> None:
    names = {name for name in wheel_names(built) if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in tracked("src/tillerman")}


def test_the_source_archive_has_what_a_build_and_the_tests_need(built: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert tracked("src", "pyproject.toml", "README.md", "LICENSE", "examples") <= names


def test_each_extra_adds_only_what_it_says(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        [name] = [name for name in opened.namelist() if name.endswith("METADATA")]
        lines = opened.read(name).decode().splitlines()
    wanted = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist" in line]
    extras: dict[str, set[str]] = {}
    for line in wanted:
        package = line.split(">")[0].split("<")[0].split(";")[0].strip()
        extra = line.split("extra == ")[1].strip("'\"") if "extra ==" in line else ""
        extras.setdefault(extra, set()).add(package)
    assert extras.pop("") == {
        "msgspec", "apsw", "rich", "markdown-it-py", "textual", "tomlkit", "jsonschema",
    }  # fmt: skip
    assert extras == {"fast": {"uvloop"}, "mcp": {"mcp"}}


@pytest.mark.timeout(180)
def test_the_installed_wheel_runs_a_turn(built: Path, tmp_path: Path) -> None:
    """In a new environment, which finds its dependencies in this one by a `.pth` file."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv/bin/python"
    [wheel] = built.glob("*.whl")
    packages = next((tmp_path / "venv/lib").glob("python*")) / "site-packages"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps",
        "--no-compile", wheel, cwd=tmp_path,
    )  # fmt: skip
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = "import tillerman; print(tillerman.__file__)"
    assert run(python, "-c", code, cwd=tmp_path).startswith(str(packages))
    program = tmp_path / "venv/bin/tillerman"
    assert "tillerman" in run(program, "--version", cwd=tmp_path)
    assert "Hello." in run(program, "run", "-a", "mock", '[{"say": "Hello."}]', cwd=tmp_path)
    code = (
        "from tillerman import sync\n"
        "print(sync.ask('[{\"say\": \"Hello.\"}]', agent='mock', approve='none').text)"
    )
    assert run(python, "-c", code, cwd=tmp_path) == "Hello.\n"
