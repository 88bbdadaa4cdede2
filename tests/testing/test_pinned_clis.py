"""The installer of pinned agent CLIs, with a stand-in for npm."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(30)

_REAL = Path(__file__).parent.parent / "real"
_PROGRAM = "node_modules/@anthropic-ai/claude-code-test/claude"
_NEWEST, _RECORDED = "2.1.325", "2.1.197"

_NPM = """#!/bin/sh
echo "$@" >> "$NPM_LOG"
[ "$1" = view ] && echo 9.9.9 && exit
[ -n "$NPM_BREAKS" ] && echo "npm: no such package" >&2 && exit 1
for word in "$@"; do
  case "$word" in
    --prefix=*) folder=${word#--prefix=} ;;
    node-*) package=${word%@*} version=${word##*@} ;;
    @*) package=${word%@*} version=${word##*@} ;;
  esac
done
case "$package" in
  node-*)
    mkdir -p "$folder/node_modules/$package/bin"
    cd "$folder/node_modules/$package/bin"
    printf '#!/bin/sh\\necho v%s\\n' "$version" > node
    chmod +x node
    exit ;;
  @google/*)
    mkdir -p "$folder/node_modules/.bin"
    cd "$folder/node_modules/.bin"
    printf '#!/bin/sh\\necho "Gemini %s. On $(node --version)."\\n' "$version" > gemini
    chmod +x gemini
    exit ;;
esac
mkdir -p "$folder/node_modules/@anthropic-ai/claude-code-test"
cd "$folder/node_modules/@anthropic-ai/claude-code-test"
printf '#!/bin/sh\\necho "%s (Claude Code)"\\n' "${NPM_LIES:-$version}" > claude
chmod +x claude
"""


@dataclass(frozen=True)
class Machine:
    """A user's cache folder and an npm that logs its arguments."""

    root: Path

    @property
    def cache(self) -> Path:
        return self.root / "cache" / "tillerman" / "clis"

    def clis(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self._python(_REAL / "clis.py", *arguments, **more)

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._python("-m", "pytest", f"--basetemp={self.root / 'tmp'}", *arguments)

    def has_node(self, version: str) -> None:
        node = self.root / "bin" / "node"
        node.write_text(f"#!/bin/sh\necho {version}\n")
        node.chmod(0o755)

    def npm_calls(self) -> list[str]:
        log = self.root / "npm.log"
        return log.read_text().splitlines() if log.exists() else []

    def _python(self, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.root / 'bin'}:{os.defpath}",
            "HOME": str(self.root),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "NPM_LOG": str(self.root / "npm.log"),
        } | more
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=25)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(_NPM)
    npm.chmod(0o755)
    return Machine(tmp_path)


def test_the_pinned_versions_are_installed_once(machine: Machine) -> None:
    first = machine.clis("install", "claude")
    second = machine.clis("install", "claude")

    programs = [machine.cache / f"claude-{v}" / _PROGRAM for v in (_NEWEST, _RECORDED)]
    assert first.stdout.split() == second.stdout.split() == [str(p) for p in programs]
    assert [p.is_file() for p in programs] == [True, True]
    assert len(machine.npm_calls()) == 2
    assert machine.clis("path", "claude", _RECORDED).stdout.strip() == str(programs[1])


def test_a_failed_install_leaves_nothing_and_gives_the_reason(machine: Machine) -> None:
    done = machine.clis("install", "claude", NPM_BREAKS="1")

    assert (done.returncode, list(machine.cache.iterdir())) == (1, [])
    assert "npm: no such package" in done.stderr


def test_a_program_that_reports_another_version_is_refused(machine: Machine) -> None:
    done = machine.clis("install", "claude", NPM_LIES="1.0.0")

    assert (done.returncode, list(machine.cache.iterdir())) == (1, [])
    assert "calls itself '1.0.0 (Claude Code)'" in done.stderr


def test_a_folder_without_its_program_is_replaced(machine: Machine) -> None:
    broken = machine.cache / f"claude-{_NEWEST}"
    (broken / "node_modules").mkdir(parents=True)

    done = machine.clis("install", "claude")

    assert (done.returncode, (broken / _PROGRAM).is_file()) == (0, True)


def test_latest_asks_for_the_newest(machine: Machine) -> None:
    done = machine.clis("install", "claude", LATEST="1")

    assert done.stdout.strip() == str(machine.cache / "claude-9.9.9" / _PROGRAM)


def test_a_cli_that_is_a_script_brings_the_node_that_the_system_lacks(machine: Machine) -> None:
    machine.has_node("v20.1.0")

    done = machine.clis("install", "gemini")

    [node] = machine.cache.glob("node-22.*/node_modules/node-*/bin/node")
    assert (done.returncode, len(done.stdout.split()), node.is_file()) == (0, 1, True), done.stderr


def test_a_new_enough_node_of_the_system_is_used(machine: Machine) -> None:
    machine.has_node("v24.0.0")

    done = machine.clis("install", "gemini")

    assert (done.returncode, list(machine.cache.glob("node-*"))) == (0, [])
    assert [call for call in machine.npm_calls() if " node-" in call] == []


def test_without_npm_the_message_names_what_to_install(machine: Machine) -> None:
    done = machine.clis("install", "claude", PATH=str(machine.root / "empty"))

    assert (done.returncode, done.stderr) == (
        1,
        "npm is needed to install agent CLIs; install Node.js with npm\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["path", "claude", _NEWEST], "python tests/real/clis.py install claude"),
        (["path", "claude", "1.2.3"], f"there are: {_NEWEST}, {_RECORDED}"),
        (["install", "nobody"], "no pin for 'nobody' in clis.toml; there are: claude"),
    ],
)
def test_a_missing_cli_is_reported_by_name(
    machine: Machine, arguments: list[str], message: str
) -> None:
    done = machine.clis(*arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("marker", "outcome"), [(["-m", "real"], "2 errors"), ([], "2 skipped")], ids=["asked", "not"]
)
def test_real_tests_without_their_cli_fail_only_when_requested(
    machine: Machine, marker: list[str], outcome: str
) -> None:
    done = machine.pytest(str(_REAL / "test_model_double.py"), "-k", "thinking", *marker)

    assert outcome in done.stdout
    assert "run: python tests/real/clis.py install claude" in done.stdout
