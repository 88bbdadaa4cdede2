"""The files that start the service at login: what is in them, and what runs with them."""

from __future__ import annotations

import plistlib
import shlex
import sys
from pathlib import Path

import pytest

from tillerman.core.errors import TillermanError, UsageError
from tillerman.surfaces.server.service_install import ServicePlan, install, planned

HARD = {
    "PATH": "/bin:/opt/with space/bin",
    "TILLERMAN_HOME": '/srv/50% of $HOME/"quoted"\\here',
    "SECRET_TOKEN": "not for a file",
}


def test_a_unit_starts_this_tillerman_with_its_folders(tmp_path: Path) -> None:
    plan = planned("linux", tmp_path, HARD)
    assert plan.file == tmp_path / ".config/systemd/user/tillerman.service"
    lines = plan.text.splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert shlex.split(start.removeprefix("ExecStart=")) == [
        *(sys.executable, "-m", "tillerman", "serve")
    ]
    variables = [line.removeprefix("Environment=") for line in lines if "Environment=" in line]
    plain = [shlex.split(one)[0].replace("%%", "%") for one in variables]
    assert plain == [f"PATH={HARD['PATH']}", f"TILLERMAN_HOME={HARD['TILLERMAN_HOME']}"]
    assert "not for a file" not in plan.text


def test_an_agent_of_launchd_starts_the_same(tmp_path: Path) -> None:
    plan = planned("darwin", tmp_path, HARD)
    assert plan.file == tmp_path / "Library/LaunchAgents/tillerman.plist"
    read = plistlib.loads(plan.text.encode())
    assert read["ProgramArguments"][1:] == ["-m", "tillerman", "serve"]
    assert read["EnvironmentVariables"] == {name: HARD[name] for name in ("PATH", "TILLERMAN_HOME")}


def test_a_variable_cannot_add_a_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot contain"):
        planned("linux", tmp_path, {"PATH": "/bin\nExecStartPre=/bin/evil"})


def test_a_machine_without_a_service_manager_says_so(tmp_path: Path) -> None:
    plan = ServicePlan(tmp_path / "unit", "text", [["no-such-program-here", "enable"]])
    with pytest.raises(TillermanError, match="no-such-program-here enable") as failure:
        install(plan)
    assert "tillerman serve" in failure.value.hint
    assert plan.file.read_text() == "text"
