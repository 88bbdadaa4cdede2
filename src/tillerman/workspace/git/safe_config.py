"""A repository's config without a say in which programs run: the user's own words put back over it.

Whoever can write a repository, an agent too, can name a program in its config that git runs at the
next look. The user's and the system's config are the user's, and stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_TRUSTED = ("system", "global")
# What these name is run, or leads to something that is run.
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
# Of these git takes the first it finds, so that nothing said later helps.
_STUBBORN = re.compile(r"remote\..+\.(?:receivepack|uploadpack)", re.DOTALL)
# Where nothing said before is the same as no word at all, or would be no word that git takes.
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
# What a command of ours may reach over: not another repository on this machine, whose hooks run.
_PROTOCOLS = {
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.ssh.allow": "always",
}

LISTING = ("config", "-z", "--show-scope", "--list", "--includes")


class GitSetting(NamedTuple):
    key: str  # section and name in small letters, as git tells it
    value: str
    trusted: bool


def settings(told: bytes) -> list[GitSetting]:
    """Of what `LISTING` says: `scope NUL key LF value NUL` for each."""
    fields = os.fsdecode(told).split("\0")
    found = []
    for scope, setting in zip(fields[0:-1:2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        if scope == "command":
            continue  # our own words
        found.append(GitSetting(key, value, scope in _TRUSTED))
    return found


def overrides(found: Iterable[GitSetting]) -> list[tuple[str, str]]:
    """Pairs that, after all files, leave nothing of the repository's that names a program."""
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
        pairs.append(("credential.helper", ""))  # forgets those before it
        pairs += [(s.key, s.value) for s in found if s.trusted and _is_helper(s.key)]
    return pairs


def stubborn(found: Iterable[GitSetting]) -> list[str]:
    """Keys of the repository's that name a program and cannot be overridden."""
    return [each.key for each in found if not each.trusted and _STUBBORN.fullmatch(each.key)]


def protocols(found: Iterable[GitSetting]) -> list[tuple[str, str]]:
    """Over which commands may reach a remote; the user's own config can allow more."""
    ours = {
        each.key: each.value
        for each in found
        if each.trusted and re.fullmatch(r"protocol\.(?:.+\.)?allow", each.key)
    }
    return list({**_PROTOCOLS, **ours}.items())


def remotes(found: Iterable[GitSetting]) -> Mapping[str, str]:
    """Each with its first address."""
    named: dict[str, str] = {}
    for name, value in _subsections(found, "remote", "url"):
        named.setdefault(name, value)
    return named


def branch_remote(found: Iterable[GitSetting], branch: str) -> str | None:
    """Where the branch is pushed to, if the config says so."""
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
