"""Filters environment variables for child processes and detects secret values among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from tillerman.core.errors import UsageError

ALLOWED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM",
    "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "NO_COLOR", "TZ", "TMPDIR", "XDG_*",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "AWS_CA_BUNDLE", "NIX_SSL_CERT_FILE",
    "PIP_CERT", "CARGO_HTTP_CAINFO", "DENO_CERT",
    "SSH_AUTH_SOCK", "SSH_AGENT_PID",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT",
)  # fmt: skip

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?\Z")
_CREDENTIAL = re.compile(
    r"(?:^|_)(?:API)?(?:KEY|TOKEN|PAT|PASS|PWD|AUTH|BEARER|COOKIE|CREDENTIALS?)(?:_|\d*$)"
    r"|SECRET|PASSWORD|PASSWD|PASSPHRASE|AUTHORIZATION|ACCESS_?KEY|API_?KEY|PRIVATE_?KEY"
)
# Such a variable holds a file, a socket, a type or a count: its value is not a secret.
_NOT_CREDENTIAL = re.compile(
    r"^(?:PWD|OLDPWD|XAUTHORITY|GOOGLE_APPLICATION_CREDENTIALS)$"
    r"|_(?:FILE|PATH|SOCK|DIR|HOME|HELPER|COMMAND|TYPE|MODE|METHOD|LIMIT|TTL|TTL_MS|COUNT|HOST)$"
)
_USERINFO = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://([^\s/@:]*):([^\s/@]*)@")
_HEADER = re.compile(r"^\s*([A-Za-z0-9-]+)\s*:\s*(.+?)\s*$", re.MULTILINE)


class ChildEnvironment(NamedTuple):
    variables: dict[str, str]
    secrets: list[tuple[str, str]]  # (variable, value): register them before the child starts


def child_environment(
    parent: Mapping[str, str],
    info_variables: Sequence[str] = (),
    passed: Sequence[str] = (),
    given: Mapping[str, str] = {},
) -> ChildEnvironment:
    """Filters the parent's variables: the allow list, those of the agent, and those requested.

    `info_variables` and `passed` hold names or `PREFIX_*`; `given` sets values and takes
    precedence.
    """
    wanted = [*ALLOWED, *info_variables, *passed]
    names = {name for name in wanted if "*" not in name}
    patterns = [name for name in wanted if "*" in name]
    variables = {
        name: value
        for name, value in parent.items()
        if name in names or any(fnmatchcase(name, pattern) for pattern in patterns)
    } | dict(given)
    return ChildEnvironment(variables, secrets_of(variables))


def secrets_of(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns values that are secret by variable name, or by their position inside a value."""
    found = []
    for name, value in variables.items():
        if is_credential(name):
            found.append((name, value))
        found += [(name, _password(match)) for match in _USERINFO.finditer(value)]
        if name.endswith("HEADERS"):
            headers = _HEADER.findall(value)
            found += [(name, text.split()[-1]) for header, text in headers if _secret(header)]
    return [(name, value) for name, value in found if value]


def is_credential(name: str) -> bool:
    upper = name.upper()
    return bool(_CREDENTIAL.search(upper)) and not _NOT_CREDENTIAL.search(upper)


def asked_for(words: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Parses `--env NAME` and `--env NAME=VALUE` into `passed` and `given`."""
    passed: list[str] = []
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (_NAME if equals else _PATTERN).match(name) or "\0" in value:
            raise UsageError(
                f"--env {name!r} is not a variable name",
                hint="use --env NAME, --env PREFIX_* or --env NAME=VALUE",
            )
        if equals:
            given[name] = value
        else:
            passed.append(name)
    return passed, given


def _password(userinfo: re.Match[str]) -> str:
    from urllib.parse import unquote

    return unquote(userinfo[2])


def _secret(header: str) -> bool:
    return is_credential(header.replace("-", "_"))
