"""Sign-in of agents in the editor's terms: what it can offer, and the check after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tillerman.core.agent_admin import SignInCommand
from tillerman.core.errors import NotSignedIn, TillermanError
from tillerman.core.json_fields import Table
from tillerman.harness.agent_selection import select_agents
from tillerman.harness.harness import Harness
from tillerman.surfaces.acp.client import ClientCapabilities
from tillerman.surfaces.acp.errors import InvalidParams


def agents_of(
    harness: Harness, agent: str | None, model: str | None, folder: Path
) -> Sequence[str]:
    """The agents that new sessions may use; empty if the name means nothing."""
    try:
        return select_agents(harness.config, agent, model, folder).names
    except TillermanError:
        return ()


def methods(harness: Harness, names: Sequence[str], client: ClientCapabilities) -> list[Table]:
    """`authMethods` of the agents; a sign-in is between the user and the agent's own program."""
    return list(_methods(harness, names, client))


def _methods(harness: Harness, names: Sequence[str], client: ClientCapabilities) -> Iterator[Table]:
    for name in names:
        try:
            agent = harness.agent(name)
        except Exception:  # a third-party module may raise anything
            continue
        command = isinstance(agent, SignInCommand)
        if not command and not agent.info.sign_in:
            continue
        how = f"run `tillerman login {name}` in a terminal" if command else agent.info.sign_in
        told: Table = {"id": name, "name": f"Sign in to {agent.info.title}", "description": how}
        if command and client.runs_sign_in:
            told |= {"type": "terminal", "args": ["--login", name]}
        yield told


async def authenticate(harness: Harness, name: str, known: Sequence[str]) -> None:
    """Checks whether the user has signed in by now; raises `NotSignedIn` with what to do."""
    if name not in known:
        raise InvalidParams(
            f"there is no sign-in method {name!r}", hint=f"known: {', '.join(known) or 'none'}"
        )
    account = await harness.account(name)
    if account and not account.signed_in:
        raise NotSignedIn(
            name,
            f"{name} is not signed in",
            hint=account.hint or f"run `tillerman login {name}` in a terminal, then try again",
        )
