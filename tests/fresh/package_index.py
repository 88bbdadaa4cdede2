"""The package index that pip uses on this machine, for a pip that runs in another root.

Nothing of it is named here: pip is asked for its settings, which become variables, and the local
files that they name are listed, so that they can be mounted at the same paths.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@dataclass(frozen=True)
class PackageIndex:
    variables: dict[str, str]
    files: tuple[Path, ...]

    @classmethod
    def of_this_machine(cls) -> PackageIndex:
        words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return cls.read(listed, os.environ)

    @classmethod
    def read(cls, listed: str, environment: Mapping[str, str]) -> PackageIndex:
        """`listed`: the output of `pip config list`, `section.key='value'` on each line."""
        variables = {}
        for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
            name, _, value = line.partition("=")
            key = name.rpartition(".")[2].replace("-", "_").upper()
            variables[f"PIP_{key}"] = str(ast.literal_eval(value))
        variables |= {name: text for name, text in environment.items() if name.lower() in _PROXIES}
        found = (_local(word) for value in variables.values() for word in value.split())
        return cls(variables, tuple(dict.fromkeys(path for path in found if path)))


def _local(word: str) -> Path | None:
    """The file or folder of this machine that a word of a setting names."""
    address = urlsplit(word)
    path = Path(unquote(address.path)) if address.scheme == "file" else Path(word)
    if path.name == "simple" and path.parent != path.parent.parent:
        path = path.parent  # an index links to the files beside it
    return path if path.is_absolute() and path.exists() else None
