"""Prepares the next action of a branch: commands to confirm, or a prompt for an agent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tillerman.core.errors import TillermanError, UsageError
from tillerman.supervision.linux.which import find_program
from tillerman.workspace.branch.github import GitHub, find_gh, gh_variables
from tillerman.workspace.branch.pull_request import PullRequestUnavailable
from tillerman.workspace.branch.skill_context import collect
from tillerman.workspace.branch.skill_file import (
    CONTEXT,
    FACTS,
    Skill,
    filled_command,
    filled_prompt,
)
from tillerman.workspace.branch.status import AHEAD, DIRTY, LOCAL, Breadcrumb
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.git.bounded_command import (
    CommandMissing,
    CommandOutput,
    CommandTimeout,
    query,
)
from tillerman.workspace.git.git import configured
from tillerman.workspace.git.repository_state import Repository, query_git, read_config
from tillerman.workspace.git.safe_config import overrides, protocols, stubborn

SECONDS = 300.0  # for one command
METHODS = ("merge", "squash", "rebase")
# Override the user's config too: no user can edit or page, and an agent may have written hooks.
_ACTING = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "protocol.ext.allow": "never",
    "push.recurseSubmodules": "no",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
# Context for prompts that have no placeholder for it, like the skills of other tools.
_USUAL = {
    "commit-changes": ("changes", "conflicts"),
    "request-review": ("people",),
    "address-feedback": ("reviews",),
    "resolve-conflicts": ("conflicts",),
    "fix-ci": ("checks",),
}


class NotReady(TillermanError):
    """gh is missing or not signed in."""

    exit_code = 3


class Unsafe(TillermanError):
    """A command would run a program that the repository names and that cannot be overridden."""

    exit_code = 4

    def __init__(self, key: str) -> None:
        super().__init__(
            f"this repository's config names a program in {shown(key)}",
            hint=f"check it; `git config --unset-all {shown(key)}` removes it",
        )


@dataclass(frozen=True)
class Action:
    skill: Skill
    commands: tuple[tuple[str, ...], ...] = ()
    prompt: str = ""
    notes: tuple[str, ...] = ()


async def prepare(
    crumb: Breadcrumb, skill: Skill, github: GitHub, environment: Mapping[str, str]
) -> Action:
    """Prepares the action. Raises an error with a hint if something prevents it."""
    if (refusal := await _obstacle(crumb, github)) is not None:
        raise refusal
    facts = await _facts(crumb, skill.names, github)
    if skill.needs_ai:
        return Action(skill, prompt=await _prompt(crumb, skill, facts, github, environment))
    missing = sorted(name for name in skill.names if not facts.get(name))
    if missing:
        raise UsageError(
            f"{skill.id}: {_MISSING.get(missing[0], f'there is no {missing[0]}')}",
            hint=_FIXES.get(missing[0], ""),
        )
    for key in stubborn(crumb.repository.config):
        raise Unsafe(key)
    commands = tuple(filled_command(one, facts) for one in skill.commands)
    notes = []
    if "remote" in skill.names and (url := await _push_url(crumb.repository)):
        notes.append(f"{facts['remote']} is {url}")
    return Action(skill, commands, notes=tuple(notes))


async def run_command(
    repository: Repository, command: tuple[str, ...], environment: Mapping[str, str]
) -> CommandOutput:
    """Runs git or gh with the user's keys and helpers, but none that the repository names."""
    name, *words = command
    program = find_gh(environment) if name == "gh" else _find_git(environment)
    if program is None:
        raise NotReady(f"{name} is not installed", hint=_INSTALL[name])
    found = await read_config(repository.top)  # read again: an agent may have changed it
    for key in stubborn(found):
        raise Unsafe(key)
    pairs = [*overrides(found), *protocols(found), *_ACTING.items()]
    env = gh_variables(environment) | configured(pairs)
    try:
        return await query((program, *words), cwd=repository.top, env=env, seconds=SECONDS)
    except CommandMissing as error:
        raise TillermanError(str(error), hint="install it, or put it on PATH") from None
    except CommandTimeout as error:
        raise TillermanError(str(error), hint="run it by hand to see why") from None


# -- obstacles -------------------------------------------------------------------------------------


async def _obstacle(crumb: Breadcrumb, github: GitHub) -> TillermanError | None:
    state, status = crumb.repository.state, crumb.status
    if crumb.pull_request is not None:
        return None
    if state.branch is None:
        return UsageError(
            "no branch is checked out: commits would not belong to a branch",
            hint="git switch -c NAME",
        )
    if status is DIRTY:
        return None
    if state.commit is None:
        return TillermanError(
            "nothing to do: there is no commit yet", hint="commit something first"
        )
    if crumb.unavailable is not None:
        return _unknown(crumb.unavailable)
    default = await _default_branch(crumb, github)
    if default == state.branch and status in (LOCAL, AHEAD):
        ahead = f", and it is {state.ahead} ahead of its remote" if state.ahead else ""
        return TillermanError(
            f"no pull request possible: {shown(state.branch)} is the default branch{ahead}",
            hint="git switch -c NAME starts a branch for a pull request",
        )
    if status is LOCAL and state.upstream in (None, f"{crumb.repository.remote}/{default}"):
        return TillermanError(
            f"nothing to do: {shown(state.branch)} has no commit of its own yet",
            hint="commit something first",
        )
    return None


def _unknown(problem: PullRequestUnavailable) -> TillermanError:
    """Returns the error for an unknown pull request state: there may already be one."""
    if problem.why in ("no_gh", "signed_out"):
        return NotReady(problem.text, hint=problem.hint)
    if problem.why in ("no_remote", "not_github", "no_branch"):
        return UsageError(problem.text, hint=problem.hint)
    return TillermanError(
        f"cannot determine whether there is a pull request: {problem.text}", hint=problem.hint
    )


# -- facts -----------------------------------------------------------------------------------------


async def _facts(crumb: Breadcrumb, names: frozenset[str], github: GitHub) -> dict[str, str]:
    repository, pull = crumb.repository, crumb.pull_request
    facts = {"branch": repository.branch or "", "remote": repository.remote or ""}
    if pull:
        facts |= {
            "number": str(pull.number),
            "title": pull.title,
            "url": pull.url,
            "base": pull.base,
            "delete": "D" if pull.head_commit == repository.state.commit else "d",
        }
    if {"default_branch", "base"} & names:
        facts["default_branch"] = await _default_branch(crumb, github) or ""
        facts["base"] = facts.get("base") or facts["default_branch"]
    if "merge_method" in names:
        facts["merge_method"] = await _merge_method(repository, github)
    return facts


async def _default_branch(crumb: Breadcrumb, github: GitHub) -> str | None:
    repository = crumb.repository
    if repository.remote is None:
        return None
    head = f"refs/remotes/{repository.remote}/HEAD"
    said = await query_git(repository, "symbolic-ref", "--quiet", "--end-of-options", head)
    if not said.code:
        told = os.fsdecode(said.out).removesuffix("\n")
        return told.removeprefix(f"refs/remotes/{repository.remote}/")
    if crumb.unavailable is not None:
        return None
    match await _repo_view(repository, github, "defaultBranchRef"):
        case {"defaultBranchRef": {"name": str(name)}} if name:
            return name
    return None


async def _merge_method(repository: Repository, github: GitHub) -> str:
    """Returns the merge method that the user chose last there; GitHub's first if unknown."""
    told = await _repo_view(repository, github, "viewerDefaultMergeMethod")
    method = str(told.get("viewerDefaultMergeMethod", "")).lower()
    return method if method in METHODS else METHODS[0]


async def _repo_view(repository: Repository, github: GitHub, field: str) -> dict[str, Any]:
    try:
        said = await github.call(repository, "repo", "view", "--json", field)
        told = msgspec.json.decode(said.out)
    except (CommandMissing, CommandTimeout, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return told if isinstance(told, dict) else {}


async def _push_url(repository: Repository) -> str:
    """Returns the push URL as git resolves it, without a password."""
    words = ("remote", "get-url", "--push", "--end-of-options", repository.remote or "")
    said = await query_git(repository, *words)
    url = said.out.decode("utf-8", "replace").strip()
    return "" if said.code else re.sub(r"//[^/@]*@", "//", url)


# -- the prompt ------------------------------------------------------------------------------------


async def _prompt(
    crumb: Breadcrumb,
    skill: Skill,
    facts: Mapping[str, str],
    github: GitHub,
    environment: Mapping[str, str],
) -> str:
    named = [name for name in CONTEXT if name in skill.names]
    added = () if skill.names else _USUAL.get(skill.id, ())
    pieces = await collect([*named, *added], crumb, github, environment)
    lines = {name: _line(facts.get(name, "")) or "(none)" for name in FACTS}
    text = filled_prompt(skill.prompt, {**lines, **pieces})
    if skill.names:
        return text
    known = [f"- {name}: {lines[name]}" for name in ("branch", "remote", "number", "title", "url")]
    parts = [text, "Current state:\n" + "\n".join(known)]
    parts += [f"The {name}:\n\n{pieces[name]}" for name in added]
    return "\n\n".join(parts)


def _line(text: str) -> str:
    from tillerman.core.terminal_sanitizer import clean

    return " ".join(clean(shown(text)).split())[:500]


def _find_git(environment: Mapping[str, str]) -> str | None:
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    return find_program("git", os.pathsep.join(part for part in path if Path(part).is_absolute()))


_MISSING = {
    "remote": "no remote to push to is configured",
    "default_branch": "the default branch is unknown",
    "number": "there is no pull request",
}
_FIXES = {
    "remote": "git remote add origin URL, or choose one: git config remote.pushDefault NAME",
    "default_branch": "git remote set-head origin --auto",
    "number": "`tillerman repo status` shows the current state",
}
_INSTALL = {
    "git": "install it: https://git-scm.com/downloads",
    "gh": "install it from https://cli.github.com, then run `gh auth login`",
}
