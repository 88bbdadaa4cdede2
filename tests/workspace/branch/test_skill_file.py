"""Skills: those that come with tillerman, those of a project, and their allowed content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.config.project_trust import read_folder, trust
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths, find_paths
from tillerman.workspace.branch.skill_file import (
    SHIPPED,
    Skill,
    filled_command,
    filled_prompt,
    find_skill,
    parse_skill,
)
from tillerman.workspace.branch.status import STATUSES

DIRECT = {
    "create-pr", "push-and-create-pr", "mark-ready", "check-review", "merge-pr", "cleanup-branch",
    "reopen-or-new",
}  # fmt: skip
OWN = '---\nname: mark-ready\nai: false\ncommands:\n  - ["gh", "pr", "ready", "--undo"]\n---\n'


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"TILLERMAN_HOME": str(tmp_path / "tillerman"), "HOME": str(tmp_path)})


def write(top: Path, tool: str, text: str, id: str = "mark-ready") -> Path:
    file = top / tool / "skills" / id / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_every_status_has_a_skill_that_comes_with_tillerman(paths: Paths, repository: Path) -> None:
    found = [find_skill(paths, repository, status.skill).skill for status in STATUSES]
    assert {skill.id for skill in found if not skill.needs_ai} == DIRECT
    assert {skill.id for skill in found} == {folder.name for folder in SHIPPED.iterdir()}
    assert all(skill.description and skill.prompt for skill in found)
    assert all(command[0] in ("git", "gh") for skill in found for command in skill.commands)


def test_a_projects_own_skill_counts_only_once_it_is_trusted_and_as_it_was_then(
    paths: Paths, repository: Path
) -> None:
    file = write(repository, ".tillerman", OWN)
    before = find_skill(paths, repository, "mark-ready")
    assert before.skill.source == "comes with tillerman"
    assert before.notes == (
        f"{file} is ignored, .tillerman/ is not trusted: `tillerman trust` enables it",
    )
    folder = read_folder(repository)
    assert folder
    trust(paths, folder)
    own = find_skill(paths, repository, "mark-ready")
    assert (own.skill.source, own.notes) == (str(file), ())
    assert own.skill.commands == (("gh", "pr", "ready", "--undo"),)
    file.write_text(OWN.replace("ready", "close"))
    after = find_skill(paths, repository, "mark-ready")
    assert after.skill.source == "comes with tillerman"
    assert "changed since it was trusted" in after.notes[0]


def test_other_tools_skills_come_in_their_order_and_are_prompts(
    paths: Paths, repository: Path
) -> None:
    body = "---\nname: mark-ready\nallowed-tools: Bash\nmetadata:\n  by: us\n---\nAs Claude does."
    claude = write(repository, ".claude", body)
    assert find_skill(paths, repository, "mark-ready").skill == Skill(
        "mark-ready", str(claude), prompt="As Claude does."
    )
    cursor = write(repository, ".cursor", "As Cursor does.")
    assert find_skill(paths, repository, "mark-ready").skill.source == str(cursor)


def test_commands_of_other_tools_folders_are_skipped(paths: Paths, repository: Path) -> None:
    file = write(repository, ".claude", OWN)
    found = find_skill(paths, repository, "mark-ready")
    assert found.skill.source == "comes with tillerman"
    assert found.notes == (
        f"{file} defines commands, which requires a trusted .tillerman/: skipped",
    )


def test_a_skill_that_is_a_link_out_of_the_project_is_not_read(
    paths: Paths, repository: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a key of the user's")
    file = write(repository, ".claude", "")
    file.unlink()
    file.symlink_to(secret)
    assert find_skill(paths, repository, "mark-ready").skill.source == "comes with tillerman"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('---\ncommands:\n  - ["sh", "-c", "x"]\n---\n', "skill:3: 'sh' is neither git nor gh"),
        ("---\ncommands:\n  - git push\n---\n", "skill:3: a command must be a list of strings"),
        ('---\ncommands:\n  - ["git", 1]\n---\n', "skill:3: a command must be a list of strings"),
        ('---\ncommands:\n  - ["git", "{nope}"]\n---\n', "unknown placeholder {nope}"),
        ("---\nai: maybe\n---\nx", "`ai` must be true or false, not 'maybe'"),
        ("---\nai: false\n---\nx", "a skill needs either commands or an agent"),
        ('---\nai: true\ncommands:\n  - ["git"]\n---\n', "a skill needs either commands"),
        ("---\nname: x\n", "the front matter has no end"),
        ("---\nname: x\n---\n", "the prompt is empty"),
        ("", "the prompt is empty"),
        ("x" * 300_000, "larger than 256 KB"),
    ],
)
def test_errors_in_a_skill_are_reported(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_skill(text.encode(), "x", "skill")
    assert said in wrong.value.message


def test_a_fact_never_becomes_an_option() -> None:
    command = ("git", "push", "{remote}", "refs/heads/{branch}", "-{delete}")
    facts = {"remote": "origin", "branch": "-f", "delete": "D"}
    assert filled_command(command, facts) == ("git", "push", "origin", "refs/heads/-f", "-D")
    for bad in ("--upload-pack=evil", "a\0b"):
        with pytest.raises(ConfigError, match="would be read as an option"):
            filled_command(command, facts | {"remote": bad})


def test_inserted_text_is_not_expanded_again() -> None:
    values = {"title": "{url} {reviews}", "url": "https://example.org"}
    assert filled_prompt('{title} {url} {other} {"a": 1}', values) == (
        '{url} {reviews} https://example.org {other} {"a": 1}'
    )
