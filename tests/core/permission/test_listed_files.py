"""Words that a command of the same line lists: files in the folders that it lists, no others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.workspace.files.policy_lookup import DiskFiles

FILES = (".env", "a.txt", "src/app.py", "src/deep/util.py", "conf/key.pem")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "a.txt", "src", "conf"], cwd=folder, check=True)
    return folder


def verdict(workspace: Path, line: str, denied: str = ".env") -> str:
    policy = Policy.preset("auto", rules=[rule_of({"deny": "no", "path": denied}, "rules.toml:1")])
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    context = DecisionContext(
        workspace, home=Path("/home/me"), resolve=os.path.realpath, files=DiskFiles()
    )
    return policy.decide(request, context).verdict


LISTS = {  # and whether .env, and conf/key.pem, may be among what it lists
    "git ls-files": (False, True),
    "git ls-files -z": (False, True),
    "git ls-files src": (False, False),
    "git ls-files '*.py'": (False, False),
    "find src": (False, False),
    "find src -type f -print0": (False, False),
    "find . -name '*.py'": (False, False),
    "find . -type f": (True, True),
    "find . -not -name '*.py'": (True, True),
    "find . -name '*.py' -o -name '.env'": (True, True),
    "rg -l x": (False, True),
    "rg -l x src": (False, False),
    "rg --hidden -l x": (True, True),
    "rg --files src": (False, False),
    "fd py src": (False, False),
    "fd key": (False, True),
    "ls": (False, True),
    "grep -rl x src": (False, False),
    "grep -rl x .": (True, True),
    "git diff --name-only": (False, True),
    "git diff --name-only HEAD": (True, True),
    "git ls-files 2>/dev/null": (False, True),
    "find . -name '*.py' -not -path './deep/*'": (False, False),
    "git ls-files src | head -5": (False, False),
    "git ls-files src | grep -v test | sort -u": (False, False),
}
USES = ["{} | xargs cat", "{} | xargs -0 grep x", "{} | xargs wc -l | sort -n", "wc -l $({})",
        "head -n 3 $({}) | tail -n 2", "{} | xargs sed -n 1p"]  # fmt: skip


@pytest.mark.parametrize("lists", LISTS)
def test_what_is_listed_is_read_and_no_more(workspace: Path, lists: str) -> None:
    expected = tuple("ask" if may else "allow" for may in LISTS[lists])
    for use in USES:
        line = use.format(lists)
        found = verdict(workspace, line), verdict(workspace, line, "conf/key.pem")
        assert (line, found) == (line, expected)


@pytest.mark.parametrize(
    "line",
    [
        "cat list | xargs cat",
        "git ls-files | cut -c2- | xargs cat",
        "git ls-files | sed s/a.txt/.env/ | xargs cat",
        "git ls-files | grep -o 'env' | xargs cat",
        "git ls-files src | xargs cat | xargs cat",
        "git ls-files src; xargs cat",
        "git ls-files src && xargs cat",
        "git ls-files src | xargs cat $X",
        "git ls-files src | xargs -a list cat",
        "xargs cat < list",
        "find src -printf '.env\\n' | xargs cat",
        "find src -exec echo .env ';' | xargs cat",
        "find -L src | xargs cat",
        "rg x src | xargs cat",
        "rg -lr .env x src | xargs cat",
        "grep -r x src | xargs cat",
        "grep -Rl x src | xargs cat",
        "git ls-files --format=.env | xargs cat",
        "git -C src ls-files | xargs cat",
        "git diff --name-only --cached | xargs cat",
        "git diff --name-only HEAD~1 | xargs cat",
        "git diff --name-only --relative | xargs cat",
        "git diff --stat | xargs cat",
        "cd src && git diff --name-only | xargs cat",
        "cd src || git ls-files | xargs cat",
        "git ls-files src 2>&1 | xargs cat",
        "git ls-files src 2>.env | xargs cat",
        "ls -a src | xargs cat",
        "ls conf | xargs -I@ cat @",
        "git ls-files src | xargs -I@ cat ../@",
        "cat $(git ls-files src)$X",
        "cat $(cat list)",
        "cd src\ngit ls-files | xargs cat",
        "git ls-files src | (xargs cat; xargs cat)",
        "python3 list.py | xargs cat",
        "cat $(cat $(git ls-files src))",
        "git ls-files src | xargs cat | x'args' cat",
        "git ls-files src | xargs cat | 'xargs' cat",
        "git ls-files src | xargs cat | sudo ls | xargs cat",
        "git ls-files src | xargs cat | x'args' cat | sudo ls",
        "cat $(git ls-files src) | xargs cat",
    ],
)
def test_arguments_from_anywhere_else_may_be_any_file(workspace: Path, line: str) -> None:
    assert verdict(workspace, line) in ("ask", "deny")


@pytest.mark.parametrize("name", ["x .env", "x\t.env", "x\n.env", "'x", 'a"b', "a\\b"])
def test_a_name_that_xargs_splits_may_be_any_file(workspace: Path, name: str) -> None:
    (workspace / "src" / name).touch()
    assert verdict(workspace, "git ls-files src | xargs cat") == "ask"
    assert verdict(workspace, "find src | xargs cat") == "ask"


@pytest.mark.parametrize("use", ["rm -f", "sed -i s/a/b/"])
def test_what_is_listed_is_changed_and_no_more(workspace: Path, use: str) -> None:
    assert verdict(workspace, f"git ls-files src | xargs {use}") == "allow"
    assert verdict(workspace, f"cd src && git ls-files | xargs {use}") == "allow"
    assert verdict(workspace, f"find . -name '*.py' | xargs {use}") == "allow"
    assert verdict(workspace, f"git ls-files conf | xargs {use}", "*.pem") == "ask"
    assert verdict(workspace, f"find . -type f | xargs {use}") == "ask"
    (workspace / "src/.vscode").mkdir()
    (workspace / "src/.vscode/tasks.json").touch()
    assert verdict(workspace, f"find src | xargs {use}") == "ask"


def test_what_is_listed_is_not_where_it_is_copied_to(workspace: Path) -> None:
    assert verdict(workspace, "git ls-files src | xargs cp -t /tmp") == "ask"


@pytest.mark.parametrize("name", ["--files0-from=.env", "-x"])
def test_a_name_that_a_program_takes_for_an_option_may_come_to_any_file(
    workspace: Path, name: str
) -> None:
    (workspace / "src" / name).touch()
    assert verdict(workspace, "git ls-files src | xargs wc") == "ask"


def test_what_git_names_from_the_top_of_a_repository_above_may_be_any_file(
    workspace: Path,
) -> None:
    assert verdict(workspace / "src", "git diff --name-only | xargs cat") == "ask"


@pytest.mark.parametrize("line", ["find src | xargs cat", "cat $(git ls-files src)"])
def test_a_link_that_is_listed_is_read_where_it_leads(workspace: Path, line: str) -> None:
    assert verdict(workspace, line) == "allow"
    (workspace / "src/plain.txt").symlink_to("../.env")
    assert verdict(workspace, line) == "ask"
