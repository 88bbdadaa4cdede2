"""The breadcrumb bar on real repositories, with a `gh` that answers from recordings."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.color import Color
from textual.pilot import Pilot

from tests.surfaces.tui.desk import Desk, desk
from tests.workspace.gh_stand_in import RECORDINGS, GhStandIn, failures
from tests.workspace.repositories import (
    ACTIONS,
    BRANCH,
    Git,
    change,
    git_in,
    publish,
    start_repository,
)
from tillerman.surfaces.tui.app import TillermanApp
from tillerman.surfaces.tui.bars import branch_refresh
from tillerman.surfaces.tui.bars.branch_bar import COLORS, BreadcrumbBar, BreadcrumbFrame
from tillerman.surfaces.tui.bars.branch_line import in_line, notes, stacked
from tillerman.surfaces.tui.bars.branch_refresh import RepositorySnapshot
from tillerman.surfaces.tui.dialogs.confirmation import Confirmation
from tillerman.workspace.branch.pull_request import PullRequest, PullRequestUnavailable
from tillerman.workspace.branch.status import Breadcrumb
from tillerman.workspace.files import inotify
from tillerman.workspace.git.repository_state import Repository, WorkState

PULLS = {
    "DRAFT": "pr_draft",
    "OPEN": "pr_open",
    "REVIEW": "pr_review_required",
    "CHANGES REQUESTED": "pr_changes_requested",
    "APPROVED": "pr_approved",
    "MERGE CONFLICTS": "pr_conflicts",
    "CI FAILING": "pr_ci_failing",
    "MERGED": "pr_merged",
    "CLOSED": "pr_closed",
}
BY_AGENT = ("DIRTY", "OPEN", "CHANGES REQUESTED", "MERGE CONFLICTS", "CI FAILING")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    (made / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return made


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GhStandIn:
    made = GhStandIn(tmp_path / "gh bin")
    monkeypatch.setenv("PATH", str(made.folder), prepend=":")
    made.answer("repo", "view", stdout=(RECORDINGS / "repo_view.json").read_text())
    made.fails("no pull request")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def git(root: Path) -> Git:
    return git_in(root)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository and its remote, to be copied: a dozen calls of git, once."""
    folder = tmp_path_factory.mktemp("published")
    root = folder / "work"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        start_repository(root, git_in(root))
        publish(root, git_in(root), folder / "hub.git", own_commit=True)
    return folder


@pytest.fixture
def branch(root: Path, published: Path, tmp_path: Path) -> Path:
    shutil.copytree(published / "work", root, dirs_exist_ok=True)
    shutil.copytree(published / "hub.git", tmp_path / "hub.git")
    config = root / ".git" / "config"
    config.write_text(config.read_text().replace(str(published), str(tmp_path)))
    return root


class Screen(Desk):
    def __init__(self, app: TillermanApp, pilot: Pilot[Any]) -> None:
        super().__init__(app, pilot)
        self.bar = app.query_one(BreadcrumbBar)

    @property
    def words(self) -> str:
        """All of its text, wherever lines are wrapped."""
        return " ".join(re.sub("[│▌]", " ", self.seen()).split())

    @property
    def line(self) -> str:
        """The line as painted."""
        return self.seen().splitlines()[self.bar.region.y].strip() if self.bar.display else ""

    def color(self, text: str) -> str:
        style = next(one.style for one in self.bar.render_line(0) if text in one.text)
        assert style is not None
        assert style.color is not None
        return Color.from_rich_color(style.color).hex.lower()

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in str(self.bar.render()))
        await self.until(lambda: text in self.line)

    async def press_action(self) -> Confirmation:
        await self.pilot.press("f2")
        await self.until(lambda: isinstance(self.app.screen, Confirmation))
        await self.pilot.pause()
        assert isinstance(self.app.screen, Confirmation)
        return self.app.screen

    async def answer(self, key: str) -> None:
        await self.pilot.press(key)
        await self.until(lambda: not isinstance(self.app.screen, Confirmation))


Opened = Callable[..., AbstractAsyncContextManager[Screen]]


@pytest.fixture
def opened(home: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    @asynccontextmanager
    async def open_there(folder: Path, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Screen]:
        async with desk(home, folder, monkeypatch, size=size) as found:
            yield Screen(found.app, found.pilot)

    return open_there


def states(branch: Path, git: Git, gh: GhStandIn) -> Iterator[str]:
    """One status after the other, from real output of git and GitHub."""
    yield "LOCAL"
    change(branch, git, "dirty")
    yield "DIRTY"
    git("commit", "--quiet", "-am", "more")
    yield "AHEAD"
    for label, recording in PULLS.items():
        gh.shows(recording)
        yield label


# -- what it shows ---------------------------------------------------------------------------------


async def test_the_twelve_statuses_have_label_color_and_an_action_that_is_confirmed_first(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    async with opened(branch) as screen:
        seen = []
        for label in states(branch, git, gh):
            color, action, _ = ACTIONS[label]
            if label in PULLS and screen.bar.repository:
                screen.bar.repository.refresh()
            number = " (PR #42)" if label in PULLS else ""
            await screen.shows(f"work › {BRANCH} › {label}{number} [{action}]")
            shades = dict(zip(("tillerman-dark", "tillerman-light"), COLORS[color], strict=True))
            assert screen.color(label) == shades[screen.app.theme]
            screen.app.theme = next(theme for theme in shades if theme != screen.app.theme)
            await screen.pilot.pause()
            assert screen.color(label) == shades[screen.app.theme]
            await screen.press_action()
            words = screen.words
            assert f"{action} · {BRANCH}" in words
            if label in BY_AGENT:
                assert "send to the agent" in words
            else:
                assert "y run" in words
                assert "$ g" in words
            await screen.answer("n")
            seen.append(label)
        done = {words[1] for words in gh.asked if words[0] == "pr"}
        assert done == {"view"}
        assert not screen.app.pane.transcript.turns
    assert set(seen) == set(ACTIONS)


async def test_outside_a_repository_there_is_nothing_until_one_begins(
    root: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    async with opened(root) as screen:
        await screen.until(lambda: screen.bar._seen)
        assert not screen.bar.display
        await screen.pilot.press("f2")
        await screen.until(lambda: "is not in a git repository" in screen.words)
        git("init", "--quiet", "--initial-branch=main")
        await screen.shows("work › main › LOCAL")


async def test_it_is_at_the_configured_position(
    branch: Path, gh: GhStandIn, opened: Opened
) -> None:
    async with opened(branch) as screen:
        bar = screen.bar
        await screen.shows("LOCAL [Create PR]")
        frame = bar.parent
        assert isinstance(frame, BreadcrumbFrame)
        assert (bar.region.y, bar.region.height) == (frame.region.y, 1)
        bar.place("bottom")
        await screen.until(lambda: bar.region.bottom == frame.region.bottom)
        assert bar.region.height == 1
        for place, edge in (("left", 0), ("right", 100 - 24)):
            bar.place(place)
            await screen.until(lambda: bar.region.height == frame.region.height and bar.crumb)
            assert bar.region.x == edge
            await screen.sees("[Create PR]")
            column = [line[edge : edge + 24].strip() for line in screen.seen().splitlines()]
            top = bar.region.y + 1
            assert column[top : top + 4] == ["work", BRANCH, "LOCAL", "[Create PR]"]
        await screen.pilot.resize_terminal(60, 24)
        await screen.until(lambda: bar.region.height == 1)  # no room to spare beside


async def test_while_hidden_it_still_runs_the_next_step(
    branch: Path, gh: GhStandIn, home: Path, opened: Opened
) -> None:
    config = home / "tillerman" / "config.toml"
    config.parent.mkdir()
    config.write_text('[screen]\nbreadcrumb = "hidden"\n')
    async with opened(branch) as screen:
        await screen.until(lambda: screen.bar.repository)
        await screen.press_action()
        assert not screen.bar.display
        await screen.answer("n")


async def test_without_git_it_reports_so(
    branch: Path, gh: GhStandIn, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    monkeypatch.setenv("PATH", str(gh.folder))
    async with opened(branch) as screen:
        await screen.shows("git cannot be started")


# -- room ------------------------------------------------------------------------------------------


def crumb(name: str = "work", branch: str = BRANCH, pull: bool = True) -> Breadcrumb:
    found = PullRequest(42, "", "", "OPEN", review="CHANGES_REQUESTED") if pull else None
    return Breadcrumb(Repository(Path("/work"), name, WorkState(branch, "c0ffee")), found)


def fitted(seen: RepositorySnapshot, room: int) -> str:
    return "".join(part.text for part in in_line(seen, room))


def test_the_least_important_part_is_dropped_first() -> None:
    seen = RepositorySnapshot(crumb(branch="feature/a-greeting-for-everybody-who-comes-in"))
    assert fitted(seen, 110).startswith("work › feature/a-greeting-for-everybody-who-comes-in › CH")
    assert fitted(seen, 80).startswith("work › feature/a-")
    assert "…" in fitted(seen, 80)
    assert fitted(seen, 62).startswith("feature/")
    assert fitted(seen, 40).endswith("CHANGES REQUESTED #42 [Address Feedback]")
    assert fitted(seen, 36) == "CHANGES REQUESTED [Address Feedback]"
    assert fitted(seen, 20) == "CHANGES REQUESTED"
    assert fitted(seen, 10) == "CHANGE…TED"


@pytest.mark.parametrize("branch", [BRANCH, "x", "分支/" + "很长的名字" * 9, "e\u0301" * 80])
@pytest.mark.parametrize(
    "reason", [None, PullRequestUnavailable("no_gh", "gh is not there", hint="install it")]
)
def test_it_never_exceeds_its_width(branch: str, reason: PullRequestUnavailable | None) -> None:
    from rich.cells import cell_len

    for pull in (True, False):
        seen = RepositorySnapshot(crumb("a-repository", branch, pull), doubt=reason)
        for room in range(1, 160):
            assert cell_len(fitted(seen, room)) <= room
            assert all(part.cells <= room for part in stacked(seen, room))


def test_no_branch_name_moves_the_cursor() -> None:
    shown = fitted(RepositorySnapshot(crumb("re\x1b[2Jpo", "b\x1b]0;title\x07\u202eranch\nx")), 200)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\n" not in shown


async def test_it_is_one_line_at_any_width(branch: Path, gh: GhStandIn, opened: Opened) -> None:
    gh.shows("pr_changes_requested")
    async with opened(branch, (120, 24)) as screen:
        await screen.shows("CHANGES REQUESTED (PR #42) [Address Feedback]")
        for width in (80, 60, 40, 24, 16, 100):
            await screen.pilot.resize_terminal(width, 24)
            await screen.pilot.pause()
            assert screen.bar.region.height == 1
            assert len(screen.line) <= width
        await screen.shows(f"work › {BRANCH} › CHANGES")


# -- gh --------------------------------------------------------------------------------------------


async def test_a_missing_or_signed_out_gh_is_reported_with_the_next_step(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    gh.fails("not signed in")
    async with opened(branch, (120, 30)) as screen:
        await screen.shows("LOCAL [Create PR]  gh is not signed in to GitHub: gh auth login")
        await screen.pilot.resize_terminal(70, 24)
        await screen.shows("LOCAL [Create PR]  gh auth login")
        await screen.pilot.press("f2")
        await screen.until(lambda: "Error" in screen.words)
        assert "gh auth login" in screen.words.partition("Error")[2]
        await screen.pilot.resize_terminal(100, 24)
        (gh.folder / "gh").unlink()
        change(branch, git, "commit")
        await screen.shows("AHEAD [Push & Create PR]  gh is not installed")


async def test_a_failing_gh_leaves_the_git_half_right(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    answers: list[dict[str, Any]] = [
        {"exit": 1, "stderr": "panic: runtime error: index out of range\n"},
        {"stdout": '{"number": "fourty'},
        {"stdout": '["not", "that"]'},
        {"stdout": "", "runs": [["kill", "-9", "0"]]},
    ]
    gh.answer("pr", "view", **answers[0])
    async with opened(branch, (120, 30)) as screen:
        await screen.shows("LOCAL [Create PR]  gh failed: panic")
        for number, answer in enumerate(answers):
            gh.answer("pr", "view", **answer)
            (branch / "a.py").write_text(f"{number}\n")
            await screen.shows("DIRTY [Commit & Push]")
            git("commit", "--quiet", "-am", "more")
            await screen.shows("AHEAD [Push & Create PR]")
            await screen.until(lambda n=number: len(gh.asked) == n + 2)
        gh.shows("pr_approved")
        git("switch", "--quiet", "-c", "other")
        await screen.shows("other › APPROVED (PR #42)")


async def test_a_slow_gh_delays_nothing(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    gh.answer("pr", "view", seconds=60, stdout="{}")
    began = time.monotonic()
    async with opened(branch, (120, 30)) as screen:
        await screen.shows("LOCAL [Create PR]  querying GitHub…")
        change(branch, git, "dirty")
        await screen.shows("DIRTY")
        git("switch", "--quiet", "-c", "other")
        await screen.shows("other › DIRTY")
        await screen.pilot.press("h", "i")
        assert screen.app.pane.box.text == "hi"
    assert time.monotonic() - began < 15


async def test_a_pull_request_stays_while_gh_fails(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    gh.shows("pr_approved")
    async with opened(branch, (120, 30)) as screen:
        await screen.shows("APPROVED (PR #42)")
        gh.fails("rate limited")
        change(branch, git, "commit")
        await screen.shows("APPROVED (PR #42) [Merge PR]  GitHub's rate limit is exceeded")
        gh.fails("no pull request")


async def test_gh_is_called_after_a_commit_and_not_after_a_save(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    none = next(one for one in failures() if one["case"] == "no pull request")
    slow = {name: none[name] for name in ("exit", "stdout", "stderr")} | {"seconds": 0.3}
    gh.answer("pr", "view", **slow)  # while it runs, git is looked at once more
    async with opened(branch) as screen:
        await screen.until(lambda: screen.bar.crumb and screen.bar.crumb.unavailable is None)
        assert len(gh.asked) == 1
        change(branch, git, "dirty")
        await screen.shows("DIRTY")
        (branch / "a.py").write_text("ours\n")
        await screen.shows("LOCAL")
        assert len(gh.asked) == 1
        change(branch, git, "commit")
        await screen.shows("AHEAD")
        await screen.until(lambda: len(gh.asked) == 2)


async def test_at_most_one_call_of_gh_is_under_way(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    gh.answer("pr", "view", seconds=0.3, stdout=(RECORDINGS / "pr_approved.json").read_text())
    async with opened(branch) as screen:
        await screen.until(lambda: screen.bar.repository)
        for number in range(6):
            git("commit", "--quiet", "--allow-empty", "-m", f"{number}")
            screen.bar.repository.refresh()  # type: ignore[union-attr]
            if number == 3:
                await screen.pilot.press("f2")
            await screen.pilot.pause(0.15)
        await screen.until(lambda: isinstance(screen.app.screen, Confirmation))
        await screen.answer("n")
        log = gh.log
        await screen.until(lambda: len(gh.log) % 2 == 0)
    running = 0
    for what, *_ in log:
        running += 1 if what == "begins" else -1
        assert running in (0, 1)
    assert len(log) > 4


# -- freshness -------------------------------------------------------------------------------------


async def test_changes_are_seen_at_once(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    async with opened(branch) as screen:
        await screen.shows("LOCAL")
        (branch / "new" / "folder").mkdir(parents=True)
        (branch / "new" / "folder" / "file").touch()
        await screen.shows("DIRTY")
        git("add", "-A")
        git("commit", "--quiet", "-m", "new")
        await screen.shows("AHEAD")
        git("push", "--quiet")
        await screen.shows("LOCAL")
        git("switch", "--quiet", "-c", "other")
        await screen.shows("work › other")
        git("switch", "--quiet", "--detach")
        await screen.shows("work › detached at")
        git("switch", "--quiet", "main")
        git("branch", "-D", "other")
        (branch / "a.py").write_text("theirs\n")
        git("commit", "--quiet", "-am", "theirs")
        git("switch", "--quiet", BRANCH)
        await screen.shows(BRANCH)
        with pytest.raises(AssertionError):
            git("rebase", "main")
        await screen.shows("detached at")
        assert "DIRTY" in screen.line


async def test_without_inotify_it_polls(
    branch: Path, git: Git, gh: GhStandIn, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    monkeypatch.setattr(inotify, "_libc", object())  # as on a system without it
    monkeypatch.setattr(branch_refresh, "EVERY", 0.5)
    async with opened(branch) as screen:
        await screen.shows("LOCAL")
        change(branch, git, "dirty")
        await screen.shows("DIRTY")
        gh.shows("pr_open")
        await screen.shows("OPEN (PR #42)")


async def test_the_folder_of_the_visible_session_is_used(
    branch: Path, gh: GhStandIn, tmp_path: Path, opened: Opened
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    start_repository(other, git_in(other))
    async with opened(branch) as screen:
        await screen.shows(f"work › {BRANCH}")
        harness = await screen.app.opened()
        there = await harness.start("mock", cwd=other)
        await there.close()
        await screen.app.open_pane(harness.find(there.id))
        await screen.app.open_pane()
        screen.app.action_previous_tab()
        await screen.shows("other › main › LOCAL")
        (other / "a.py").write_text("edited\n")
        await screen.shows("other › main › DIRTY")
        (branch / "a.py").write_text("edited\n")
        screen.app.action_next_tab()
        await screen.shows(f"work › {BRANCH} › DIRTY")


# -- the next step ---------------------------------------------------------------------------------


async def test_commands_run_one_by_one_after_a_confirmation(
    branch: Path, git: Git, gh: GhStandIn, tmp_path: Path, opened: Opened
) -> None:
    change(branch, git, "commit")
    gh.answer("pr", "create", stdout="https://github.com/your-org/your-repo/pull/42\n")
    async with opened(branch) as screen:
        await screen.shows("AHEAD")
        await screen.press_action()
        push = f"$ git push --set-upstream --end-of-options origin refs/heads/{BRANCH}"
        assert push in screen.words
        assert "$ gh pr create --fill" in screen.words
        assert f"origin is {tmp_path}"[:30] in screen.words
        gh.shows("pr_open")
        gh.answer("pr", "create", stdout="https://github.com/your-org/your-repo/pull/42\n")
        await screen.answer("y")
        await screen.until(lambda: "✓ gh pr create --fill" in screen.words)
        assert "✓ git push --set-upstream" in screen.words
        assert "/pull/42" in screen.words
        await screen.shows("OPEN (PR #42) [Request Review]")
    assert git("rev-parse", "HEAD") == git("rev-parse", f"origin/{BRANCH}")


async def test_the_first_failure_ends_it_with_its_output(
    branch: Path, git: Git, gh: GhStandIn, tmp_path: Path, opened: Opened
) -> None:
    change(branch, git, "commit")
    async with opened(branch) as screen:
        await screen.shows("AHEAD")
        await screen.press_action()
        (tmp_path / "hub.git").rename(tmp_path / "gone.git")
        await screen.answer("y")
        await screen.until(lambda: "Not run: gh pr create --fill" in screen.words)
        assert "✗ git push" in screen.words
        assert "does not appear to be a git repository" in screen.words
        assert "Exited with 128." in screen.words
        await screen.shows("AHEAD [Push & Create PR]")
    assert not any(words[:2] == ["pr", "create"] for words in gh.asked)


async def test_a_step_for_an_agent_is_sent_to_the_visible_session(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    change(branch, git, "dirty")
    async with opened(branch) as screen:
        await screen.shows("DIRTY")
        await screen.press_action()
        await screen.answer("y")
        transcript = screen.app.pane.transcript
        await screen.until(lambda: transcript.turns)
        prompt = transcript.turns[0].prompt or ""
        assert "a.py" in prompt
        assert BRANCH in prompt
        await screen.rests(1)


async def test_nothing_runs_without_a_confirmation(
    branch: Path, gh: GhStandIn, opened: Opened
) -> None:
    gh.shows("pr_approved")
    async with opened(branch) as screen:
        await screen.shows("APPROVED")
        for key in ("n", "escape"):
            await screen.press_action()
            await screen.pilot.press("enter", "space", "f2")
            assert isinstance(screen.app.screen, Confirmation)
            await screen.answer(key)
            await screen.shows("[Merge PR]")
    assert all(words[1] == "view" for words in gh.asked)


async def test_a_confirmation_for_another_commit_is_not_used(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    gh.shows("pr_approved")
    async with opened(branch) as screen:
        await screen.shows("APPROVED")
        await screen.press_action()
        git("commit", "--quiet", "--allow-empty", "-m", "meanwhile")
        await screen.answer("y")
        await screen.until(lambda: "nothing was run" in screen.words)
    assert all(words[1] == "view" for words in gh.asked)


async def test_a_refusal_shows_the_next_step(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    git("switch", "--quiet", "main")
    async with opened(branch) as screen:
        await screen.shows("main › LOCAL")
        await screen.pilot.press("f2")
        await screen.until(lambda: "main is the default branch" in screen.words)
        assert "git switch -c NAME" in screen.words
        await screen.shows("[Create PR]")


async def test_an_ignored_skill_is_reported_in_the_confirmation(
    branch: Path, git: Git, gh: GhStandIn, opened: Opened
) -> None:
    skill = branch / ".tillerman" / "skills" / "merge-pr"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text('---\nai: false\ncommands:\n  - ["git", "push"]\n---\n')
    gh.shows("pr_approved")
    async with opened(branch) as screen:
        await screen.shows("APPROVED")
        await screen.press_action()
        assert "not trusted" in screen.words
        assert "$ gh pr merge 42 --merge" in screen.words
        await screen.answer("n")


async def test_the_action_can_be_clicked(branch: Path, gh: GhStandIn, opened: Opened) -> None:
    gh.shows("pr_approved")
    async with opened(branch) as screen:
        await screen.shows("[Merge PR]")
        at = screen.bar.render_line(0).text.index("[Merge")
        await screen.pilot.click(screen.bar, offset=(2, 0))
        await screen.pilot.click(screen.bar, offset=(at + 3, 0))
        await screen.until(lambda: isinstance(screen.app.screen, Confirmation))
        await screen.answer("n")


async def test_the_link_of_the_pull_request_is_copied(
    branch: Path, gh: GhStandIn, opened: Opened
) -> None:
    gh.shows("pr_approved")
    async with opened(branch) as screen:
        await screen.shows("APPROVED")
        await screen.pilot.press("f3")
        await screen.pilot.pause()
        assert screen.app.clipboard == "https://github.com/your-org/your-repo/pull/42"


def test_the_reason_of_a_missing_status_is_shown_where_it_helps() -> None:
    usual = Breadcrumb(
        crumb().repository, unavailable=PullRequestUnavailable("no_remote", "it has no remote")
    )
    assert notes(RepositorySnapshot(usual)) == []
    out = Breadcrumb(
        crumb().repository,
        unavailable=PullRequestUnavailable("signed_out", "gh is out", "gh auth login"),
    )
    assert notes(RepositorySnapshot(out))[-1] == "gh auth login"
