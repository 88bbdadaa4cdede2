"""The wheel and the source archive: built without a network, installed, and used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from datetime import date
from pathlib import Path

import pytest

import tillerman

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


def test_the_wheel_of_the_source_archive_is_the_same(built: Path, tmp_path: Path) -> None:
    [archive], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
    run("tar", "-xzf", archive, cwd=tmp_path)
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=folder)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_packages_have_the_version_of_the_program(built: Path) -> None:
    names = {path.name for path in built.iterdir()}
    assert names == {
        f"tillerman-{tillerman.__version__}-py3-none-any.whl",
        f"tillerman-{tillerman.__version__}.tar.gz",
    }


def test_the_changelog_has_this_version_with_its_date() -> None:
    released = re.findall(r"^## \[(\d\S*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert released[0][0] == tillerman.__version__
    dates = [date.fromisoformat(day) for _, day in released]
    assert dates == sorted(dates, reverse=True)


def test_each_extra_adds_only_its_own_dependencies(built: Path) -> None:
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
    assert extras == {
        "cloud": {"httpx2"},
        "mcp": {"mcp"},
        "pipelines": {"dbos", "pyyaml"},
        "server": {"starlette", "uvicorn", "websockets", "segno", "python-multipart"},
    }


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
