"""Names of protected files in a workspace: files that start programs or configure agents.

Separate from the policy, because every session needs them before its agent starts.
"""

from __future__ import annotations

import unicodedata

from tillerman.core import agent_files

# Files that start programs or relax an agent's restrictions. All of `.git`: its config and hooks
# are commands, and a `.git` file can point at others.
PROTECTED = agent_files.PROTECTED | frozenset({
    ".agents", ".mcp.json",
    ".windsurf", ".continue", ".roo", ".cline", ".kiro", ".junie", ".zed", ".amp",
    ".aider.conf.yml",
    ".vscode", ".idea", ".devcontainer", ".devcontainer.json",
    ".git", ".gitmodules", ".gitconfig", ".githooks", ".husky", ".lefthook", "lefthook.yml",
    ".lefthook.yml", "lefthook.yaml", ".overcommit.yml",
    ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml",
    ".gitlab-ci.yml", ".gitlab-ci.yaml", ".circleci", ".travis.yml", ".travis.yaml", "jenkinsfile",
    "azure-pipelines.yml", "azure-pipelines.yaml", ".azure-pipelines", "bitbucket-pipelines.yml",
    ".drone.yml", ".drone.star", "appveyor.yml", ".appveyor.yml", ".buildkite", ".woodpecker",
    ".woodpecker.yml", ".woodpecker.yaml", ".teamcity", ".gitea", ".forgejo", ".cirrus.yml",
    ".cirrus.star", ".semaphore", "buildspec.yml", "buildspec.yaml", "cloudbuild.yaml",
    "cloudbuild.yml", "codemagic.yaml", ".bitrise.yml", "bitrise.yml", ".builds", ".build.yml",
    ".tekton", ".harness", ".screwdriver.yaml", "wercker.yml", ".tillerman",
})  # fmt: skip
PROTECTED_PREFIX = ".env"
_PROTECTED_IN = {".github": frozenset({"workflows", "actions", "hooks", "agents"})}

# Files that hold instructions for agents.
INSTRUCTIONS = agent_files.INSTRUCTIONS | frozenset({
    "agents.md", "agents.override.md", ".windsurfrules", ".clinerules",
})  # fmt: skip


def is_protected(names: list[str], *, removed: bool = False) -> bool:
    """Whether a path is protected, by its `plain` parts. Removing a folder removes its content."""
    for at, name in enumerate(names):
        if name in PROTECTED or name.startswith(PROTECTED_PREFIX):
            return True
        if inside := _PROTECTED_IN.get(name):
            following = names[at + 1 : at + 2]
            if (removed and not following) or inside.intersection(following):
                return True
    return False


def is_significant(name: str) -> bool:
    """Whether this `plain` part can make a path protected."""
    return name in PROTECTED or name in _PROTECTED_IN or name.startswith(PROTECTED_PREFIX)


def plain(name: str) -> str:
    """Normalizes a name as the most lenient file system does: no case, no invisible characters."""
    if name.isascii() and name.isprintable():
        return name.lower().rstrip(" .") or name
    visible = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", visible.casefold()).rstrip(" .")
