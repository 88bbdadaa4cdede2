"""What is specific to an agent is in its own package, which no other module names or imports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tillerman"
OURS = {"mock", "replay"}  # agents of tillerman itself
REMOTE = {"cursor_cloud"}  # runs nothing on this machine: no files, no hooks

# Each file or folder that may name an agent, and why.
MAY_NAME = {
    "__init__.py": "the example of the Python API",
    "agents/acp/rows/acp_agents.toml": "an ACP adapter is an agent: its row is its package",
    "agents/acp/failures.py": "an error field of an adapter, which any ACP command may run",
    "config/model_table.toml": "generated from the models.toml of all packages",
    "config/settings.py": "the agent that is used if none is named",
    "config/value_types.py": "the example in an error message",
    "core/agent_files.py": "generated from the files.toml of all packages",
    "core/permission/search_paths.py": "whose search tool takes patterns that exclude files",
    "core/permission/shell/programs/tables/editors.py": "an editor's command",
    "core/session_options.py": "option names of another SDK, and the example in an error message",
    "pipelines/graph_drawing.py": "the example in its description",
    "pipelines/init_files/config.toml": "a commented example",
    "surfaces/acp/params.py": "a field of ACP: the place in a list",
    "surfaces/cli/parsing/examples.py": "the examples in the help of the commands",
    "surfaces/cli/parsing/parser.py": "the first steps in the help",
    "surfaces/tui/conversation/welcome.py": "a variant that is not selected automatically",
    "sync.py": "the example of the synchronous Python API",
    "testing/model_double": "the APIs of model makers",
    "workspace/branch/skill_file.py": "in which order the skill folders of other tools are read",
}


def entry_points() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, str] = project["entry-points"]["tillerman.agents"]
    return found


def vendors() -> set[str]:
    return {target.split(":")[0].split(".")[2] for target in entry_points().values()} - OURS


def naming(vendor: str) -> re.Pattern[str]:
    if vendor == "cursor":  # also an English word
        return re.compile(r"\bCursor\b|\bCURSOR_|cursor-agent|[\"'`.|]cursor[\"'`/|](?!:)")
    return re.compile(vendor, re.IGNORECASE)


def files() -> list[Path]:
    kinds = (".py", ".toml", ".json", ".c", ".md")
    return [path for path in PACKAGE.rglob("*") if path.suffix in kinds and path.is_file()]


def test_no_file_outside_of_its_package_names_an_agent() -> None:
    patterns = {vendor: naming(vendor) for vendor in vendors()}
    found = set()
    for path in files():
        place = path.relative_to(PACKAGE)
        if place.parts[0] == "agents" and place.parts[1] in patterns:
            continue
        text = path.read_text("utf-8")
        if any(pattern.search(text) for pattern in patterns.values()):
            known = [name for name in MAY_NAME if place.is_relative_to(name)]
            found.add(known[0] if known else str(place))
    assert found == set(MAY_NAME)


def test_each_package_has_the_files_that_others_look_for() -> None:
    for vendor in vendors():
        names = {path.name for path in (PACKAGE / "agents" / vendor).iterdir()}
        local = set() if vendor in REMOTE else {"files.toml", "hook_dialect.py"}
        assert {"agent.py", "failures.py"} | local <= names


def test_importing_a_package_loads_no_driver() -> None:
    for vendor in vendors():
        text = (PACKAGE / "agents" / vendor / "__init__.py").read_text("utf-8")
        assert "import" not in re.sub(r'""".*?"""', "", text, flags=re.DOTALL)


def test_the_import_rules_protect_every_agent() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    [protected] = [
        contract["protected_modules"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "protected"
    ]
    assert set(protected) == {f"tillerman.agents.{name}" for name in vendors() | OURS}
