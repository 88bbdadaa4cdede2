"""Repositories that name programs wherever git would run one: reading them runs none."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.workspace.gh_stand_in import GhStandIn
from tillerman.core.errors import TillermanError
from tillerman.workspace.branch.github import GitHub
from tillerman.workspace.git.repository_state import NoRepository, query_git, read_repository
from tillerman.workspace.git.safe_config import GitSetting, overrides

Git = Callable[..., str]
KEYS = (
    "core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand",
    "core.gitProxy", "core.alternateRefsCommand", "core.attributesFile", "core.hooksPath",
    "credential.helper", "credential.https://github.com.helper", "diff.external",
    "diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge",
    "filter.evil.process", "merge.evil.driver", "gpg.program", "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand", "interactive.diffFilter", "pager.status", "pager.diff",
    "remote.origin.receivepack", "remote.origin.uploadpack", "sequence.editor",
    "trailer.evil.command", "browser.evil.cmd", "uploadpack.packObjectsHook",
)  # fmt: skip


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def hostile(repository: Path, git: Git, tmp_path: Path, marker: Path) -> Path:
    """Its config, attributes and hooks name a program that creates a marker."""
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\necho ran $0 $@ >> {marker}\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    git("add", ".gitattributes")
    git("commit", "--quiet", "-m", "attributes")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "pre-push", "post-checkout"):
        (hooks / name).write_text(program.read_text())
        (hooks / name).chmod(0o755)
    git("remote", "add", "origin", "https://github.com/your-org/your-repo.git")
    for key in KEYS:
        git("config", key, str(hooks if key == "core.hooksPath" else program))
    git("config", "filter.evil.required", "true")
    git("config", "alias.status", f"!{program}")
    git("config", "log.showSignature", "true")
    git("config", "protocol.ext.allow", "always")
    git("config", "url.ext::sh -c evil.insteadOf", "https://github.com/")
    (repository / "a.py").write_text("changed, so that it is read through the filter\n")
    os.utime(repository / "lib" / "b.py", (1, 1))
    return repository


def test_plain_git_would_run_the_repositorys_programs(
    hostile: Path, git: Git, marker: Path
) -> None:
    with suppress(AssertionError):  # it does, and breaks
        git("status", "--porcelain")
    assert marker.exists()


async def test_a_status_query_runs_none_of_its_programs(hostile: Path, marker: Path) -> None:
    found = await read_repository(hostile)
    assert found.state.changed
    await query_git(found, "diff", "--no-ext-diff", "--no-textconv", "HEAD")
    assert not marker.exists()


async def test_the_git_that_gh_runs_runs_none_of_its_programs(
    hostile: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gh = GhStandIn(tmp_path / "gh bin")
    asks = [["git", "status"], ["git", "remote", "-v"], ["git", "fetch", "origin"]]
    gh.answer("pr", "view", exit=1, stderr="no pull requests found", runs=asks)
    monkeypatch.setenv("PATH", f"{gh.folder}:{os.environ['PATH']}")
    assert await GitHub().pull_request(await read_repository(hostile)) is None
    assert len(gh.asked) == 1
    assert not marker.exists()


async def test_a_submodule_with_such_a_config_is_not_entered(
    hostile: Path, repository: Path, git: Git, tmp_path: Path, marker: Path
) -> None:
    outer = tmp_path / "outer"
    git("init", "--quiet", "--initial-branch=main", str(outer))
    git("-c", "protocol.file.allow=always", "clone", "--quiet", str(hostile), str(outer / "sub"))
    git("add", "sub", cwd=outer)
    git("commit", "--quiet", "-m", "start", cwd=outer)
    config = (hostile / ".git" / "config").read_text()
    (outer / "sub" / ".git" / "config").write_text(config)
    (outer / "sub" / "a.py").write_text("changed\n")
    marker.unlink(missing_ok=True)
    await read_repository(outer)
    assert not marker.exists()
    with suppress(AssertionError):
        git("status", cwd=outer)
    assert marker.exists()


@pytest.mark.parametrize("line", ['[filter "f{n}"]\n\tclean = x\n', '[x "{n}"]\n\tk = {long}\n'])
async def test_a_config_too_large_to_check_is_refused(
    hostile: Path, marker: Path, line: str
) -> None:
    with (hostile / ".git" / "config").open("a") as config:
        for number in range(1_000):
            config.write(line.format(n=number, long="y" * 5_000))
    with pytest.raises(TillermanError, match="is too large"):
        await read_repository(hostile)
    assert not marker.exists()


@pytest.mark.parametrize("where", ["", "another", "work/lib"])
async def test_a_repository_cannot_redirect_the_work_tree(
    repository: Path, git: Git, tmp_path: Path, where: str
) -> None:
    git("init", "--quiet", str(tmp_path / "another"))
    git("config", "core.worktree", str(tmp_path / where))
    with pytest.raises(NoRepository, match="a different folder"):
        await read_repository(repository)


def test_the_users_own_settings_stay_and_override_the_repositorys() -> None:
    found = [
        GitSetting("filter.lfs.clean", "git-lfs clean", True),
        GitSetting("credential.helper", "store", True),
        GitSetting("credential.https://github.com.helper", "!gh auth git-credential", True),
        GitSetting("core.sshcommand", "ssh -i mine", True),
        GitSetting("filter.lfs.clean", "evil", False),
        GitSetting("core.sshcommand", "evil", False),
        GitSetting("credential.https://github.com.helper", "!evil", False),
        GitSetting("user.name", "Tester", False),
    ]
    assert overrides(found) == [
        ("filter.lfs.clean", "git-lfs clean"),
        ("core.sshcommand", "ssh -i mine"),
        ("credential.helper", ""),
        ("credential.helper", "store"),
        ("credential.https://github.com.helper", "!gh auth git-credential"),
    ]
