"""A path below several roots is decided for each of them, whatever the agent's working
directory."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule

PROJECT = PurePath("/p")
MIGRATIONS = Rule("mine", "deny", "by hand", paths=("db/migrations/**",))
SOURCES = Rule("mine", "allow", "sources", tools=frozenset({"Write"}), paths=("src/**",))


def verdict(
    context: DecisionContext, tool: str, *rules: Rule, preset: str = "edits", **input: object
) -> str:
    asked = PermissionRequested(request_id="1", tool=tool, title="", input=input)
    return Policy.preset(preset, rules=rules).decide(asked, context).verdict


def standing(folder: str) -> DecisionContext:
    """A context of a project, with the agent in one of its folders."""
    return DecisionContext(cwd=PROJECT, base=PurePath(folder))


def opened(cwd: str, *folders: str) -> DecisionContext:
    return DecisionContext(cwd=PurePath(cwd), folders=tuple(map(PurePath, folders)))


@pytest.mark.parametrize(
    "context",
    [standing("/p/.git/hooks"), opened("/p/.git/hooks", "/p"), opened("/p", "/p/.git/hooks")],
)
def test_a_protected_name_is_one_from_inner_folders_too(context: DecisionContext) -> None:
    assert verdict(context, "Write", file_path="/p/.git/hooks/pre-commit") == "deny"
    assert verdict(context, "Bash", command="cat f > /p/.git/hooks/config") == "deny"


@pytest.mark.parametrize(
    "context", [standing("/p/db"), opened("/p/db", "/p"), opened("/p", "/p/db")]
)
def test_a_rule_on_a_path_applies_from_inner_folders_too(context: DecisionContext) -> None:
    assert verdict(context, "Write", MIGRATIONS, file_path="/p/db/migrations/1.sql") == "deny"
    assert verdict(context, "Bash", MIGRATIONS, command="rm /p/db/migrations/1.sql") == "deny"


def test_relative_paths_start_at_the_agents_working_directory() -> None:
    assert verdict(standing("/p/.git"), "Bash", command="cat f > config") == "deny"
    assert verdict(standing("/p/db"), "Write", MIGRATIONS, file_path="migrations/1.sql") == "deny"
    assert verdict(standing("/p/db"), "Write", file_path="../src/a") == "allow"
    assert verdict(standing("/p/db"), "Write", file_path="../../src/a") == "deny"


def test_what_is_allowed_is_relative_to_the_project() -> None:
    stands = standing("/p/vendor")
    assert verdict(stands, "Write", SOURCES, preset="ask", file_path="src/a") == "ask"
    assert verdict(stands, "Write", SOURCES, preset="ask", file_path="../src/a") == "allow"
    extra = opened("/p", "/p/src")
    assert verdict(extra, "Write", SOURCES, preset="ask", file_path="/p/src/a") == "allow"


def test_to_delete_an_inner_root_is_to_delete_a_root() -> None:
    assert verdict(opened("/p", "/p/sub"), "Delete", file_path="/p/sub") == "deny"
