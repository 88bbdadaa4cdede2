"""Installs the service for this user: a systemd user unit, or a launchd agent on macOS."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from tillerman.core.errors import TillermanError, UsageError

LABEL = "tillerman"
# What the service needs to find its files and the agents, as the shell that installs it has it.
_VARIABLES = ("PATH", "TILLERMAN_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")

_UNIT = """\
[Unit]
Description=tillerman session service

[Service]
ExecStart={command}
{environment}WorkingDirectory=%h
Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStopSec=40

[Install]
WantedBy=default.target
"""
_PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN"
  "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array>{words}</array>
  <key>EnvironmentVariables</key>
  <dict>{environment}</dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
</dict>
</plist>
"""


class ServicePlan(NamedTuple):
    """The file to write, and the commands that make it count."""

    file: Path
    text: str
    commands: Sequence[Sequence[str]]


def planned(platform: str, home: Path, environment: Mapping[str, str]) -> ServicePlan:
    words = [sys.executable, "-m", "tillerman", "serve"]
    kept = {name: environment[name] for name in _VARIABLES if environment.get(name)}
    for value in (*words, *kept.values()):
        if not value.isprintable():
            raise UsageError(
                f"a service file cannot contain {value!r}",
                hint="install tillerman in a folder whose path has no control characters",
            )
    if platform == "darwin":
        file = home / "Library/LaunchAgents" / f"{LABEL}.plist"
        text = _PLIST.format(
            label=LABEL,
            words="".join(f"<string>{escape(word)}</string>" for word in words),
            environment="".join(
                f"<key>{name}</key><string>{escape(value)}</string>" for name, value in kept.items()
            ),
        )
        return ServicePlan(file, text, [["launchctl", "load", "-w", str(file)]])
    folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    file = folder / "systemd/user" / f"{LABEL}.service"
    text = _UNIT.format(
        command=" ".join(_quoted(word).replace("$", "$$") for word in words),
        environment="".join(f"Environment={_quoted(f'{k}={v}')}\n" for k, v in kept.items()),
    )
    reload = ["systemctl", "--user", "daemon-reload"]
    enable = ["systemctl", "--user", "enable", "--now", f"{LABEL}.service"]
    return ServicePlan(file, text, [reload, enable])


def install(plan: ServicePlan) -> None:
    plan.file.parent.mkdir(parents=True, exist_ok=True)
    plan.file.write_text(plan.text)
    for command in plan.commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _failed(plan, command, str(error)) from error
        if done.returncode:
            raise _failed(plan, command, done.stderr.strip() or f"exit code {done.returncode}")


def _failed(plan: ServicePlan, command: Sequence[str], why: str) -> TillermanError:
    return TillermanError(
        f"`{shlex.join(command)}` failed: {why}",
        hint=f"{plan.file} is written; without a service manager, `tillerman serve` runs it",
    )


def _quoted(word: str) -> str:
    """A word of a unit file: `%` has a meaning there, and `$` only in commands."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{plain}"'
