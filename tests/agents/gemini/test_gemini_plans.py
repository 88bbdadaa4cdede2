"""The plan that Gemini CLI presents by a file's path is read, and no other file is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tillerman.agents.gemini import tool_titles
from tillerman.agents.gemini.plans import presented

ID = "a385111b-6329-46c8-b00e-d5b0edd43d73"
ASKS = "Requesting plan approval for: "


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    folder = tmp_path / ".gemini" / "tmp" / "proj" / ID / "plans"
    folder.mkdir(parents=True)
    (folder / "the-plan.md").write_text("# Look\n\n1. at herons\n")
    return folder


def joined(plans: Path, name: str) -> str:
    """As Gemini CLI joins the two: by node's path.join, even if the name is absolute."""
    return os.path.normpath(f"{plans}/{name}")


def shown(plans: Path, name: str, session: str = ID) -> str:
    input = tool_titles.input("exit_plan_mode", f"{ASKS}{joined(plans, name)}")
    return presented(plans.parents[3], session, str(input["plan_path"]))


@pytest.mark.parametrize("name", ["the-plan.md", "./the-plan.md", "sub/../the-plan.md"])
def test_a_plan_is_shown_by_its_name(plans: Path, name: str) -> None:
    assert shown(plans, name) == "# Look\n\n1. at herons\n"


def test_a_plan_is_shown_by_its_whole_path(plans: Path) -> None:
    assert shown(plans, str(plans / "the-plan.md")) == "# Look\n\n1. at herons\n"


def test_of_two_candidates_the_file_that_gemini_uses_is_shown(plans: Path) -> None:
    decoy = Path(joined(plans, str(plans / "the-plan.md")))
    decoy.parent.mkdir(parents=True)
    decoy.write_text("harmless")
    assert shown(plans, str(plans / "the-plan.md")) == "# Look\n\n1. at herons\n"


def test_no_file_elsewhere_is_read(plans: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (plans / "link.md").symlink_to(secret)
    (plans / "out").symlink_to(tmp_path)
    other = plans.parents[1] / "another-session" / "plans"
    other.mkdir(parents=True)
    (other / "the-plan.md").write_text("of another session")
    os.mkfifo(plans / "pipe.md")
    names = [
        "link.md", "out/secret.md", "../../../../../secret.md", str(secret), "pipe.md", "",
        "../../another-session/plans/the-plan.md", str(other / "the-plan.md"), "none.md", "a\0b",
    ]  # fmt: skip
    for name in names:
        assert shown(plans, name or ".") == "", name


@pytest.mark.parametrize("session", ["", "*", "..", "a*", "../proj"])
def test_the_session_is_found_by_its_prefix(plans: Path, session: str) -> None:
    assert shown(plans, "the-plan.md", session) == ""


def test_a_long_plan_names_where_the_rest_is(plans: Path) -> None:
    (plans / "long.md").write_text("word " * 100_000)
    reported = shown(plans, "long.md")
    assert len(reported) < 300_000
    assert reported.endswith(
        f"262144 of 500000 bytes are shown. The complete plan is in {plans}/long.md.)"
    )
