"""A pull request parsed from `gh` output, or the reason why it is unavailable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

FIELDS = (
    "number", "title", "url", "state", "isDraft", "reviewDecision", "mergeable",
    "mergeStateStatus", "statusCheckRollup", "headRefName", "headRefOid", "baseRefName",
)  # fmt: skip
_FAILED = frozenset({
    "FAILURE", "ERROR", "TIMED_OUT", "CANCELLED", "ACTION_REQUIRED", "STARTUP_FAILURE",
})  # fmt: skip
_PASSED = frozenset({"SUCCESS", "SKIPPED", "NEUTRAL"})

Why = Literal[
    "no_gh", "signed_out", "slow", "rate_limited", "no_remote", "not_github", "no_branch", "failed"
]


@dataclass(frozen=True)
class PullRequestUnavailable:
    """Whether there is a pull request is unknown."""

    why: Why
    text: str
    hint: str = ""


@dataclass(frozen=True)
class PullRequestCheck:
    name: str
    verdict: Literal["passed", "failed", "pending"]
    url: str = ""


@dataclass(frozen=True)
class PullRequest:
    number: int
    title: str
    url: str
    state: str  # OPEN, CLOSED, MERGED
    draft: bool = False
    review: str = ""  # APPROVED, CHANGES_REQUESTED, REVIEW_REQUIRED, or "": none requested
    conflicting: bool = False
    checks: tuple[PullRequestCheck, ...] = ()
    head: str = ""  # its branch
    head_commit: str = ""
    base: str = ""

    @property
    def failing(self) -> tuple[PullRequestCheck, ...]:
        return tuple(check for check in self.checks if check.verdict == "failed")


class _Check(msgspec.Struct):
    """A CheckRun or a StatusContext."""

    name: str | None = None
    context: str | None = None
    workflowName: str | None = None
    status: str | None = None
    conclusion: str | None = None
    state: str | None = None
    startedAt: str | None = None
    detailsUrl: str | None = None
    targetUrl: str | None = None

    @property
    def verdict(self) -> Literal["passed", "failed", "pending"]:
        word = self.conclusion or self.state or ""
        return "failed" if word in _FAILED else "passed" if word in _PASSED else "pending"


class _View(msgspec.Struct):
    number: int
    state: str
    url: str = ""
    title: str = ""
    isDraft: bool = False
    reviewDecision: str | None = None
    mergeable: str | None = None
    mergeStateStatus: str | None = None
    statusCheckRollup: list[_Check] | None = None
    headRefName: str = ""
    headRefOid: str = ""
    baseRefName: str = ""


def parse_view(told: bytes) -> PullRequest | PullRequestUnavailable:
    """Parses `gh pr view --json`; unknown values are accepted."""
    try:
        view = msgspec.json.decode(told, type=_View)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return PullRequestUnavailable(
            "failed", f"cannot parse the output of gh: {error}", hint="`gh pr view`"
        )
    return PullRequest(
        number=view.number,
        title=view.title,
        url=view.url if view.url.startswith("https://") else "",
        state=view.state,
        draft=view.isDraft,
        review=view.reviewDecision or "",
        conflicting=view.mergeable == "CONFLICTING" or view.mergeStateStatus == "DIRTY",
        checks=tuple(_checks(view.statusCheckRollup or [])),
        head=view.headRefName,
        head_commit=view.headRefOid,
        base=view.baseRefName,
    )


def _checks(told: Sequence[_Check]) -> Iterable[PullRequestCheck]:
    for one in told:
        if one.conclusion == "CANCELLED" and any(_replaces(other, one) for other in told):
            continue
        name = one.name or one.context or "?"
        yield PullRequestCheck(name, one.verdict, one.detailsUrl or one.targetUrl or "")


def _replaces(other: _Check, one: _Check) -> bool:
    """Returns whether a newer run of the same check replaced this one."""
    same = (other.name, other.workflowName) == (one.name, one.workflowName)
    return same and (other.startedAt or "") > (one.startedAt or "")


def parse_refusal(code: int, err: str) -> PullRequestUnavailable | None:
    """Returns why `gh pr view` failed; None if there is no pull request."""
    said = err.strip()
    small = said.lower()
    if "no pull requests found" in small:
        return None
    if code == 4 or ("gh auth login" in small and "known github host" not in small):
        return PullRequestUnavailable(
            "signed_out", "gh is not signed in to GitHub", hint="gh auth login"
        )
    if "rate limit" in small or "abuse detection" in small:
        return PullRequestUnavailable(
            "rate_limited", "GitHub's rate limit is exceeded", hint="try again later"
        )
    if "no git remotes" in small:
        return NO_REMOTE
    if "known github host" in small:
        return PullRequestUnavailable(
            "not_github", "no remote of this repository is on GitHub", hint="`git remote -v`"
        )
    if "not on any branch" in small:
        return NO_BRANCH
    last = said.splitlines()[-1] if said else f"it exited with {code}"
    return PullRequestUnavailable(
        "failed", f"gh failed: {last[:300]}", hint="run `gh pr view` by hand for details"
    )


NO_REMOTE = PullRequestUnavailable(
    "no_remote", "the repository has no remote", hint="git remote add origin URL"
)
NO_BRANCH = PullRequestUnavailable(
    "no_branch", "no branch is checked out", hint="git switch -c NAME"
)
