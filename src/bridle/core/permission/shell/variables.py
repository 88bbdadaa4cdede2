"""Variables that change which program runs, or what a program does."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Set for one command, these change how it looks and talks; of any other, nobody knows.
HARMLESS = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|LINES|COLORTERM|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?"
    r"|CI|DEBUG|VERBOSE|NODE_ENV|RUST_BACKTRACE|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
    r"|PYTHONHASHSEED|PYTHONIOENCODING|PYTHONUTF8|DJANGO_LOG_LEVEL|LOG_LEVEL|DEBIAN_FRONTEND"
    r"|HOMEBREW_NO_AUTO_UPDATE|CARGO_TERM_COLOR|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS"
)
_STEERS = re.compile(
    r"PATH|CDPATH|IFS|ENV|BASH_ENV|BASH_\w+|SHELLOPTS|BASHOPTS|SHELL|PS4|PROMPT_COMMAND|HOME|PWD"
    r"|XDG_\w+|LD_\w+|DYLD_\w+|GCONV_PATH|GLOBIGNORE|EXECIGNORE|FPATH|ZDOTDIR"
    r"|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w*|MAN\w*|GIT_\w+|SSH_\w+|SUDO_\w+|\w*ASKPASS"
    r"|PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w+|JAVA_\w+|_JAVA_OPTIONS|JDK_\w+|CLASSPATH|PHP\w*|LUA_\w+"
    r"|npm_\w+|NPM_\w+|CARGO_\w+|RUSTC\w*|GO\w*|CC|CXX|MAKE\w*|TAR_OPTIONS|RSYNC_\w+|GREP_OPTIONS"
    r"|WGETRC|CURL_HOME|OPENSSL_\w+|DOCKER_\w+|KUBECONFIG|AWS_\w+|HTTPS?_PROXY|https?_proxy"
)

_SET = frozenset({
    "export", "declare", "typeset", "readonly", "local", "read", "unset", "printf", "mapfile",
    "readarray", "getopts", "let", "select",
})  # fmt: skip
_RENAME = frozenset({"hash", "enable"})  # what a name stands for


def changes(words: Sequence[str]) -> str | None:
    """What this command changes of the commands that follow in the same shell."""
    if words[0] in _RENAME and len(words) > 1:
        return f"{words[0]} changes what programs are"
    if words[0] not in _SET:
        return None
    names = (re.split(r"[+=\[]", word)[0] for word in words[1:])
    return next((f"{name} changes what programs are or do" for name in names if steers(name)), None)


def steers(name: str) -> bool:
    """Whether a value for it changes the commands that follow in the same shell."""
    return _STEERS.fullmatch(name) is not None
