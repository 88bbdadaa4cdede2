"""Settings of pip, as `pip config list` prints them, become variables and mounts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.fresh.package_index import PackageIndex


def test_settings_become_variables_and_local_files_are_listed(tmp_path: Path) -> None:
    for name in ("index/simple", "wheels"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ca.crt").touch()
    settings = {
        "global.cert": f"{tmp_path}/ca.crt",
        "global.extra-index-url": f"file://{tmp_path}/index/simple https://example.org/simple",
        "install.find-links": f"{tmp_path}/wheels {tmp_path}/nowhere",
        "global.timeout": "20",
    }
    listed = "".join(f"{name}={value!r}\n" for name, value in settings.items())
    found = PackageIndex.read(listed, {"https_proxy": "http://127.0.0.1:9", "SECRET": "x"})
    assert found == PackageIndex(
        variables={
            "PIP_CERT": f"{tmp_path}/ca.crt",
            "PIP_EXTRA_INDEX_URL": settings["global.extra-index-url"],
            "PIP_FIND_LINKS": settings["install.find-links"],
            "PIP_TIMEOUT": "20",
            "https_proxy": "http://127.0.0.1:9",
        },
        files=(tmp_path / "ca.crt", tmp_path / "index", tmp_path / "wheels"),
    )


def test_a_variable_wins_over_a_file_as_with_pip(tmp_path: Path) -> None:
    """pip itself lists the settings of a file and of the environment."""
    (tmp_path / "pip.conf").write_text("[global]\ntimeout = 20\nindex-url = https://file.example\n")
    words = [sys.executable, "-m", "pip", "config", "list"]
    env = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path), "PIP_TIMEOUT": "7"}
    listed = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
    variables = PackageIndex.read(listed, {}).variables
    assert variables["PIP_TIMEOUT"] == "7"
    assert variables["PIP_INDEX_URL"] == "https://file.example"
