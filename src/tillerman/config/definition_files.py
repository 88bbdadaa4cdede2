"""Files in one folder of `.tillerman/`, such as profiles: the project's first, then the user's.

Those of a project that the user has not trusted are listed with the reason, without their content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tillerman.config.project_trust import project_folder, trust_state
from tillerman.paths import Paths


class DefinitionFile(Struct, frozen=True):
    name: str  # without the suffix
    path: str
    layer: Literal["project", "user"]
    data: bytes | None = None  # None: ignored, see `problem`
    problem: str = ""
    hint: str = ""


def definition_files(
    paths: Paths, cwd: Path, folder: str, suffixes: Sequence[str], largest: int, *, checked: bool
) -> Iterator[DefinitionFile]:
    """Reads at most `largest` bytes and one more of each file. `checked`: only trusted content."""
    project = project_folder(paths, cwd)
    if project:
        state = trust_state(paths, project)
        for name, data in sorted(project.files.items()):
            if not (stem := _stem(name, folder, suffixes)):
                continue
            path = str(project.path / name)
            if state == "trusted" or not checked:
                yield DefinitionFile(stem, path, "project", data)
            else:
                why = "changed since it was trusted" if state == "changed" else "not trusted"
                hint = "review it, then run `tillerman trust`"
                problem = f"this project's .tillerman/ is {why}"
                yield DefinitionFile(stem, path, "project", None, problem, hint)
    for suffix in suffixes:
        for file in sorted((paths.config / folder).glob(f"*{suffix}")):
            stem = file.name.removesuffix(suffix)
            try:
                with file.open("rb") as opened:
                    yield DefinitionFile(stem, str(file), "user", opened.read(largest + 1))
            except OSError as error:
                problem = f"cannot be read: {error.strerror}"
                yield DefinitionFile(stem, str(file), "user", None, problem, "fix its permissions")


def _stem(name: str, folder: str, suffixes: Sequence[str]) -> str:
    inside, _, file = name.partition("/")
    suffix = next((one for one in suffixes if file.endswith(one)), "")
    return file.removesuffix(suffix) if inside == folder and suffix else ""
