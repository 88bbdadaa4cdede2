"""Installs DesktopCommander at one version into the user's cache folder, for comparison."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGE = "@wonderwhy-er/desktop-commander"
VERSION = "0.2.48"
PATH = "/usr/local/bin:/usr/bin:/bin"  # without wrappers of python3, which it runs in each call
_DEFAULTS = """
const { configManager } = await import(process.argv[1]);
process.stdout.write(JSON.stringify(configManager.getDefaultConfig()));
"""
# It requires a newer version than every registry has.
OVERRIDES = {"typedarray.prototype.slice": "1.0.5"}


def command() -> list[str]:
    """The command; installs it the first time. OSError if that fails."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise OSError("it needs Node.js with npm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tillerman", "clis")
    folder = cache / f"desktop-commander-{VERSION}"
    program = folder / "node_modules" / PACKAGE / "dist" / "index.js"
    if not program.exists():
        _install(npm, folder)
    return [node, str(program)]


def prepared(home: Path) -> dict[str, str]:
    """Its environment: a separate home with its default settings.

    Except that it sends nothing and opens no browser. Without `SHELL` its default shell is
    /bin/sh, the fastest it has.
    """
    node, program = command()
    module = Path(program).with_name("config-manager.js")
    defaults = subprocess.run(
        [node, "--input-type=module", "-e", _DEFAULTS, str(module)],
        capture_output=True,
        env={"HOME": str(home)},
        timeout=60,
        check=True,
    )
    wanted = {"telemetryEnabled": False, "pendingWelcomeOnboarding": False}
    settings = home / ".claude-server-commander" / "config.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(json.loads(defaults.stdout) | wanted))
    return {
        "PATH": PATH,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "DESKTOP_COMMANDER_DISABLE_TELEMETRY": "true",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }


def _install(npm: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".installing-") as scratch:
        staged = Path(scratch, "staged")
        staged.mkdir()
        wanted = {"private": True, "dependencies": {PACKAGE: VERSION}, "overrides": OVERRIDES}
        (staged / "package.json").write_text(json.dumps(wanted))
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
        done = subprocess.run(
            [npm, "install", "--loglevel=error", *quiet],
            cwd=staged,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if done.returncode:
            raise OSError(f"npm could not install it: {done.stderr[-300:]}")
        shutil.rmtree(folder, ignore_errors=True)
        staged.rename(folder)
