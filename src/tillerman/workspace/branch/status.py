"""Branch status breadcrumb `repo › branch › STATUS (PR #42) [Action]`, derived from state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tillerman.workspace.branch.pull_request import PullRequest, PullRequestUnavailable
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.git.repository_state import Repository

Color = Literal["grey", "amber", "blue", "red", "bright red", "green", "purple", "dark grey"]


@dataclass(frozen=True)
class BranchStatus:
    label: str
    color: Color
    action: str
    skill: str  # its id


LOCAL = BranchStatus("LOCAL", "grey", "Create PR", "create-pr")
DIRTY = BranchStatus("DIRTY", "amber", "Commit & Push", "commit-changes")
AHEAD = BranchStatus("AHEAD", "blue", "Push & Create PR", "push-and-create-pr")
DRAFT = BranchStatus("DRAFT", "grey", "Ready for Review", "mark-ready")
OPEN = BranchStatus("OPEN", "blue", "Request Review", "request-review")
REVIEW = BranchStatus("REVIEW", "amber", "Check Status", "check-review")
CHANGES_REQUESTED = BranchStatus("CHANGES REQUESTED", "red", "Address Feedback", "address-feedback")
APPROVED = BranchStatus("APPROVED", "green", "Merge PR", "merge-pr")
MERGE_CONFLICTS = BranchStatus(
    "MERGE CONFLICTS", "bright red", "Resolve Conflicts", "resolve-conflicts"
)
CI_FAILING = BranchStatus("CI FAILING", "red", "Fix CI", "fix-ci")
MERGED = BranchStatus("MERGED", "purple", "Clean Up", "cleanup-branch")
CLOSED = BranchStatus("CLOSED", "dark grey", "Reopen / New PR", "reopen-or-new")

STATUSES = (
    LOCAL, DIRTY, AHEAD, DRAFT, OPEN, REVIEW, CHANGES_REQUESTED, APPROVED, MERGE_CONFLICTS,
    CI_FAILING, MERGED, CLOSED,
)  # fmt: skip


@dataclass(frozen=True)
class Breadcrumb:
    repository: Repository
    pull_request: PullRequest | None = None
    unavailable: PullRequestUnavailable | None = None  # why the pull request is unknown

    @property
    def status(self) -> BranchStatus:
        return derive(self.repository, self.pull_request)

    @property
    def branch(self) -> str:
        state = self.repository.state
        if state.branch is None:
            return f"detached at {(state.commit or '')[:8]}"
        return shown(state.branch)

    @property
    def text(self) -> str:
        number = f" (PR #{self.pull_request.number})" if self.pull_request else ""
        name, status = shown(self.repository.name), self.status
        return f"{name} › {self.branch} › {status.label}{number} [{status.action}]"


def crumb(repository: Repository, pull: PullRequest | PullRequestUnavailable | None) -> Breadcrumb:
    if isinstance(pull, PullRequestUnavailable):
        return Breadcrumb(repository, unavailable=pull)
    return Breadcrumb(repository, pull)


def as_data(crumb: Breadcrumb) -> dict[str, Any]:
    """Returns it as data for programs."""
    repository, status = crumb.repository, crumb.status
    state = asdict(repository.state)
    for key in ("branch", "upstream"):
        state[key] = None if state[key] is None else shown(state[key])
    state["conflicts"] = [shown(path) for path in repository.state.conflicts]
    return {
        "text": crumb.text,
        "repository": shown(repository.name),
        "top": shown(str(repository.top)),
        "remote": None if repository.remote is None else shown(repository.remote),
        **state,
        "status": status.label,
        "color": status.color,
        "action": status.action,
        "skill": status.skill,
        "pull_request": asdict(crumb.pull_request) if crumb.pull_request else None,
        "no_news": asdict(crumb.unavailable) if crumb.unavailable else None,
    }


def derive(repository: Repository, pull_request: PullRequest | None) -> BranchStatus:
    """Returns the first status that applies."""
    state = repository.state
    if pull_request is None:
        return DIRTY if state.dirty else AHEAD if state.ahead else LOCAL
    if pull_request.state == "MERGED":
        return MERGED
    if pull_request.state == "CLOSED":
        return CLOSED
    if pull_request.draft:
        return DRAFT
    if pull_request.conflicting or state.conflicted:
        return MERGE_CONFLICTS
    if pull_request.failing:
        return CI_FAILING
    match pull_request.review:
        case "APPROVED":
            return APPROVED
        case "CHANGES_REQUESTED":
            return CHANGES_REQUESTED
        case "REVIEW_REQUIRED":
            return REVIEW
    return OPEN
