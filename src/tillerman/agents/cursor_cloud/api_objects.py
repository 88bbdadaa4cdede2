"""Decodes agents, runs, models and all else of the API, in both versions, any field missing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tillerman.agents.decoding.fields import Table, count, strings, table, tables, text
from tillerman.core.agent_admin import Model
from tillerman.core.cloud import (
    CloudAgent,
    CloudArtifact,
    CloudBranch,
    CloudIdentity,
    CloudState,
    CloudUsage,
)

STATES: Mapping[str, CloudState] = {  # of agents and runs, in both versions
    "CREATING": "starting",
    "RUNNING": "working",
    "ACTIVE": "working",
    "IDLE": "idle",
    "FINISHED": "finished",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "STOPPED": "cancelled",
    "EXPIRED": "expired",
    "ARCHIVED": "archived",
}
ENDED: frozenset[CloudState] = frozenset({"finished", "failed", "cancelled", "expired"})


class CloudRun(Struct, frozen=True):
    id: str
    state: CloudState
    status: str
    text: str  # its last message, or why it failed
    branches: tuple[CloudBranch, ...]
    raw: Table

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def state_of(status: str) -> CloudState:
    return STATES.get(status, "unknown")


def is_v0(id: str) -> bool:
    """Whether the agent belongs to version 0 of the API, whose ids look different."""
    return id.startswith("bc_")


def agent_of(fields: Table) -> CloudAgent:
    """An agent of either version."""
    source, target = table(fields, "source"), table(fields, "target")
    repos = tables(fields, "repos")
    first: Table = repos[0] if repos else {}
    status = text(fields, "status")
    return CloudAgent(
        id=text(fields, "id"),
        name=text(fields, "name"),
        state=state_of(status),
        status=status,
        url=text(fields, "url") or text(target, "url"),
        repository=text(first, "url") or text(source, "repository"),
        ref=text(first, "startingRef") or text(source, "ref"),
        branches=_target_branch(source, target),
        created=text(fields, "createdAt"),
        updated=text(fields, "updatedAt"),
        run=text(fields, "latestRunId") or None,
        summary=text(fields, "summary"),
    )


def _target_branch(source: Table, target: Table) -> tuple[CloudBranch, ...]:
    if not (branch := text(target, "branchName")):
        return ()
    pull_request = text(target, "prUrl") or None
    return (CloudBranch(text(source, "repository"), branch, pull_request),)


def run_of(fields: Table) -> CloudRun:
    status = text(fields, "status")
    return CloudRun(
        id=text(fields, "id") or text(fields, "runId"),
        state=state_of(status),
        status=status,
        text=text(fields, "result") or text(fields, "text"),
        branches=branches_of(fields),
        raw=fields,
    )


def branches_of(fields: Table) -> tuple[CloudBranch, ...]:
    return tuple(
        CloudBranch(
            with_scheme(text(one, "repoUrl")), text(one, "branch"), text(one, "prUrl") or None
        )
        for one in tables(table(fields, "git"), "branches")
    )


def with_scheme(url: str) -> str:
    return url if "://" in url or not url else f"https://{url}"


def models_of(fields: Table) -> list[Model]:
    found = []
    for one in tables(fields, "items"):
        efforts = [
            text(value, "value")
            for parameter in tables(one, "parameters")
            if "effort" in text(parameter, "id").lower()
            for value in tables(parameter, "values")
        ]
        id = text(one, "id")
        found.append(
            Model(
                id,
                text(one, "displayName") or id,
                thinking="thinking" in id,
                efforts=tuple(efforts),
            )
        )
    return found or [Model(id, id) for id in strings(fields, "models")]


def artifacts_of(fields: Table) -> list[CloudArtifact]:
    return [
        CloudArtifact(text(one, "path"), count(one, "sizeBytes"), text(one, "updatedAt"))
        for one in tables(fields, "items")
    ]


def usage_of(fields: Table) -> CloudUsage:
    return CloudUsage(
        input_tokens=count(fields, "inputTokens"),
        output_tokens=count(fields, "outputTokens"),
        cache_read_tokens=count(fields, "cacheReadTokens"),
        cache_write_tokens=count(fields, "cacheWriteTokens"),
        total_tokens=count(fields, "totalTokens"),
    )


def identity_of(fields: Table) -> CloudIdentity:
    return CloudIdentity(
        key_name=text(fields, "apiKeyName"),
        user=text(fields, "userEmail") or None,
        created=text(fields, "createdAt"),
    )


def repositories_of(fields: Table) -> tuple[str, ...]:
    items = tables(fields, "items") or tables(fields, "repositories")
    return tuple(url for one in items if (url := text(one, "url") or text(one, "repository")))
