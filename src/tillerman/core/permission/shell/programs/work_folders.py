"""Folders that options of a program name for it to work in, whatever the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from tillerman.core.permission.shell.programs.options import grammar
from tillerman.core.permission.shell.programs.row import Row

_NAMES = frozenset({
    "basedir", "base-dir", "build", "builddir", "build-dir", "build-file", "cd", "chdir", "cwd",
    "dir", "directory", "gemfile", "git-dir", "manifest-dir", "manifest-path", "package-dir",
    "package-path", "project", "project-dir", "project-directory", "project-path", "project-root",
    "projectdir", "root", "root-dir", "rootdir", "stack-yaml", "wd", "work-dir", "work-tree",
    "workdir", "working-dir", "working-directory", "workingdir",
})  # fmt: skip
# Options that name such a folder, or a file in it, in these programs only.
_OPTIONS = {
    "ant": "-f -file -buildfile", "cargo": "--path", "cmake": "-S -B", "composer": "-d",
    "conda": "-p --prefix", "docker": "-f --file", "dune": "--root", "gradle": "-p -b",
    "gradlew": "-p -b", "hg": "-R --repository", "jj": "-R --repository",
    "just": "-d -f --justfile",
    "mamba": "-p --prefix", "micromamba": "-p --prefix", "mvn": "-f --file", "mvnd": "-f --file",
    "mvnw": "-f --file", "nerdctl": "-f --file", "npm": "--prefix", "nox": "-f --noxfile",
    "npx": "--prefix", "parallel": "--wd --workdir",
    "pdm": "-p", "pip": "-e --editable", "phpunit": "-c --configuration",
    "pnpm": "--prefix", "podman": "-f --file", "poetry": "-P", "pytest": "-c --config-file",
    "rake": "-f --rakefile", "task": "-d -t --taskfile", "tmux": "-c", "tox": "-c --conf",
    "tsc": "-p", "uv": "-e --editable", "xcodebuild": "-workspace", "yarn": "--prefix",
}  # fmt: skip
# They change files of the folders among their operands: caches, and what they format.
_ON_OPERANDS = frozenset({
    "autopep8", "biome", "black", "build", "clang-format", "dprint", "eslint", "isort", "jest",
    "mocha", "phpunit", "prettier", "pytest", "rspec", "rubocop", "ruff", "shfmt",
    "vitest", "yapf",
})  # fmt: skip
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl", "oc"})
_VARIABLE = re.compile(
    r"(?i)git_(dir|work_tree)|destdir|prefix|npm_config_(prefix|dir|cwd)|bundle_gemfile|compose_file"
    r"|(\w+_)?(work(ing)?_?dir(ectory)?|project(_?(dir|root|path|directory))?)"
)
_OPTIONS_OF = re.compile(r"\w*(FLAGS|OPTS|OPTIONS)|TOX_\w*|MAVEN_ARGS")
_MAKES = frozenset({"make", "gmake", "ninja", "scons", "waf"})
_WORK_TREE = re.compile(r"(?i)core\.worktree=(.*)", re.DOTALL)
_MOST = 50


def named_folders(
    words: Sequence[str], row: Row | None = None, entered: Sequence[str] = ()
) -> tuple[str, ...]:
    """The folders that options name, and files in such folders, but for those already `entered`."""
    name = words[0].rpartition("/")[2]
    if name.startswith("python") and "-m" in words[:-1]:
        words = words[words.index("-m") + 1 :]
        name = words[0]
    if name in _CONTAINERS and "compose" not in words:
        return ()
    own = frozenset(_OPTIONS.get(name, "").split())
    found = [path for path in _named(words[1:], own, _takes_folder(row)) if path not in ("", "-")]
    if name in _ON_OPERANDS:
        found += [word for word in words[1:] if not word.startswith("-") and "/" in word]
    elif name in _MAKES:
        pairs = (word.split("=", 1) for word in words[1:] if "=" in word)
        found += [path for variable, path in pairs if _VARIABLE.fullmatch(variable)]
    for path in entered:
        if path in found:
            found.remove(path)
    return tuple(dict.fromkeys(found))[:_MOST]


def _takes_folder(row: Row | None) -> bool:
    """Whether `-C` may name a folder: unless the table knows that it means something else."""
    if row is None or row.own:
        return True
    option = grammar(row.options, row.style).get("-C")
    return option is None or option.role in ("dir", "mention")


def _named(words: Sequence[str], own: frozenset[str], short: bool) -> Iterator[str]:
    for at, word in enumerate(words):
        if not word.startswith("-") or len(word) < 2:
            continue
        following = words[at + 1] if at + 1 < len(words) else ""
        name, equals, value = word.partition("=")
        if name in own or name.lstrip("-").replace("_", "-").lower() in _NAMES:
            yield value if equals else following
        elif not word.startswith("--"):
            letter = word[:2]
            if letter == "-c" and (tree := _WORK_TREE.match(word[2:] or following)):
                yield tree[1]
            if letter in own or (short and letter == "-C"):
                yield word[2:].removeprefix("=") or following


def folders_in_variable(name: str, value: str) -> tuple[str, ...]:
    """The folders that an environment variable names for programs to work in."""
    if _VARIABLE.fullmatch(name):
        return tuple(part for part in value.split(":") if part)
    if _OPTIONS_OF.fullmatch(name):
        try:
            words = shlex.split(value)
        except ValueError:
            words = value.split()
        return tuple(path for path in _named(words, frozenset(), True) if path)
    return ()
