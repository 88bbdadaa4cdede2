"""Detects shell syntax that bash and a POSIX shell parse differently."""

from __future__ import annotations

import re

_DIFFERENT = re.compile(
    r"""\$['"\[]|\(\(|\[\[|[<>]\(|&>|>&|\|&|<<<|(?<!\$)\{[^\s;]|=\(|;&|\+=|[?*+@!]\(|\$\{[ \t\n|]"""
    r"""|~[-+]|[0-9]{2}[<>]"""
    r"""|\b(?:function|select|coproc|time|source|shopt|declare|typeset|let|pushd|popd|dirs|mapfile"""
    r"""|readarray|enable|bind|builtin|complete|compgen|caller|history|fc|help|chdir|local|export"""
    r"""|readonly|alias|posix)\b"""
)


def is_read_differently(text: str) -> bool:
    """Whether bash may parse a text differently than a POSIX shell."""
    return _DIFFERENT.search(text) is not None
