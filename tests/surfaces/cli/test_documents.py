"""Documents generated from the program are up to date."""

import subprocess
from pathlib import Path

import pytest

from tillerman.surfaces.cli.commands.schema import document
from tillerman.surfaces.cli.main import main
from tillerman.surfaces.cli.parsing.argparse_errors import option_strings, subcommands
from tillerman.surfaces.cli.parsing.parser import build

DOCS = Path(__file__).parents[3] / "docs"
MCP = ["list", "tools", "add", "remove", "enable", "disable", "serve"]


def test_the_schema_in_the_docs_matches_the_types() -> None:
    stored = (DOCS / "events.schema.json").read_text()
    assert stored == document() + "\n", "run: tillerman schema > docs/events.schema.json"


def test_every_command_and_option_is_in_the_docs() -> None:
    text = (DOCS / "cli.md").read_text()
    missing = []
    for name, parser in subcommands(build()).items():
        for path, one in [
            (name, parser),
            *((f"{name} {n}", p) for n, p in subcommands(parser).items()),
        ]:
            if f"tillerman {path}" not in text:
                missing.append(path)
            missing += [
                f"{path} {word}"
                for word in option_strings(one)
                if word.startswith("--") and word != "--json-summary" and f"`{word}" not in text
            ]
    assert missing == []


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ses", ["sessions"]),
        ("sessions fo", ["follow", "fork"]),
        ("run --mode p", ["plan"]),
        ("--color ", ["auto", "always", "never"]),
        ("sessions list --h", ["--help", "--here"]),
        ("config set --pr", ["--project"]),
        ("mcp ", ["-h", "--help", "--color", "--debug", *MCP]),
        ("mcp add --agent cla", ["claude", "claude-agent-acp"]),
        ("login moc", ["mock"]),
        ("hooks re", ["remove"]),
        ("hooks install --us", ["--user"]),
        ("doctor --f", ["--full"]),
        ("logs p1 --st", ["--stdout", "--stderr"]),
        ("repo ac", ["action"]),
        ("repo action --approve re", ["readonly"]),
    ],
)
def test_bash_completes_commands_options_and_values(
    line: str, offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = f"""{script}
COMP_WORDS=(tillerman {line.rstrip()} {'""' if line.endswith(" ") else ""})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_tillerman; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash"], input=ask, capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.split() == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, parser in subcommands(build()).items():
        assert name in script
        for inner in subcommands(parser):
            assert f"{name} {inner}" in script
