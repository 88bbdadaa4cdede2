"""Classifies environment variables that change which program runs, or what a program does."""

from __future__ import annotations

import re

# These change only the display and messages of a command.
_HARMLESS = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|LINES|COLORTERM|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?"
    r"|CI|DEBUG|VERBOSE|NODE_ENV|RUST_BACKTRACE|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
    r"|PYTHONHASHSEED|PYTHONIOENCODING|PYTHONUTF8|DJANGO_LOG_LEVEL|LOG_LEVEL|DEBIAN_FRONTEND"
    r"|HOMEBREW_NO_AUTO_UPDATE|CARGO_TERM_COLOR|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS"
)
# These change which program a name refers to, or which other programs a program runs.
_STEERS = re.compile(
    r"PATH|ENV|BASH_\w+|SHELLOPTS|BASHOPTS|SHELL|HOME|XDG_\w+|LD_\w+|DYLD_\w+|GCONV_PATH|EXECIGNORE"
    r"|FPATH|ZDOTDIR|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w*|MAN\w*|GIT_\w+|SSH_\w+|SUDO_\w+"
    r"|\w*ASKPASS|NODE_OPTIONS|_?JAVA_\w*OPTIONS|JDK_\w+|PERL5OPT|RUBYOPT|PYTHONSTARTUP"
    r"|PYTHONINSPECT|PYTHONBREAKPOINT|npm_config_\w+|NPM_CONFIG_\w+|RUSTC\w*|CARGO_\w*(WRAPPER|RUNNER"
    r"|LINKER)|GOFLAGS|CC|CXX|MAKEFLAGS|MAKEFILES|TAR_OPTIONS|RSYNC_\w+|GREP_OPTIONS|WGETRC|CURL_HOME"
    r"|OPENSSL_\w+|POSIXLY_CORRECT|RIPGREP_CONFIG_PATH|FZF_\w+|BAT_\w+|GLIBC_TUNABLES|LOCPATH|NLSPATH"
    r"|TERMINFO\w*|INPUTRC|FCEDIT|PSQLRC|\w*RSH|GNUPGHOME"
)
# These change what a program does, in ways that a rule which allows it did not intend.
_CONFIGURES = re.compile(
    r"PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w+|JAVA_\w+|CLASSPATH|PHP\w*|LUA_\w+|npm_\w+|NPM_\w+|CARGO_\w+"
    r"|GO\w*|MAKE\w*|DOCKER_\w+|PODMAN_\w+|CONTAINERS?_\w+|BUILD\w+|COMPOSE_\w+|KUBE\w*|AWS_\w+"
    r"|GH_\w+|GITHUB_\w+|GLAB_\w+|PIP_\w+|UV_\w+|YARN_\w+|PNPM_\w+|BUNDLE_\w+|GEM_\w+|PG\w+"
    r"|MYSQL_\w+|TF_\w+|ANSIBLE_\w+|AWK\w+|\w+_PROXY|\w+_proxy|TAPE|UNZIP\w*|ZIP\w*|ZSTD_\w+|XZ_\w+"
    r"|LOCALDOMAIN|HOSTALIASES|RES_OPTIONS"
)
# The shell itself sets these; values that the line assigns do not count.
_DYNAMIC = re.compile(
    r"_|PWD|OLDPWD|REPLY|OPTARG|OPTIND|RANDOM|SRANDOM|SECONDS|LINENO|HISTCMD|DIRSTACK|FUNCNAME|GROUPS"
    r"|PIPESTATUS|PPID|U?ID|EUID|SHLVL|COLUMNS|LINES|EPOCH\w+|COMP_\w+|READLINE_\w+|BASHPID"
    r"|BASH_(?:REMATCH|COMMAND|SUBSHELL|ARG[CV]|ARGV0|LINENO|SOURCE|MONOSECONDS|VERSINFO|VERSION"
    r"|EXECUTION_STRING)"
)
_PLACE = re.compile(r":?[/~]|.*\.\.")  # a value that refers to files elsewhere
_PROMPTS = re.compile(
    r"PROMPT_COMMAND|PS[0-4]|MAILPATH|PROMPT|RPROMPT|precmd_functions|chpwd_functions"
)
_TABLES = re.compile(r"BASH_ALIASES|BASH_CMDS|aliases|galiases|functions|commands")


def is_harmless(name: str, value: str) -> bool:
    """Whether this value changes only the display and messages of a program."""
    return _HARMLESS.fullmatch(name) is not None and _PLACE.match(value) is None


def steers(name: str) -> bool:
    """Whether a value for it changes which programs run."""
    return _STEERS.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def configures(name: str) -> bool:
    """Whether a lasting value for it changes what well-known programs do."""
    return _CONFIGURES.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def is_dynamic(name: str) -> bool:
    """Whether the shell changes its value by itself."""
    return _DYNAMIC.fullmatch(name) is not None


def is_prompt(name: str) -> bool:
    """Whether the shell runs its value as commands."""
    return _PROMPTS.fullmatch(name) is not None


def is_lookup_table(name: str) -> bool:
    """Whether it defines what a command's name refers to."""
    return _TABLES.fullmatch(name) is not None
