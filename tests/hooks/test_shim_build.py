"""The shim is built at first use, stored, and replaced by Python if it cannot be built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.hooks.hook_desk import Ran, run
from tillerman.hooks.server import HookAsked, HookReply, HookServer
from tillerman.hooks.shim_builder import (
    SCRIPT,
    SOURCE,
    Shim,
    compiled_shim,
    python_shim,
    ready_shim,
)

PATH = os.environ.get("PATH", os.defpath)
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def counting_compiler(folder: Path) -> str:
    """A path whose compiler writes a line on every call."""
    real = shutil.which("cc")
    program(folder, "cc", f'echo called >> {folder}/calls\nexec {real} "$@"')
    return f"{folder}:{PATH}"


@needs_compiler
@pytest.mark.parametrize("more", [[], ["-std=c11", "-pedantic"], ["-O0"], ["-O3"]])
def test_the_source_has_no_warnings(tmp_path: Path, more: list[str]) -> None:
    words = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", *more, "-o", tmp_path / "shim", SOURCE]
    made = subprocess.run(words, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")


@needs_compiler
def test_it_is_compiled_once(tmp_path: Path) -> None:
    path = counting_compiler(tmp_path / "bin")
    first, again = (compiled_shim(tmp_path / "cache", path) for _ in range(2))
    assert first and first == again
    assert (tmp_path / "bin/calls").read_text() == "called\n"
    folder = tmp_path / "cache/shim"
    assert [str(file) for file in folder.iterdir()] == [*first.words]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Path(first.words[0]).stat().st_mode & 0o777 == 0o500


@needs_compiler
def test_many_builds_at_once_make_one(tmp_path: Path) -> None:
    made: list[Shim | None] = []
    threads = [
        threading.Thread(target=lambda: made.append(compiled_shim(tmp_path / "cache", PATH)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 6
    assert made[0] is not None
    assert set(made) == {made[0]}
    assert [str(file) for file in (tmp_path / "cache/shim").iterdir()] == [*made[0].words]


@needs_compiler
@pytest.mark.parametrize("damage", ["empty", "cut", "another program", "not to be run", "a folder"])
def test_a_damaged_shim_is_built_again(tmp_path: Path, damage: str) -> None:
    shim = compiled_shim(tmp_path / "cache", PATH)
    assert shim
    file = Path(shim.words[0])
    file.chmod(0o700)
    match damage:
        case "empty":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(file.read_bytes()[:5000])
        case "another program":
            file.write_text("#!/bin/sh\nexit 0\n")
        case "not to be run":
            file.write_text("#!/bin/sh\nexit 0\n")
            file.chmod(0o400)
        case "a folder":
            file.unlink()
            file.mkdir()
    again = ready_shim(tmp_path / "cache", path=PATH)
    if damage == "a folder":  # nothing can be put there
        assert again.kind == "python"
    else:
        assert again == shim


@pytest.mark.parametrize(
    "compiler",
    [
        "exit 1",
        "exit 0",
        "kill -9 $$",
        'while [ "$1" != -o ]; do shift; done; echo junk > "$2"',
        'while [ "$1" != -o ]; do shift; done; printf "#!/bin/sh\\nexit 0\\n" > "$2"',
    ],
    ids=["fails", "makes nothing", "dies", "makes junk", "makes what always allows"],
)
def test_a_broken_compiler_falls_back_to_the_python_shim(tmp_path: Path, compiler: str) -> None:
    program(tmp_path / "bin", "cc", compiler)
    shim = ready_shim(tmp_path / "cache", path=f"{tmp_path / 'bin'}:{PATH}")
    assert shim == python_shim(tmp_path / "cache")
    assert [file.suffix for file in (tmp_path / "cache/shim").iterdir()] == [".pyc"]


def test_without_a_compiler_the_python_shim_is_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    shim = ready_shim(tmp_path / "cache", path=str(tmp_path / "empty"))
    assert shim == python_shim(tmp_path / "cache")


def test_a_compiler_in_the_workspace_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "cc", "touch called")
    monkeypatch.chdir(tmp_path)
    assert ready_shim(tmp_path / "cache", path="bin:.:").kind == "python"
    assert not (tmp_path / "called").exists()


def test_the_build_leaves_nothing_in_the_package_folder(tmp_path: Path) -> None:
    """A virtual environment in the project can be written by its agents."""
    for shim in (python_shim(tmp_path), compiled_shim(tmp_path, PATH)):
        if shim:
            assert Path(shim.words[-1]).parent == tmp_path / "shim"
            assert not Path(shim.words[0]).is_symlink()


async def test_without_a_writable_cache_the_packages_own_file_is_run(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("in the way")
    shim = ready_shim(cache, path=PATH)
    assert shim.words == (os.path.realpath(sys.executable), "-I", "-S", str(SCRIPT))

    def allow(asked: HookAsked) -> None:
        asked.reply(HookReply(asked.payload))

    server = await HookServer.open(tmp_path / "hooks", allow, shim=shim)
    command = server.command("cursor", "preToolUse", timeout=20)
    assert await run(command, b"x") == Ran(0, b"x", b"")
    await server.close()


async def test_a_server_finds_its_shim_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    server = await HookServer.open(tmp_path / "hooks", lambda asked: None)
    assert Path(server.shim.words[-1]).parent == tmp_path / "home/cache/shim"
    assert server.command("cursor", "preToolUse", timeout=20).startswith(server.shim.words[0])
    await server.close()


def test_the_python_shim_loads_next_to_nothing(tmp_path: Path) -> None:
    """Each module would be loaded on every tool call."""
    (tmp_path / "empty.py").write_text("")
    assert _modules(SCRIPT) - _modules(tmp_path / "empty.py") == {"_socket"}


def _modules(script: Path) -> set[str]:
    words = [os.path.realpath(sys.executable), "-I", "-S", "-X", "importtime", script]
    output = subprocess.run(words, capture_output=True, text=True)
    reported = [line.split("|") for line in output.stderr.splitlines()]
    return {columns[2].strip() for columns in reported if len(columns) == 3}
