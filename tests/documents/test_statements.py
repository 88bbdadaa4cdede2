"""Statements of the documents that can be compared with the code."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, get_args

import pytest

from tests import CHECKOUT
from tests.documents.pages import pages
from tillerman import agents
from tillerman.core.capabilities import capabilities
from tillerman.core.failure import Failure, FailureKind
from tillerman.core.tools import TOOLS, class_of
from tillerman.paths import Paths
from tillerman.surfaces import exit_codes
from tillerman.surfaces.cli.parsing.argparse_errors import option_strings, subcommands
from tillerman.surfaces.cli.parsing.examples import EXAMPLES
from tillerman.surfaces.cli.parsing.parser import build
from tillerman.surfaces.exit_codes import exit_code

DOCS = CHECKOUT / "docs"
KINDS = get_args(FailureKind)
_ROW = re.compile(r"^\| (.*?) \| ", re.MULTILINE)
_OF_PYTHON = {
    "Any", "AsyncGenerator", "AsyncIterator", "Callable", "False", "Future", "Generator",
    "Iterable", "Iterator", "Literal", "Mapping", "None", "Path", "Self", "Sequence", "True",
    "TypedDict", "Unpack",
}  # fmt: skip
_OF_AGENTS_AND_SURFACES = {  # what implements an agent or a surface; no program needs them
    "ALLOW", "Config", "Conversation", "DENY", "Host", "Paths", "ProjectRules", "PythonTool",
    "ServeOptions", "SessionSpec",
}  # fmt: skip
_OTHER_WORDS = {"nothing happens in a script", "a call is denied, and you do not know why"}


@pytest.mark.parametrize("page", ["json.md", "reference/errors.md"])
def test_every_kind_of_failure_is_named(page: str) -> None:
    text = (DOCS / page).read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []


def test_every_type_that_the_reference_names_is_described() -> None:
    pages = [(DOCS / f"reference/{name}.md").read_text() for name in ("api", "events", "errors")]
    pages[1] = pages[1].partition("\n## Tools\n")[0]
    code = " ".join(re.findall(r"`([^`\n]+)`", "".join(pages[:2])))
    described = set(re.findall(r"^#+ (?:sync\.)?(\w+)", "".join(pages), re.MULTILINE))
    described |= set(re.findall(r"core\.events\.(\w+)`", pages[1]))
    described |= set(re.findall(r"^\| `([A-Z]\w+)` \|", pages[0], re.MULTILINE))
    named = set(re.findall(r"\b[A-Z][a-zA-Z]+\b", code))
    assert named - described - _OF_PYTHON - _OF_AGENTS_AND_SURFACES == set()


def test_the_reference_names_what_a_session_and_a_harness_have() -> None:
    text = (DOCS / "reference/api.md").read_text()
    for section, names in {"Session": ["id"], "Harness": ["sessions", "management"]}.items():
        part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        assert [name for name in names if f"| `{name}` |" not in part] == []


def recorded_requests() -> Iterator[dict[str, Any]]:
    """Of the golden events of every agent's recordings."""
    for path in sorted((CHECKOUT / "tests/recordings").rglob("*.json*")):
        for line in path.read_text("utf-8").splitlines():
            if '"permission_requested"' in line:
                told = json.loads(line)
                event = told.get("event", told)
                if event.get("type") == "permission_requested":
                    yield event


def test_a_request_has_its_command_or_its_files_under_one_name_for_every_agent() -> None:
    requests = list(recorded_requests())
    assert len(requests) >= 40
    for request in requests:
        if request["tool"] == "Bash":
            assert isinstance(request["input"]["command"], str), request
        if class_of(request["tool"]) in ("read", "write"):
            assert request["paths"], request
        assert request["tool"] in TOOLS, request


def test_every_symptom_is_a_message_or_a_kind_of_failure() -> None:
    source = "".join(path.read_text() for path in sorted((CHECKOUT / "src").rglob("*.py")))
    joined = re.sub(r'"\s+f?"', "", source)
    unknown = []
    for symptom in _ROW.findall((DOCS / "troubleshooting.md").read_text()):
        quoted = re.findall(r'"([^"]+)"', symptom)
        kinds = re.findall(r"`(\w+)`", symptom)
        if not quoted and not kinds and symptom not in {"you see", "---", *_OTHER_WORDS}:
            unknown.append(symptom)
        unknown += [text for text in quoted if text not in joined]
        unknown += [kind for kind in kinds if kind not in KINDS]
    assert unknown == []


def test_every_kind_of_a_failed_turn_has_a_next_step_here_or_in_the_log() -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    of_the_vendor = {"not_installed", "output_limit", "refused", "api_error", "stream_broken"}
    missing = [kind for kind in KINDS if f"`{kind}`" not in text]
    assert set(missing) == of_the_vendor | {"agent_failed"}  # the failure has its own hint


def test_the_tests_that_the_security_model_names_exist() -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", (DOCS / "security-model.md").read_text())
    assert len(named) >= 10
    assert [name for name in named if not (CHECKOUT / name).exists()] == []


def test_every_path_of_the_state_is_named() -> None:
    paths = Paths(*map(Path, ("/config", "/state", "/cache", "/sockets")))
    made = [getattr(paths, name) for name in vars(Paths) if isinstance(vars(Paths)[name], property)]
    below = {path.relative_to("/state").parts[0] for path in made if path.is_relative_to("/state")}
    text = (DOCS / "data.md").read_text()
    assert [name for name in sorted(below) if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    "name", ["claude", "codex", "gemini", "qwen", "opencode", "copilot", "cursor"]
)
def test_an_agent_is_installed_by_its_own_instructions(name: str) -> None:
    text = (DOCS / "getting-started.md").read_text()
    info = agents.load(name).info
    assert f"### {info.title}\n" in text
    assert f"\n{info.install}\n" in text
    assert f"tillerman run -a {name} " in text
    section = text.partition(f"### {info.title}\n")[2].partition("\n### ")[0]
    can = capabilities(agents.load(name))
    assert ("login" in can) is (f"tillerman login {name}" in section)
    for variable in re.findall(r"(\w+)=…", section):
        assert any(fnmatch(variable, pattern) for pattern in info.variables), variable


@pytest.mark.parametrize("page", ["README.md", "docs/cli.md"])
def test_the_exit_codes_are_those_of_the_code(page: str) -> None:
    codes = {exit_code(Failure(kind=kind, message="")) for kind in KINDS}
    codes |= {0, 2, exit_codes.CANCELLED}
    if page != "README.md":
        codes.add(exit_codes.BROKEN_PIPE)
    table = [line for line in (CHECKOUT / page).read_text().splitlines() if line.startswith("| ")]
    cells = [cell.strip() for line in table for cell in line.split("|")]
    assert {int(cell) for cell in cells if cell.isdecimal()} >= codes


def test_no_page_names_a_path_of_one_machine() -> None:
    for page in pages():
        assert not re.search(r"/(root|work)/|/home/\w", page.read_text()), page.name


def leaves(parser: ArgumentParser, path: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    for name, inner in subcommands(parser).items():
        yield f"{path} {name}".strip(), inner
        yield from leaves(inner, f"{path} {name}".strip())


def test_every_command_with_json_is_named() -> None:
    text = (DOCS / "json.md").read_text()
    with_json = [path for path, one in leaves(build()) if "--json" in option_strings(one)]
    assert [path for path in with_json if not re.search(rf"`(tillerman )?{path}\b", text)] == []


def test_every_example_is_shown_by_the_help_of_its_command() -> None:
    shown = {f"tillerman {path}": one.epilog or "" for path, one in leaves(build())}
    assert {name for name in shown if shown[name]} == set(EXAMPLES)
    for name, lines in EXAMPLES.items():
        assert all(line in shown[name] for line in lines)


@pytest.mark.parametrize("command", ["run", "sessions", "requests", "agents", "doctor", "config"])
def test_the_help_of_a_main_command_has_examples(command: str) -> None:
    assert EXAMPLES[f"tillerman {command}"]
