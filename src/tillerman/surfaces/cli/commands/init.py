"""`tillerman init`: writes the first profiles and pipelines of a project, and no file twice."""

from __future__ import annotations

from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

from tillerman.config.project_trust import FOLDER, find_project, read_folder, repository
from tillerman.core.errors import ConfigError, UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.pipelines import init_files
from tillerman.surfaces.cli.views.output import emit, emit_json

FILES = (
    "config.toml",
    "agents/developer.md",
    "agents/reviewer.md",
    "pipelines/simple-task.yaml",
    "pipelines/code-review.yaml",
)
MINIMAL = ("agents/developer.md", "pipelines/simple-task.yaml")


def init(options: Namespace) -> int:
    if not options.folder.is_dir():
        raise UsageError(
            f"{options.folder}: no such folder", hint="create it, or give another folder"
        )
    start = options.folder.absolute()
    folder = (find_project(start) or repository(start) or start) / FOLDER
    _check_links(folder)
    written: list[str] = []
    kept: list[str] = []
    for name in MINIMAL if options.minimal else FILES:
        (written if _write(folder / name, name) else kept).append(str(folder / name))
    if options.json:
        emit_json({"folder": str(folder), "written": written, "kept": kept})
        return 0
    for path in written:
        emit(f"wrote {clean(path)}")
    for path in kept:
        emit(f"kept {clean(path)}: it is there already")
    if find_spec("yaml") is None:
        from tillerman.harness.extras import install_command

        emit(f"pipelines in YAML need PyYAML: {install_command('pipelines')}")
    emit("next: read and change them, then `tillerman trust` and `tillerman pipeline check`")
    return 0


def _check_links(folder: Path) -> None:
    """A link in place of a folder would lead the files to where nobody looks for them."""
    found = read_folder(folder.parent)
    for name, what in (found.others if found else {}).items():
        if name in (".", "agents", "pipelines"):
            at = folder if name == "." else folder / name
            raise ConfigError(f"{at} is not a folder: {what}", hint="replace it with a real folder")


def _write(path: Path, name: str) -> bool:
    """False if the file exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (Path(init_files.__file__).parent / name).read_bytes()
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True
