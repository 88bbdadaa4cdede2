"""Formats an agent's status: state, signed-in account and next steps to make it ready."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from tillerman.harness.agent_admin import AgentStatus

STATUS = ("AGENT", "STATE", "SIGNED IN, OR NEXT STEP")


def state(one: AgentStatus) -> str:
    if not one.present:
        return "not installed"
    if one.problem:
        return "broken"
    return "ready" if one.ready else "not signed in"


def tested(one: AgentStatus) -> str:
    if one.tested is None:
        return ""
    oldest, newest = one.tested
    return newest if oldest == newest else f"{oldest} – {newest}"


def signed_in(one: AgentStatus) -> str:
    if one.account is None or not one.account.signed_in:
        return ""
    method, who = one.account.method, one.account.who
    if method == "variable" and who:
        return f"by {who}"
    how = f"by {method}" if method else "yes"
    return f"{how} as {who}" if who else how


def status(one: AgentStatus) -> tuple[str, str, str]:
    """One row of the agent list."""
    return one.name, state(one), signed_in(one) or _to_do(one)


def details(one: AgentStatus, about: Mapping[str, str]) -> Iterator[str]:
    """The account or how to sign in, followed by the details the agent reports about itself."""
    if who := signed_in(one):
        yield f"signed in {formatting.one_line(who)}"
    yield from next_steps([one])
    for key, value in about.items():
        yield f"{formatting.one_line(key)}: {formatting.one_line(value)}"


def next_steps(found: Iterable[AgentStatus]) -> Iterator[str]:
    """Next steps to make the agents ready, one per line.

    Agents that share a program share its install line.
    """
    behind: dict[str, list[str]] = {}
    for one in found:
        if one.problem:
            yield f"{one.name}: {formatting.one_line(one.problem)}"
        if not one.present and one.install:
            behind.setdefault(clean(one.install), []).append(one.name)
        if one.account and not one.account.signed_in and one.account.hint:
            yield f"to sign in to {one.name}: {formatting.one_line(one.account.hint)}"
        if one.notice:
            yield formatting.one_line(one.notice)
    for command, names in behind.items():
        yield f"to install {', '.join(names)}: {command}"


def _to_do(one: AgentStatus) -> str:
    if one.problem:
        return one.problem
    if not one.present:
        return one.install
    return one.account.hint if one.account else ""
