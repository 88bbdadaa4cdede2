"""The hint that installs an extra is right for every way of installing tillerman."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tillerman.harness.extras import install_command

CHECKOUT = json.dumps({"url": "file:///home/me/my%20code", "dir_info": {"editable": True}})
FOLDER = json.dumps({"url": "file:///home/me/tillerman", "dir_info": {}})
ADDRESS = json.dumps({"url": "https://example.org/t.git", "vcs_info": {"vcs": "git"}})
INDEX = json.dumps({})


@pytest.mark.parametrize(
    ("marker", "begins"),
    [
        (None, f"{sys.executable} -m pip install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("uv-receipt.toml", "uv tool install --force"),
    ],
)
@pytest.mark.parametrize(
    ("direct_url", "ends"),
    [
        (CHECKOUT, "-e '/home/me/my code[mcp]'"),
        (FOLDER, "'/home/me/tillerman[mcp]'"),
        (ADDRESS, "'tillerman[mcp] @ https://example.org/t.git'"),
        (INDEX, "'tillerman[mcp]'"),
    ],
)
def test_the_command_fits_how_tillerman_was_installed(
    tmp_path: Path, marker: str | None, begins: str, direct_url: str, ends: str
) -> None:
    if marker:
        (tmp_path / marker).touch()
    found = install_command("mcp", prefix=str(tmp_path), direct_url=direct_url)
    assert found == f"{begins} {ends}"


def test_this_checkout_is_installed_from_its_folder() -> None:
    program, option, quoted = install_command("mcp").rsplit(" ", 2)
    assert (program, option) == (f"{sys.executable} -m pip install", "-e")
    folder = Path(quoted.strip("'").removesuffix("[mcp]"))
    assert folder.resolve() == Path(__file__).parents[2].resolve()
