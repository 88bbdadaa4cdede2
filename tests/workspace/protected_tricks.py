"""Ways in which a shell command writes to a protected name, and the expected content afterwards."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tillerman.core.permission import guarded_names

# Each is also a git config that names a program.
GOOD, EVIL = b"[core] pager = as the user wrote it\n", b"[core] hooksPath = evil"

# One of each sort, for the short form.
SOME = (".mcp.json", ".env", ".claude", ".git/config", ".git/hooks")
SPECIFIED = (
    ".claude", ".cursor", ".codex", ".gemini", ".qwen", ".opencode", ".agents", ".mcp.json",
    ".vscode", ".idea", ".husky", ".git/config", ".git/hooks", ".env", ".env.local", ".envrc",
    ".tillerman",
)  # fmt: skip
OTHERS = (
    *sorted(guarded_names.PROTECTED - {".git"} - set(SPECIFIED)),
    ".github/workflows",
    ".github/agents",
)

_FOLDERS = frozenset({
    ".claude", ".cursor", ".codex", ".gemini", ".qwen", ".opencode", ".agents", ".vscode", ".idea",
    ".husky", ".git/hooks", ".tillerman", ".copilot", ".windsurf", ".continue", ".roo", ".cline",
    ".kiro", ".junie", ".zed", ".amp", ".devcontainer", ".githooks", ".circleci", ".buildkite",
    ".woodpecker", ".teamcity", ".gitea", ".forgejo", ".semaphore", ".builds", ".tekton",
    ".harness", ".github/workflows", ".github/agents",
})  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    trick: str
    present: bool

    def __str__(self) -> str:
        return f"{self.name}-{self.trick}-{'present' if self.present else 'absent'}"

    @property
    def is_file(self) -> bool:
        return self.name not in _FOLDERS

    @property
    def file(self) -> str:
        """The written file: the name itself, or a file in it."""
        return f"{self.name}/settings.json" if self.name in _FOLDERS else self.name

    def prepare(self, root: Path) -> None:
        (root / "src").mkdir(parents=True)
        (root / "src" / "main.py").write_bytes(b"pass\n")
        if self.name.startswith(".git/"):
            (root / ".git").mkdir()
            (root / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
        elif "/" in self.name:
            (root / self.name).parent.mkdir()
        if self.present:
            path = root / self.file
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(GOOD)
            path.chmod(0o640)

    def command(self, root: Path, outside: Path) -> str:
        """Leaves its changes; `outside` is a folder with a file of the same name."""
        folder, _, last = self.name.rpartition("/")
        quoted = {
            "name": shlex.quote(self.name),
            "file": shlex.quote(self.file),
            "parent": shlex.quote(folder or "."),
            "folder": shlex.quote(os.path.dirname(self.file) or "."),  # noqa: PTH120
            "upper": shlex.quote(f"{folder}/{last.upper()}" if folder else last.upper()),
            "mixed": shlex.quote(f"{folder}/{_wide(last)}" if folder else _wide(last)),
            "hidden": shlex.quote(f"{folder}/{last}\u200d" if folder else f"{last}\u200d"),
            "outside": shlex.quote(str(outside)),
            "root": shlex.quote(root.name),
            "evil": shlex.quote(EVIL.decode()),
        }
        return _TRICKS[self.trick].format(**quoted)


def _wide(name: str) -> str:
    """The last letter as a full-width one: the same letter after NFKC."""
    at = max(at for at, c in enumerate(name) if c.isalpha())
    return name[:at] + chr(ord(name[at]) + 0xFEE0) + name[at + 1 :]


_TRICKS = {
    "create": "mkdir -p {folder}; echo {evil} > {file}",
    "edit": "echo {evil} >> {file}",
    "mode": "chmod 777 {file}",
    "delete": "rm -rf {name}",
    "rename over": "echo {evil} > x; mkdir -p {folder}; mv -f x {file}",
    "replaced": "mkdir d; echo {evil} > d/settings.json; rm -rf {name}; mv d {name}",
    "moved": "mv {name} was; mkdir -p {folder}; echo {evil} > {file}",
    "rename parent": (
        "if [ {parent} = . ]; then cd .. && mv {root} was && mkdir {root} && cd {root}; "
        "else mv {parent} was && mkdir {parent}; fi; mkdir -p {folder}; echo {evil} > {file}"
    ),
    "symlink": (
        "mkdir d; echo {evil} > d/settings.json; cp d/settings.json e; rm -rf {name}; "
        "if [ {name} = {file} ]; then ln -s $PWD/e {name}; else ln -s d {name}; fi"
    ),
    "symlink out": "rm -rf {name}; ln -s {outside} {name}",
    "symlinked parent": (
        "if [ {parent} = . ]; then rm -rf {name}; ln -s {outside}/settings.json {name}; "
        "else mv {parent} was; mkdir d; ln -s {outside} {parent}; fi"
    ),
    "hard link": "echo {evil} > x; mkdir -p {folder}; ln -f x {file}",
    "hard link out": "ln {file} x; echo {evil} > x",
    "second name": "ln {file} x",
    "case variant": (
        "if [ {name} = {file} ]; then echo {evil} > {upper}; "
        "else mkdir {upper}; echo {evil} > {upper}/settings.json; fi"
    ),
    "Unicode variant": (
        "if [ {name} = {file} ]; then echo {evil} > {mixed}; "
        "else mkdir {mixed}; echo {evil} > {mixed}/settings.json; fi"
    ),
    "invisible variant": "echo {evil} > {hidden}",
    "pipe": "rm -rf {name}; mkfifo {name}",
}
_ON_NOTHING = frozenset({"edit", "mode", "delete", "moved", "hard link out", "second name"})


def cases(chosen: tuple[str, ...]) -> list[Case]:
    return [
        Case(name, trick, present)
        for name in chosen
        for trick in _TRICKS
        for present in (True, False)
        if present or trick not in _ON_NOTHING
    ]


def guarded(root: Path) -> dict[str, tuple[int, bytes]]:
    """The content of a protected name, however spelled, with its mode."""
    found: dict[str, tuple[int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            with suppress(FileNotFoundError):  # taken away just now
                status = path.lstat()
                inner = path.relative_to(root).as_posix()
                if not inner.startswith("was/") and _is_guarded(
                    inner, stat.S_ISDIR(status.st_mode)
                ):
                    found[inner] = (status.st_mode, _content(path, status.st_mode))
    for inner in [one for one in found if one.endswith(".git/config")]:
        mode, content = found[inner]
        if stat.S_ISREG(mode):
            found[inner] = (mode, programs(content))
    return found


def without_empty_configs(found: dict[str, tuple[int, bytes]]) -> dict[str, tuple[int, bytes]]:
    """A git config may be created if it names no program, and so may an empty folder for hooks."""
    made = {(".git/config", b""), (".git/hooks", b"(folder)")}
    return {path: one for path, one in found.items() if (path, one[1]) not in made}


def programs(config: bytes) -> bytes:
    """The programs of a git config, as git itself reads it."""
    reported = subprocess.run(
        ["git", "config", "--list", "-f", "-"], input=config, capture_output=True, check=True
    ).stdout
    return b"\n".join(
        line for line in reported.splitlines() if b"pager" in line or b"hooks" in line
    )


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISREG(mode):
        return path.read_bytes()
    if stat.S_ISLNK(mode):
        return b"-> " + os.fsencode(path.readlink())
    return b"(folder)" if stat.S_ISDIR(mode) else b"(neither file nor folder)"


def _is_guarded(path: str, is_folder: bool) -> bool:
    from tillerman.workspace.protection.protected_names import plain

    parts = [plain(part) for part in path.split("/")]
    if parts[0] == ".git":
        return len(parts) == 1 or parts[1] in ("config", "hooks")
    if parts == [".github"]:
        return not is_folder  # of which only some of what is in it counts
    return guarded_names.is_protected(parts)
