"""Parses SKILL.md files: the commands or the prompt for a branch status.

A project's own skills take precedence over those shipped with tillerman. Commands are code: they
are accepted from a `.tillerman/` that the user trusted, and from no other folder of a repository.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tillerman.config.project_trust import project_folder, trust_state
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.refusal import Refused

SHIPPED = Path(__file__).parent / "skills"
LARGEST = 256 << 10  # bytes
FOREIGN = (".cursor", ".claude")
PROGRAMS = ("git", "gh")
# Placeholders of commands; a prompt can have these and those in CONTEXT.
FACTS = (
    "branch", "remote", "base", "default_branch", "number", "title", "url", "merge_method",
    "delete",
)  # fmt: skip
CONTEXT = ("changes", "conflicts", "reviews", "checks", "people")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Skill:
    id: str
    source: str  # its file, or that it is shipped with tillerman
    description: str = ""
    commands: tuple[tuple[str, ...], ...] = ()  # none: it needs an agent
    prompt: str = ""

    @property
    def needs_ai(self) -> bool:
        return not self.commands

    @property
    def names(self) -> frozenset[str]:
        """Returns its placeholders."""
        words = [self.prompt] if self.needs_ai else [word for one in self.commands for word in one]
        found = {name for word in words for name in _PLACEHOLDER.findall(word)}
        return frozenset(found & {*FACTS, *CONTEXT})


@dataclass(frozen=True)
class FoundSkill:
    skill: Skill
    notes: tuple[str, ...] = ()  # of ignored files, and why


def find_skill(paths: Paths, top: Path, id: str) -> FoundSkill:
    """Finds the project's own skill, else that of another tool, else the shipped one."""
    notes: list[str] = []
    for data, source, own in _files(paths, top, id, notes):
        skill = parse_skill(data, id, source)
        if skill.commands and not own:
            notes.append(
                f"{source} defines commands, which requires a trusted .tillerman/: skipped"
            )
            continue
        return FoundSkill(skill, tuple(notes))
    shipped = SHIPPED / id / "SKILL.md"
    try:
        return FoundSkill(
            parse_skill(shipped.read_bytes(), id, "comes with tillerman"), tuple(notes)
        )
    except FileNotFoundError:
        raise ConfigError(
            f"unknown skill {id!r}", hint="skills of a project are in .tillerman/skills"
        ) from None


def _files(paths: Paths, top: Path, id: str, notes: list[str]) -> Iterator[tuple[bytes, str, bool]]:
    name = f"skills/{id}/SKILL.md"
    folder = project_folder(paths, top)
    if folder and name in folder.files:
        source = str(folder.path / name)
        if (state := trust_state(paths, folder)) == "trusted":
            yield folder.files[name], source, True
        else:
            why = "changed since it was trusted" if state == "changed" else "not trusted"
            notes.append(f"{source} is ignored, .tillerman/ is {why}: `tillerman trust` enables it")
    with ConfinedRoot(top, guarded=False) as root:
        for tool in FOREIGN:
            try:
                opened = root.open_file(f"{tool}/{name}")
            except Refused:
                continue
            with os.fdopen(opened, "rb") as file:
                yield file.read(LARGEST + 1), str(top / tool / name), False


# -- one file --------------------------------------------------------------------------------------


def parse_skill(data: bytes, id: str, source: str) -> Skill:
    """Parses a skill; unknown keys belong to other tools and are ignored."""
    if len(data) > LARGEST:
        raise ConfigError(f"{source}: larger than {LARGEST >> 10} KB", hint="shorten it")
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{source}: not UTF-8 at byte {error.start}", hint="save it as UTF-8"
        ) from None
    values, commands, body = _front_matter(lines, source)
    ai = values.get("ai", "false" if commands else "true")
    if ai not in ("true", "false"):
        raise ConfigError(f"{source}: `ai` must be true or false, not {ai!r}", hint="ai: true")
    if (ai == "false") != bool(commands):
        raise ConfigError(
            f"{source}: a skill needs either commands or an agent",
            hint="write `ai: false` and `commands:`, or neither",
        )
    prompt = "\n".join(lines[body:]).strip()
    if not prompt and not commands:
        raise ConfigError(f"{source}: the prompt is empty", hint="write a prompt below the `---`")
    return Skill(id, source, values.get("description", ""), commands, prompt)


def _front_matter(
    lines: Sequence[str], source: str
) -> tuple[dict[str, str], tuple[tuple[str, ...], ...], int]:
    values: dict[str, str] = {}
    commands: list[tuple[str, ...]] = []
    if lines[:1] != ["---"]:
        return values, (), 0
    last = ""
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == "---":
            return values, tuple(commands), number
        item = line.strip()
        if last == "commands" and item.startswith("- "):
            commands.append(_command(item[2:], f"{source}:{number}"))
        elif line[:1] not in (" ", "\t", "#", "-", ""):
            last, _, value = line.partition(":")
            values[last] = _unquoted(value.strip())
    raise ConfigError(f"{source}: the front matter has no end", hint="close it with `---`")


def _command(text: str, where: str) -> tuple[str, ...]:
    example = 'as in ["git", "push", "{remote}"]'
    try:
        words: Any = json.loads(text)
    except ValueError:
        words = None
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise ConfigError(f"{where}: a command must be a list of strings", hint=example)
    if words[0] not in PROGRAMS:
        raise ConfigError(
            f"{where}: {words[0]!r} is neither git nor gh",
            hint="use a skill with a prompt for other commands",
        )
    for word in words:
        for name in _PLACEHOLDER.findall(word):
            if name not in FACTS:
                raise ConfigError(
                    f"{where}: unknown placeholder {{{name}}}",
                    hint=f"known: {', '.join(FACTS)}",
                )
    return tuple(words)


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


# -- placeholders ----------------------------------------------------------------------------------


def filled_command(command: Sequence[str], facts: Mapping[str, str]) -> tuple[str, ...]:
    """Fills in a command. A fact that starts with `-` must not become an option."""
    words = []
    for word in command:
        filled = _PLACEHOLDER.sub(lambda match: facts[match[1]], word)
        if "\0" in filled or (filled.startswith("-") and not word.startswith("-")):
            raise ConfigError(
                f"{filled!r} would be read as an option of {command[0]}",
                hint="rename the branch or remote",
            )
        words.append(filled)
    return tuple(words)


def filled_prompt(prompt: str, values: Mapping[str, str]) -> str:
    """Fills in a prompt in one pass: inserted text is not expanded again."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), prompt)
