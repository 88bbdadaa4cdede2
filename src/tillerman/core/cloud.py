"""Cloud agents: what an agent provides that works in its vendor's cloud, as types and protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from msgspec import Struct

from tillerman.core.agent import Prompt
from tillerman.core.agent_admin import Model, RunCommand

if TYPE_CHECKING:
    from tillerman.core.events import Event

CloudState = Literal[
    "starting", "working", "idle", "finished", "failed", "cancelled", "expired", "archived",
    "unknown",  # a status that this version does not know: the word itself is in `status`
]  # fmt: skip
RUNNING: frozenset[CloudState] = frozenset({"starting", "working"})


class CloudBranch(Struct, frozen=True):
    """A branch that a cloud agent pushed to."""

    repository: str
    branch: str
    pull_request: str | None = None


class CloudAgent(Struct, frozen=True):
    id: str
    name: str
    state: CloudState
    status: str  # the vendor's own word
    url: str = ""  # its page
    repository: str = ""
    ref: str = ""
    branches: tuple[CloudBranch, ...] = ()
    created: str = ""  # UTC, RFC 3339
    updated: str = ""
    run: str | None = None  # the id of its latest run
    summary: str = ""


class CloudWebhook(Struct, frozen=True):
    url: str
    secret: str


class CloudLaunch(Struct, frozen=True):
    """What to launch. Without a repository and a pull request it works on none."""

    prompt: Prompt
    model: str | None = None
    repository: str | None = None  # its URL
    ref: str | None = None  # branch, tag or commit to start from
    pull_request: str | None = None  # its URL: works on the branch of this pull request
    branch: str | None = None  # the name of the new branch; None: the vendor chooses
    create_pull_request: bool = False
    name: str | None = None
    mode: Literal["agent", "plan"] = "agent"
    webhook: CloudWebhook | None = None  # to be told when it finishes


class CloudArtifact(Struct, frozen=True):
    path: str
    size: int
    updated: str = ""


class CloudUsage(Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0


class CloudIdentity(Struct, frozen=True):
    """Who the API key belongs to."""

    key_name: str
    user: str | None = None  # None: a service account
    created: str = ""


class CloudRepositories(Struct, frozen=True):
    urls: tuple[str, ...]
    age: float  # seconds since they were read from the vendor


class CloudNews(Struct, frozen=True):
    """A change of a cloud agent while it is watched."""

    state: CloudState
    status: str
    events: tuple[Event, ...] = ()


class CloudStatusChange(Struct, frozen=True):
    """A webhook of the vendor, after its signature was verified."""

    delivery: str  # hexadecimal; a repeated delivery has the same
    sent: str  # when, as the vendor signed it; RFC 3339
    agent: str
    state: CloudState
    status: str
    summary: str = ""


class CloudClient(Protocol):
    """A connection to the vendor's API; use it as an async context manager."""

    async def __aenter__(self) -> CloudClient: ...
    async def __aexit__(self, *error: object) -> None: ...
    def agents(
        self, *, archived: bool = False, pull_request: str | None = None
    ) -> AsyncIterator[CloudAgent]: ...  # newest first, page by page
    async def agent(self, id: str) -> CloudAgent: ...
    async def launch(self, launch: CloudLaunch) -> CloudAgent: ...  # once, whatever fails
    async def follow_up(self, id: str, prompt: Prompt) -> None: ...
    async def stop(self, id: str) -> bool: ...  # False: nothing was running
    async def delete(self, id: str) -> None: ...
    async def archive(self, id: str, archived: bool = True) -> None: ...
    async def artifacts(self, id: str) -> Sequence[CloudArtifact]: ...
    async def download(self, id: str, path: str, to: Path) -> int: ...  # the bytes written
    async def usage(self, id: str) -> CloudUsage: ...
    async def identity(self) -> CloudIdentity: ...
    async def models(self) -> Sequence[Model]: ...
    async def repositories(self) -> CloudRepositories: ...
    def watch(self, id: str) -> AsyncIterator[CloudNews]: ...  # until its run ends
    async def history(self, id: str) -> Sequence[Event]: ...  # as of `native_history`


@runtime_checkable
class CloudAccess(Protocol):
    """An agent whose conversations are cloud agents."""

    def cloud(self, run: RunCommand) -> CloudClient: ...


@runtime_checkable
class CloudWebhooks(Protocol):
    """An agent whose vendor sends webhooks."""

    def status_change(
        self, secret: str, headers: Mapping[str, str], body: bytes
    ) -> CloudStatusChange | None:
        """Verifies the signature over the raw body; None: it is not valid.

        Header names are in lower case.
        """
        ...
