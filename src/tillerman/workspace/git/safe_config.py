"""Overrides settings of a repository's config that run programs.

A process that can write to a repository, such as an agent, can name a program in its config that
git runs at the next command. The user's and the system's config are trusted and stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_TRUSTED = ("system", "global")
# Their values are run, or lead to what is run.
_EXEC = re.compile(
    r"filter\..+\.(?:clean|smudge|process|required)"
    r"|diff\.external|diff\..+\.(?:command|textconv)|merge\..+\.driver"
    r"|core\.(?:sshcommand|askpass|editor|pager|gitproxy|alternaterefscommand|attributesfile)"
    r"|sequence\.editor|interactive\.difffilter|pager\..+|browser\..+|web\.browser"
    r"|credential\.(?:.+\.)?helper|gpg\.(?:.+\.)?program|gpg\.ssh\.defaultkeycommand"
    r"|remote\..+\.vcs|trailer\..+\.(?:command|cmd)"
    r"|protocol\.(?:.+\.)?allow|ssh\.variant",
    re.DOTALL,
)
# Git uses the first value of these, so that a later override has no effect.
_STUBBORN = re.compile(r"remote\..+\.(?:receivepack|uploadpack)", re.DOTALL)
# For keys whose empty value would not mean unset, or would be invalid.
_PLAIN = {
    "core.sshcommand": "ssh",
    "core.editor": "false",
    "core.askpass": "false",
    "core.pager": "cat",
    "sequence.editor": "false",
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
    "ssh.variant": "auto",
    "protocol.allow": "never",
}
_PLAIN_ENDS = {
    ".required": "false",
    ".allow": "never",
}
# Protocols of our commands: not another repository on this machine, whose hooks would run.
_PROTOCOLS = {
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.ssh.allow": "always",
}

LISTING = ("config", "-z", "--show-scope", "--list", "--includes")


class GitSetting(NamedTuple):
    key: str  # section and name in lower case, as git prints it
    value: str
    trusted: bool


def settings(told: bytes) -> list[GitSetting]:
    """Parses the output of `LISTING`: `scope NUL key LF value NUL` for each setting."""
    fields = os.fsdecode(told).split("\0")
    found = []
    for scope, setting in zip(fields[0:-1:2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        if scope == "command":
            continue  # our own overrides
        found.append(GitSetting(key, value, scope in _TRUSTED))
    return found


def overrides(found: Iterable[GitSetting]) -> list[tuple[str, str]]:
    """Returns settings that override every setting of the repository that names a program."""
    found = list(found)
    ours: dict[str, str] = {}
    theirs: dict[str, None] = {}
    for key, value, trusted in found:
        if not _EXEC.fullmatch(key):
            continue
        if trusted:
            ours[key] = value
        else:
            theirs[key] = None
    pairs = [
        (key, ours.get(key, _plain(key))) for key in theirs if not key.startswith("credential.")
    ]
    if any(key.startswith("credential.") for key in theirs):
        pairs.append(("credential.helper", ""))  # resets the helpers before it
        pairs += [(s.key, s.value) for s in found if s.trusted and _is_helper(s.key)]
    return pairs


def stubborn(found: Iterable[GitSetting]) -> list[str]:
    """Returns keys of the repository that name a program and cannot be overridden."""
    return [each.key for each in found if not each.trusted and _STUBBORN.fullmatch(each.key)]


def protocols(found: Iterable[GitSetting]) -> list[tuple[str, str]]:
    """Returns the protocols that commands may use; the user's config can allow more."""
    ours = {
        each.key: each.value
        for each in found
        if each.trusted and re.fullmatch(r"protocol\.(?:.+\.)?allow", each.key)
    }
    return list({**_PROTOCOLS, **ours}.items())


def remotes(found: Iterable[GitSetting]) -> Mapping[str, str]:
    """Returns each remote with its first URL."""
    named: dict[str, str] = {}
    for name, value in _subsections(found, "remote", "url"):
        named.setdefault(name, value)
    return named


def branch_remote(found: Iterable[GitSetting], branch: str) -> str | None:
    """Returns the remote that the branch is pushed to, if configured."""
    found = list(found)
    last: dict[str, str] = {each.key: each.value for each in found}
    keys = (f"branch.{branch}.pushremote", "remote.pushdefault", f"branch.{branch}.remote")
    return next((last[key] for key in keys if key in last), None)


def _subsections(found: Iterable[GitSetting], section: str, name: str) -> Iterator[tuple[str, str]]:
    for key, value, _ in found:
        if key.startswith(f"{section}.") and key.endswith(f".{name}"):
            inner = key[len(section) + 1 : -len(name) - 1]
            if inner:
                yield inner, value


def _is_helper(key: str) -> bool:
    return key.startswith("credential.") and key.endswith("helper")


def _plain(key: str) -> str:
    if key in _PLAIN:
        return _PLAIN[key]
    return next((value for end, value in _PLAIN_ENDS.items() if key.endswith(end)), "")
