"""No call of a tool that may read a denied file is allowed, however the file is named or found.

What a pattern finds is asked of git, bash, Python, and ripgrep if it is there.
"""

from __future__ import annotations

import glob
import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core import tools
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.core.permission.policy import Decision
from tillerman.workspace.files.policy_lookup import DiskFiles, resolved

DENIED = (
    ".env",
    "src/.env",
    "secrets/key.txt",
    "secrets/deep/a b.pem",
    "conf/prod.key",
    "Ärger.txt",
)
OTHERS = ("README.md", "src/app.py", "src/util/x.ts", "conf/dev.json", "secretsless/notes.md")
RULES = ({"deny": "no", "path": [".env", "secrets/**", "*.key", "Ärger.txt"]},)
AGENTS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot", "cursor", "acp", "mock")
COUNT = int(os.environ.get("TILLERMAN_TOOL_CALLS", "200"))


def filled(root: Path) -> Path:
    for name in (*DENIED, *OTHERS):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("KEY=1\n")
    return root


@pytest.fixture(scope="module")
def plain_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("base") / "workspace")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = filled(tmp_path_factory.mktemp("base") / "workspace")
    (root / "notes").symlink_to(".env")
    (root / "sec").symlink_to("secrets")
    (root / "src/up").symlink_to("..")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def decide(
    root: Path,
    tool: str,
    input: dict[str, Any],
    *,
    agent: str = "",
    preset: str = "auto",
    title: str = "",
) -> Decision:
    context = DecisionContext(
        root, home=root.parent, resolve=resolved, files=DiskFiles(), agent=agent
    )
    request = PermissionRequested(
        request_id="1", tool=tool, title=title, input=input, paths=tools.paths_of(input)
    )
    rules = [rule_of(table, "rules:1") for table in RULES]
    return Policy.preset(preset, rules=rules).decide(request, context)


# -- a file that is named --------------------------------------------------------------------------


def spelled(path: str, root: Path) -> Iterator[str]:
    """Ways to write a path which a file system or a tool takes for it."""
    folder, _, name = path.rpartition("/")
    base = f"{folder}/" if folder else ""
    yield from (
        path,
        f"./{path}",
        f"././/{path}",
        f"{base}/{name}" if folder else f".//{name}",
        f"src/../{path}",
        f"no/such/../../{path}",
        f"../workspace/{path}",
        str(root / path),
        f"{root}/src/../{path}",
        f"~/workspace/{path}",
        f"$HOME/workspace/{path}",
        f"${{PWD}}/{path}",
        f"file://{root}/{path}",
        f"FILE://localhost{root}/{path}",
        f"file:{root}/{path}",
        f"src/up/{path}",
        path.upper(),
        path.replace("/", "\\"),
        path.replace("e", "\\e"),
        path.replace("e", "%65"),
        path.replace(" ", "\\ "),
        path.replace("Ä", "A\u0308"),
        f" {path}",
        f"{path}\n",
        f"\u00a0\ufeff{path}\u200b ",
        f"@{path}",
        f"'{path}'",
        f'"{path}"',
        f"`{path}`",
        f"<{path}>",
        f"{path}/",
        f"{path}/.",
        f"{path}:12",
        f"{path}:3-9",
        f"{path}#L3",
        f" @./{path} ",
    )


# A file as the tools of agents name it: the tool in our words, and its input.
NAMING: tuple[tuple[str, Callable[[str], dict[str, Any]]], ...] = (
    ("Read", lambda path: {"file_path": path, "offset": 3, "limit": 10}),  # claude, mock
    ("Read", lambda path: {"absolute_path": path}),  # gemini, qwen
    ("Read", lambda path: {"filePath": path}),  # opencode
    ("Read", lambda path: {"path": path, "view_range": [1, 5]}),  # copilot, cursor
    ("Read", lambda path: {"target_file": path}),
    ("Read", lambda path: {"paths": ["README.md", path]}),
    ("Read", lambda path: {"files": [{"path": "README.md"}, {"path": path}]}),
    ("Read", lambda path: {"file_path": "README.md", "file": path}),
    ("Read", lambda path: {"uri": path}),
    ("Read", lambda path: {"path": "README.md", "args": {"target": {"name": path}}}),
    ("Write", lambda path: {"file_path": path, "content": "x"}),
    ("Edit", lambda path: {"file_path": path, "old_string": "KEY", "new_string": "x"}),
    ("Edit", lambda path: {"file_path": "README.md", "edits": [{"path": path}]}),
    ("MultiEdit", lambda path: {"file_path": path, "edits": []}),
    ("MultiEdit", lambda path: {"file_path": "x", "edits": [{"file_path": path}]}),
    ("NotebookEdit", lambda path: {"notebook_path": path, "new_source": "x"}),
    ("Delete", lambda path: {"path": path}),
    ("Rename", lambda path: {"old_path": path, "new_path": "x"}),
    ("Rename", lambda path: {"source": "README.md", "destination": path}),
    ("Grep", lambda path: {"pattern": "KEY", "path": path}),
    ("Grep", lambda path: {"pattern": "KEY", "path": "src/util", "include": path}),
    ("Glob", lambda path: {"pattern": path}),
    ("LSP", lambda path: {"operation": "hover", "filePath": path, "line": 1}),
    ("MCP", lambda path: {"path": path}),
    ("MCP", lambda path: {"paths": ["README.md", path]}),
    ("MCP", lambda path: {"filename": path}),
    ("MCP", lambda path: {"uri": path}),
    ("MCP", lambda path: {"options": {"deep": [{"where": path}]}}),
    ("MCP", lambda path: {"edits": [{"newText": "x", "target": path}]}),
    ("unknown_tool", lambda path: {"anything": path}),
)  # fmt: skip


@pytest.mark.parametrize("at", range(len(NAMING)))
def test_a_denied_file_is_denied_by_every_tool_in_every_spelling(workspace: Path, at: int) -> None:
    tool, input = NAMING[at]
    allowed = [
        (path, agent)
        for denied in DENIED
        for path in spelled(denied, workspace)
        if "\\" not in path or not is_pattern(input)
        for agent in ("", "claude")
        if decide(workspace, tool, input(path), agent=agent).verdict in ("allow", "rewrite")
    ]
    assert allowed == []


def is_pattern(input: Callable[[str], dict[str, Any]]) -> bool:
    return "include" in input("x") or input("x") == {"pattern": "x"}


@pytest.mark.parametrize("at", range(len(NAMING)))
def test_another_file_is_not_denied(plain_workspace: Path, at: int) -> None:
    tool, input = NAMING[at]
    root = plain_workspace
    said = {
        path: decide(root, tool, input(path)).verdict
        for other in OTHERS
        for path in (other, f"./{other}", str(root / other), f" {other}", f"src/../{other}")
        if not is_pattern(input) or ".." not in path
    }
    unnamed = tool == "Read" and input("x").keys() & {"uri", "files"}  # fields of no known tool
    assert set(said.values()) == {"ask" if unnamed else "allow"}, said


def test_a_file_address_is_a_file_for_tools_of_the_network(workspace: Path) -> None:
    for input in (
        {"url": f"file://{workspace}/.env"},
        {"prompt": f"What is in file://{workspace}/secrets/key.txt and <x>?"},
    ):
        assert decide(workspace, "WebFetch", input).verdict != "allow"
    assert decide(workspace, "WebFetch", {"url": "https://example.com/.env"}).verdict == "allow"


def test_the_content_of_a_file_is_not_a_path(workspace: Path) -> None:
    for input in (
        {"file_path": "x", "content": ".env"},
        {"file_path": "x", "old_string": ".env", "new_string": "a.key"},
    ):
        assert decide(workspace, "Edit", input).verdict == "allow"


@pytest.mark.parametrize("path", ["/proc/1/cwd/x", "\ud800", "a\0b", "x" * 5_000, "x/" * 3_000])
def test_a_path_that_cannot_be_looked_up_is_decided(workspace: Path, path: str) -> None:
    for tool, input in (*NAMING, ("LS", lambda path: {"path": path})):
        assert decide(workspace, tool, input(path), preset="readonly").verdict
    for line in (f"cat '{path}'", f"grep -R x '{path}'", f"ls '{path}'*"):
        assert decide(workspace, "Bash", {"command": line}).verdict


# -- files that a pattern finds --------------------------------------------------------------------


def pattern_for(path: str, chance: random.Random) -> str:
    """A pattern that some tool may match with the path."""
    found = []
    for c in path:
        turn = chance.random()
        if c == "/" or turn < 0.7:
            found.append(c)
        elif turn < 0.76:
            found.append("?")
        elif turn < 0.82:
            found.append(f"[{c}]")
        elif turn < 0.86:
            found.append("[!~]")
        elif turn < 0.9:
            found.append(f"\\{c}")
        elif turn < 0.94:
            found.append(f"{{{c},~}}")
        elif turn < 0.97:
            found.append("*")
        else:
            found.append(f"@({c}|~)")
    pattern = "".join(found)
    name = pattern.rpartition("/")[2]
    return chance.choice([
        pattern, pattern, pattern, f"**/{name}", f"**/{pattern}", f"*{name[-3:]}",
        f"{pattern[:4]}*", f"./{pattern}", f"src/../{pattern}", f"{{{pattern},~}}",
        f"*.py {pattern}", f"*.py,{pattern}", f"/{pattern}", "sec*/**", "s*", "*", "**", "!*.md",
        f"{pattern} !*.md", f"*.md !{pattern} {pattern}", f"src/up/{pattern}", f"sec/{name}",
    ])  # fmt: skip


def output(words: Sequence[str], folder: Path) -> set[str]:
    done = subprocess.run(words, cwd=folder, capture_output=True, timeout=20, check=False)
    found = done.stdout.decode("utf-8", "replace").split("\0")
    return {os.path.realpath(folder / one) for one in found if one}


def by_bash(root: Path, folder: Path, pattern: str) -> set[str]:
    script = (
        "shopt -s globstar dotglob nullglob extglob nocaseglob; IFS=; "
        f'eval \'for f in {_quoted(pattern)}; do [ -f "$f" ] && printf "%s\\0" "$f"; done\''
    )
    return output(["bash", "-c", script], folder)


def _quoted(pattern: str) -> str:
    """The pattern with nothing but its globs and braces unquoted, inside of single quotes."""
    safe = "".join(
        c if c.isalnum() or c in "*?[]{}!,@|()/.~\\-" else shlex.quote(c) for c in pattern
    )
    return safe.replace("'", "'\\''")


def by_python(root: Path, folder: Path, pattern: str) -> set[str]:
    try:
        found = glob.glob(  # noqa: PTH207
            pattern, root_dir=folder, recursive=True, include_hidden=True
        )
    except (ValueError, OSError):
        return set()
    return {os.path.realpath(folder / one) for one in found if (folder / one).is_file()}


def by_git(root: Path, folder: Path, pattern: str) -> set[str]:
    words = ["git", "grep", "-lz", "--untracked", "KEY", "--", *pattern.split()]
    return output(words, folder)


@cache
def ripgrep() -> str | None:
    named = shutil.which("rg")
    if named:
        return named
    kept = Path.home() / ".cache/tillerman/clis"
    return next(
        (str(one) for one in sorted(kept.rglob("*linux*/**/rg")) if os.access(one, os.X_OK)), None
    )


def by_ripgrep(root: Path, folder: Path, pattern: str) -> set[str]:
    return grepped(root, folder, [pattern]) | grepped(root, folder, claude_globs(pattern))


def grepped(root: Path, folder: Path, globs: Sequence[str]) -> set[str]:
    """What ripgrep finds in the folder when it runs in the workspace, or in the folder itself."""
    program = ripgrep()
    if program is None:
        return set()
    options = [word for one in globs for word in ("--glob", one)]
    common = [program, "-l0", "--hidden", "--no-ignore", *options, "KEY"]
    return output([*common, str(folder)], root) | output([*common, "./"], folder)


def claude_globs(pattern: str) -> list[str]:
    """As Claude Code splits its `glob`: at blanks, and at commas outside of braces."""
    parts: list[str] = []
    for part in pattern.split():
        parts += [part] if "{" in part and "}" in part else part.split(",")
    return [part for part in parts if part]


SEARCHES: tuple[tuple[str, Callable[[str, str], dict[str, Any]]], ...] = (
    ("Grep", lambda folder, glob: {"pattern": "KEY", "path": folder, "glob": glob}),  # claude
    ("Grep", lambda folder, glob: {"pattern": "KEY", "path": folder, "include": glob}),  # opencode
    ("Grep", lambda folder, glob: {"pattern": "KEY", "dir_path": folder, "include_pattern": glob}),
    ("Grep", lambda folder, glob: {"pattern": "KEY", "paths": [folder], "glob": glob}),  # copilot
    (
        "Grep",
        lambda folder, glob: {"pattern": "x", "cwd": "src/util", "path": folder, "glob": glob},
    ),
    ("Glob", lambda folder, glob: {"pattern": glob, "path": folder}),
    ("Glob", lambda folder, glob: {"glob_pattern": glob, "target_directory": folder}),  # cursor
    ("Read", lambda folder, glob: {"include": [glob], "paths": [folder], "recursive": True}),
)  # fmt: skip
MANY: Callable[[str], dict[str, Any]] = lambda glob: {"paths": ["README.md", glob]}  # gemini  # noqa: E731


def test_no_pattern_finds_a_denied_file_unasked(workspace: Path) -> None:
    chance = random.Random(int(os.environ.get("TILLERMAN_TOOL_SEED", "13")))
    denied = {os.path.realpath(workspace / one) for one in DENIED}
    allowed, hits = [], 0
    for _ in range(COUNT):
        path = chance.choice(DENIED)
        folder = chance.choice(
            [".", ".", "src", "conf", "secrets", "sec", "src/util", str(workspace)]
        )
        pattern = pattern_for(path, chance)
        base = workspace / folder
        found: set[str] = set()
        for search in (by_bash, by_python, by_git, by_ripgrep):
            found |= search(workspace, base, pattern)
        reached = found & denied
        if not reached:
            continue
        hits += 1
        by_links = reached - by_ripgrep(workspace, base, pattern) if ripgrep() else reached
        for tool, input in SEARCHES:
            agent = chance.choice(AGENTS)
            call = input(folder, pattern)
            if agent == "claude" and reached == by_links:
                continue  # it searches with ripgrep, which follows no links
            if decide(workspace, tool, call, agent=agent).verdict == "allow":
                allowed.append((agent, tool, call, sorted(reached)))
        if folder == "." and decide(workspace, "Read", MANY(pattern)).verdict == "allow":
            allowed.append(("", "Read", MANY(pattern), sorted(reached)))
    assert allowed == []
    assert hits > COUNT / 4


@pytest.mark.parametrize(
    "pattern",
    [
        "*.py",
        "**/*.ts",
        "*.{py,ts}",
        "src/**/*.ts",
        "*.md",
        "README.md",
        "[RS]*.md",
        "src/util/*",
        "src/util/**",
        "secretsless/**/*",
        "*.py *.ts",
        "*.py,*.ts",
    ],
)
def test_a_pattern_that_finds_none_needs_no_answer(plain_workspace: Path, pattern: str) -> None:
    for tool, input in SEARCHES[:4]:
        for agent in ("claude", "opencode"):
            decision = decide(plain_workspace, tool, input(".", pattern), agent=agent)
            assert decision.verdict == "allow", (tool, agent, decision)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_pattern_that_leads_elsewhere_is_followed(plain_workspace: Path, agent: str) -> None:
    root = plain_workspace
    keys = root.parent / "keys"
    keys.mkdir(exist_ok=True)
    (keys / "id.key").write_text("KEY=1\n")
    (root / "src/away").mkdir(exist_ok=True)
    for pattern in (f"{keys}/i*", f"{root}/../keys/*", "../keys/i?.key", "~/keys/*.k*"):
        for call in (("Glob", {"pattern": pattern}), ("Read", {"paths": [pattern]})):
            assert decide(root, *call, agent=agent).verdict != "allow", (pattern, call)
    assert decide(root, "Glob", {"pattern": f"{keys}/*.py"}, agent=agent).verdict == "allow"


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("folder", [".", "src", "secrets", "conf", "sec", ""])
def test_a_search_of_a_folder_leaves_denied_files_out_or_is_asked_about(
    workspace: Path, agent: str, folder: str
) -> None:
    for input in (
        {"pattern": "KEY", "path": folder},
        {"pattern": "KEY", "path": folder, "type": "txt"},
        {"pattern": "KEY", "path": folder, "exclude": "*.md"},
        {"pattern": "KEY", "path": folder, "exclude_pattern": "x"},
        {"pattern": "KEY", "path": folder, "-i": True, "output_mode": "content"},
        {"pattern": "KEY", "cwd": "src/util", "path": folder},
        {"pattern": "KEY", "path": "src/util", "directory": folder},
    ):
        given = {key: value for key, value in input.items() if value != ""}
        decision = decide(workspace, "Grep", given, agent=agent)
        if not folder and "src/util" in given.values():
            assert decision.verdict == "allow"
            continue
        assert decision.verdict in ("ask", "deny", "rewrite"), (given, decision)
        if decision.verdict == "rewrite":
            assert agent == "claude"
            assert decision.input is not None
            globs = claude_globs(decision.input["glob"])
            kept = grepped(workspace, workspace / (folder or "."), globs)
            denied = {os.path.realpath(workspace / one) for one in DENIED}
            assert kept.isdisjoint(denied)


@pytest.mark.parametrize("preset", ["ask", "edits", "auto", "readonly"])
def test_no_preset_allows_it(workspace: Path, preset: str) -> None:
    for tool, input in NAMING:
        for path in (".env", " .env", "secrets/key.txt"):
            assert decide(workspace, tool, input(path), preset=preset).verdict != "allow"
