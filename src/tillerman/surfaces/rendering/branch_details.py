"""Formats the branch state that the breadcrumb omits: changed files, commits, failing checks."""

from __future__ import annotations

from tillerman.surfaces.rendering.formatting import one_line
from tillerman.workspace.branch.status import Breadcrumb


def details(crumb: Breadcrumb) -> list[str]:
    state, pull = crumb.repository.state, crumb.pull_request
    parts = [
        _counted(state.changed, "changed"),
        _counted(state.untracked, "not tracked"),
        _counted(state.conflicted, "in conflict"),
        f"{state.ahead} ahead" if state.ahead else "",
        f"{state.behind} behind" if state.behind else "",
    ]
    message = ", ".join(part for part in parts if part)
    if state.more:
        message += ", and more"
    lines = [message] if message else []
    if pull:
        lines.append(f"{one_line(pull.title)}  {one_line(pull.url)}".strip())
        if pull.failing:
            lines.append(
                "failing: " + ", ".join(one_line(check.name) for check in pull.failing[:10])
            )
    return lines


def _counted(number: int, what: str) -> str:
    return f"{number} {'file' if number == 1 else 'files'} {what}" if number else ""
