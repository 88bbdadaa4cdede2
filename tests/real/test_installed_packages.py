"""The built wheel, installed with pip into empty environments: bare and with each extra."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import packaging
import pytest

import tillerman
from tests import CHECKOUT

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
DOWNLOAD = 240
LOCKED = re.findall(
    r"^([\w.-]+==[^\s;]+)", (CHECKOUT / "requirements/dev.lock").read_text(), re.MULTILINE
)

# Prints the distributions there are, and those that the metadata of tillerman declares.
REPORT = """
import json, sys
from importlib.metadata import distribution, distributions
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

def declared(name, extras, seen):
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": e}) for e in extras):
            key = canonicalize_name(wanted.name)
            assert wanted.specifier.contains(distribution(key).version, prereleases=True), line
            if (key, *sorted(wanted.extras)) not in seen:
                seen.add((key, *sorted(wanted.extras)))
                declared(key, ["", *wanted.extras], seen)
    return {key for key, *_ in seen}

print(json.dumps({
    "installed": sorted({canonicalize_name(d.metadata["Name"]) for d in distributions()}),
    "declared": sorted({"tillerman"} | declared("tillerman", ["", *sys.argv[1].split()], set())),
}))
"""
IMPORTS = """
import pkgutil, sys
from importlib import import_module
import tillerman
WITH_EXTRAS = (
    "tillerman.mcp", "tillerman.http_server", "tillerman.surfaces.server",
    "tillerman.surfaces.page", "tillerman.pipelines", "tillerman.agents.cursor_cloud",
)
missing = set()
for module in pkgutil.walk_packages(tillerman.__path__, "tillerman."):
    if "__main__" in module.name or module.name.startswith("tillerman.testing"):
        continue
    try:
        import_module(module.name)
    except ModuleNotFoundError as error:
        assert module.name.startswith(WITH_EXTRAS), module.name
        missing.add(error.name.partition(".")[0])
print(*sorted(missing))
"""
TURN = """
import tillerman
print(tillerman.sync.ask('[{"say": "Hello."}]', agent="mock", approve="none").text)
"""


def interpreters() -> list[Path]:
    """One of each supported version: on PATH, or installed by pyenv."""
    names = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    folders = [Path(one) for one in os.environ["PATH"].split(os.pathsep)]
    found = {}
    for name in names:
        pyenv = sorted(Path.home().glob(f".pyenv/versions/{name}.*/bin"))
        for folder in [*pyenv, *folders]:
            program = folder / f"python{name}"
            if name not in found and program.is_file() and _runs(program):
                found[name] = program
    return list(found.values())


def _runs(program: Path) -> bool:
    words = [program, "-c", "import venv"]
    return subprocess.run(words, capture_output=True, timeout=30).returncode == 0


def run(words: Sequence[str | Path], folder: Path, timeout: float = DOWNLOAD) -> str:
    """With pip as this machine configures it, and no other environment."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("VIRTUAL_ENV", "PYTHON"))}
    ran = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**kept, "TILLERMAN_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], CHECKOUT)
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "mdurl"]
    if subprocess.run(words, capture_output=True, timeout=DOWNLOAD).returncode:
        pytest.skip("pip reaches no index")
    [built] = folder.glob("tillerman-*.whl")
    return built


def pip(python: Path, folder: Path, wanted: str) -> None:
    """With the locked versions, so that a release of a dependency cannot change the result."""
    (folder / "constraints.txt").write_text("\n".join(LOCKED))
    words = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile"]
    run([*words, "-c", "constraints.txt", wanted], folder)


@pytest.mark.parametrize("python", interpreters(), ids=lambda path: path.name)
def test_the_wheel_and_each_extra_bring_only_what_they_declare(
    python: Path, wheel: Path, tmp_path: Path
) -> None:
    run([python, "-m", "venv", "--without-pip", tmp_path / "venv"], tmp_path)
    made = tmp_path / "venv/bin/python"
    tools = shutil.copytree(Path(packaging.__file__).parent, tmp_path / "tools/packaging").parent
    report = f"import sys; sys.path.append({str(tools)!r})\n{REPORT}"
    for number, extra in enumerate(["", *EXTRAS]):
        pip(made, tmp_path, f"{wheel}[{extra}]" if extra else str(wheel))
        extras = list(EXTRAS)[:number]
        found = json.loads(run([made, "-c", report, " ".join(extras)], tmp_path))
        assert found["installed"] == found["declared"]
        named = {re.split("[^a-z0-9-]", one)[0] for one in EXTRAS.get(extra, ["tillerman"])}
        assert named <= set(found["installed"])

        program = made.with_name("tillerman")
        assert run([program, "--version"], tmp_path) == f"tillerman {tillerman.__version__}\n"
        assert run([made, "-c", TURN], tmp_path) == "Hello.\n"
        missing = run([made, "-c", IMPORTS], tmp_path).split()
        assert bool(missing) == (not {"mcp", "pipelines"} <= set(extras))
