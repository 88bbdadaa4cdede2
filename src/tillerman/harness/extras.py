"""The command that installs an optional dependency, by how this tillerman was installed."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = "tillerman"


def install_command(extra: str, *, prefix: str = sys.prefix, direct_url: str | None = None) -> str:
    """`prefix` is the environment's folder, `direct_url` pip's record of a source other than an
    index (direct_url.json)."""
    recorded = json.loads(direct_url or _direct_url() or "{}")
    wanted, editable = f"{_NAME}[{extra}]", ""
    if url := str(recorded.get("url", "")):
        parts = urlsplit(url)
        wanted = (
            f"{unquote(parts.path)}[{extra}]" if parts.scheme == "file" else f"{wanted} @ {url}"
        )
        editable = "-e " if recorded.get("dir_info", {}).get("editable") else ""
    if (Path(prefix) / "pipx_metadata.json").is_file():
        return f"pipx install --force {editable}'{wanted}'"
    if (Path(prefix) / "uv-receipt.toml").is_file():
        return f"uv tool install --force {editable}'{wanted}'"
    return f"{sys.executable} -m pip install {editable}'{wanted}'"


def _direct_url() -> str | None:
    try:
        return distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
