"""Collects context for a skill's prompt from git and GitHub, bounded and redacted."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tillerman.core.terminal_sanitizer import clean
from tillerman.supervision.environment import secrets_of
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.branch.github import GitHub
from tillerman.workspace.branch.pull_request import PullRequestCheck
from tillerman.workspace.branch.status import Breadcrumb
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.git.bounded_command import CommandMissing, CommandOutput, CommandTimeout
from tillerman.workspace.git.repository_state import query_git

PIECE = 16 << 10  # bytes of one log, one comment or one file's conflicts
WHOLE = 64 << 10  # of one kind of context
LOGS = 5
FILES = 20
REMARKS = 100
NOTHING = "(none)"
_JOB = re.compile(r"https://[^/]+/[^/]+/[^/]+/actions/runs/\d+/job/(\d+)")
_READ = 4 << 20  # bytes of a file that are searched for conflicts
_PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


async def collect(
    names: Iterable[str], crumb: Breadcrumb, github: GitHub, environment: Mapping[str, str]
) -> dict[str, str]:
    """Returns each kind of context as text for a prompt."""
    context = _Context(crumb, github, environment)
    return {name: await context.piece(name) or NOTHING for name in names}


def quoted(text: str) -> str:
    """Quotes text as a code block that its content cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.strip()}\n{fence}"


def hunks(text: str) -> str:
    """Returns the parts between conflict markers, with the number of their first line."""
    found: list[str] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("<<<<<<< "):
            inside = True
            found.append(f"line {number}:")
        if inside:
            found.append(line)
        if line.startswith(">>>>>>> "):
            inside = False
    return "\n".join(found)


class _Context:
    def __init__(self, crumb: Breadcrumb, github: GitHub, environment: Mapping[str, str]) -> None:
        self._repository = crumb.repository
        self._pull = crumb.pull_request
        self._github = github
        self._secrets = Secrets()
        for name, value in secrets_of(environment):
            self._secrets.register(name, value)

    async def piece(self, name: str) -> str:
        match name:
            case "changes":
                text = await self._changes()
            case "conflicts" if self._repository.state.conflicted:
                text = await asyncio.to_thread(self._open_conflicts)
            case "conflicts":
                text = await self._coming_conflicts()
            case "reviews":
                text = await self._reviews()
            case "checks":
                text = await self._checks()
            case _:
                text = await self._authors()
        return _head(self._harmless(text), WHOLE)

    async def _changes(self) -> str:
        short = await self._git("status", "--short", "--ignore-submodules=dirty")
        told = short
        if self._repository.state.commit:
            told += "\n" + await self._git("diff", "--stat", *_PLAIN_DIFF, "HEAD", "--")
        return quoted(_head(told, PIECE))

    # -- conflicts ---------------------------------------------------------------------------------

    def _open_conflicts(self) -> str:
        """Returns the conflicts of a merge in progress, from the files of the work tree."""
        state = self._repository.state
        parts = []
        with ConfinedRoot(self._repository.top, guarded=False) as root:
            for path in state.conflicts[:FILES]:
                try:
                    with os.fdopen(root.open_file(path), "rb") as file:
                        data = file.read(_READ)
                except Refused:
                    data = b""  # one side deleted it
                parts.append(self._of_file(path, data))
        return _listed(parts, state.conflicted, "files")

    async def _coming_conflicts(self) -> str:
        """Returns the conflicts of a future merge, by a trial with a temporary object store."""
        theirs = self._base
        if not theirs:
            return ""
        places = ("rev-parse", "--path-format=absolute", "--git-path", "objects")
        objects = await query_git(self._repository, *places)
        aside = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="tillerman-merge-"))
        env = {
            "GIT_OBJECT_DIRECTORY": str(aside),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(objects.out).removesuffix("\n"),
        }
        try:
            merge = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
            tried = await query_git(self._repository, *merge, "HEAD", theirs, env=env)
            if tried.code != 1:
                return ""
            tree, *paths = os.fsdecode(tried.out).rstrip("\0").split("\0")
            parts = []
            for path in paths[:FILES]:
                name = f"{tree}:{path}"
                blob = await query_git(
                    self._repository, "cat-file", "blob", name, env=env, most=_READ
                )
                parts.append(self._of_file(path, blob.out))
            return _listed(parts, len(paths), "files")
        finally:
            await asyncio.to_thread(shutil.rmtree, aside, ignore_errors=True)

    def _of_file(self, path: str, data: bytes) -> str:
        found = self._harmless(hunks(data.decode("utf-8", "replace")))
        return f"{shown(path)}:\n{quoted(_head(found, PIECE)) if found else '(not by lines)'}"

    @property
    def _base(self) -> str:
        """The base branch to merge with, as last fetched."""
        base = self._pull.base if self._pull else ""
        remote = self._repository.remote
        return f"refs/remotes/{remote}/{base}" if base and remote else ""

    # -- reviews -----------------------------------------------------------------------------------

    async def _reviews(self) -> str:
        if self._pull is None:
            return ""
        number = str(self._pull.number)
        told = _decoded(await self._gh("pr", "view", number, "--json", "reviews,comments"))
        told = told if isinstance(told, dict) else {}
        inline = f"repos/{{owner}}/{{repo}}/pulls/{number}/comments?per_page=100"
        remarks = [
            *(_remark(one, str(one.get("state", ""))) for one in _rows(told.get("reviews"))),
            *(_remark(one, "remark") for one in _rows(told.get("comments"))),
            *(_remark(one, _place(one)) for one in _rows(_decoded(await self._gh("api", inline)))),
        ]
        remarks = [remark for remark in remarks if remark]
        return _listed(remarks[:REMARKS], len(remarks), "remarks")

    # -- checks ------------------------------------------------------------------------------------

    async def _checks(self) -> str:
        failing = self._pull.failing if self._pull else ()
        parts = [await self._log(check) for check in failing[:LOGS]]
        return _listed(parts, len(failing), "checks")

    async def _log(self, check: PullRequestCheck) -> str:
        head = f"{check.name}: {check.url}"
        if not (job := _JOB.fullmatch(check.url)):
            return f"{head}\n(gh could not fetch the log)"
        text = await self._gh("run", "view", "--job", job[1], "--log-failed")
        return f"{head}\n{quoted(_tail(text.strip(), PIECE))}" if text else f"{head}\n(no log)"

    # -- people ------------------------------------------------------------------------------------

    async def _authors(self) -> str:
        if not self._base:
            return ""
        words = ("diff", "--name-only", "-z", *_PLAIN_DIFF, f"{self._base}...HEAD", "--")
        changed = await query_git(self._repository, *words)
        files = [f":(top,literal){name}" for name in os.fsdecode(changed.out).split("\0")[:-1]]
        if not files:
            return ""
        log = ("log", "--max-count=300", "--no-show-signature", "--format=%an", self._base, "--")
        named = Counter((await self._git(*log, *files[:FILES])).splitlines())
        lines = [f"{name} ({times})" for name, times in named.most_common(8) if name.strip()]
        return quoted("\n".join(lines)) if lines else ""

    # -- parts -------------------------------------------------------------------------------------

    async def _git(self, *words: str) -> str:
        return await self._text(await query_git(self._repository, *words))

    async def _gh(self, *words: str) -> str:
        """Runs gh; returns "" on failure: an agent can still run it itself."""
        try:
            said = await self._github.call(self._repository, *words, seconds=60)
        except (CommandMissing, CommandTimeout):
            return ""
        return "" if said.code and not said.cut else await self._text(said)

    async def _text(self, said: CommandOutput) -> str:
        """Redacts before anything is truncated, so that no part of a secret stays."""
        out = said.out.rpartition(b"\n")[0] if said.cut else said.out
        return await asyncio.to_thread(self._harmless, out.decode("utf-8", "replace"))

    def _harmless(self, text: str) -> str:
        return self._secrets.redact_text(clean(text))


def _remark(one: dict[str, Any], what: str) -> str:
    body = str(one.get("body") or "").strip()
    if not body:
        return ""
    author = one.get("author") or one.get("user")
    who = author.get("login") if isinstance(author, dict) else None
    return f"{who or 'somebody'} ({what}):\n{quoted(_head(body, PIECE))}"


def _place(one: dict[str, Any]) -> str:
    line = one.get("line") or one.get("original_line")
    path = " ".join(str(one.get("path", "?")).split())
    return f"{path}:{line}" if line else path


def _decoded(told: str) -> Any:
    try:
        return msgspec.json.decode(told)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _rows(told: Any) -> list[dict[str, Any]]:
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def _listed(parts: list[str], all: int, what: str) -> str:
    more = [f"… and {all - len(parts)} more {what}"] if all > len(parts) else []
    return "\n\n".join([*parts, *more])


def _head(text: str, most: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return data[:most].decode("utf-8", "ignore") + f"\n… {len(data) - most} more bytes left out"


def _tail(text: str, most: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return f"… {len(data) - most} bytes before left out\n" + data[-most:].decode("utf-8", "ignore")
