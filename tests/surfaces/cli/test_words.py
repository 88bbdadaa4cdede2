"""Invalid arguments on the command line: one line of error, one of help, exit 2, no traceback."""

import io
import sys

import pytest

from tillerman.surfaces.cli.main import main
from tillerman.surfaces.cli.parsing.argparse_errors import parse, subcommands
from tillerman.surfaces.cli.parsing.parser import build

EMPTY = "error: argument -a/--agent: must not be empty\nhint: `tillerman {} --help` shows the usage"
WRONG = {
    "run --agent= hi": EMPTY.format("run"),
    "sessions list --agent=": EMPTY.format("sessions list"),
    "mcp list --agent=": EMPTY.format("mcp list"),
    "mcp add probe": (
        "error: give exactly one of a command, --url or --config\n"
        "hint: tillerman mcp add NAME -- COMMAND ARG …"
    ),
    "mcp add probe --url http://127.0.0.1:9 -- npx thing": (
        "error: give exactly one of a command, --url or --config\n"
    ),
    "mcp add probe --header A:b -- npx": "error: --header and --sse require --url",
    "rn": "error: unknown command 'rn'\nhint: did you mean run?",
    "sessions lst": "error: unknown command 'lst'\nhint: did you mean list?",
    "requests anser": "error: unknown command 'anser'\nhint: did you mean answer?",
    "config sow": "error: unknown command 'sow'\nhint: did you mean show?",
    "--colour x": "error: tillerman has no option --colour\nhint: did you mean --color?",
    "-a mock": (
        "error: tillerman has no option -a\nhint: options of a command follow its name: "
        "`tillerman run -a`"
    ),
    "-x": "error: tillerman has no option -x\n",
    "--color never --colour=x run hi": "error: tillerman has no option --colour\n",
    "sessions --jso list": "error: tillerman sessions has no option --jso\n",
    "run --worktree go": (
        "error: the prompt is empty\nhint: 'go' was read as the worktree name: use "
        '--worktree= "go"'
    ),
    "run --resume go": (
        "error: the prompt is empty\nhint: 'go' was read as a session id: use -c \"go\""
    ),
    "xyzzy": ("error: unknown command 'xyzzy'\nhint: `tillerman --help` lists the commands"),
    "list": ("error: unknown command 'list'\nhint: did you mean `tillerman sessions list` or "),
    "ls": "error: unknown command 'ls'\nhint: did you mean `tillerman sessions list` or ",
    "resume last": (
        "error: unknown command 'resume'\nhint: did you mean `tillerman run --resume` or "
    ),
    "agent": "error: unknown command 'agent'\nhint: did you mean agents?",
    "repo xyzzy": "error: unknown command 'xyzzy'\nhint: known: status, action",
    "run --xyzzy hi": (
        "error: tillerman run has no option --xyzzy\nhint: `tillerman run --help` lists the options"
    ),
    "completion": "error: the following arguments are required: SHELL\n",
    "run hi --timeout 5x": (
        "error: argument --timeout: not a time such as 90 or 10m: '5x'\n"
        "hint: `tillerman run --help` shows the usage"
    ),
    "run hi --timeout 0m": "error: argument --timeout: must be greater than 0, not 0m\n",
    "run hi --timeout 1e308d": "error: argument --timeout: must be greater than 0, not 1e308d\n",
    "run hi --modl x": (
        "error: tillerman run has no option --modl\nhint: did you mean --model or --mode?"
    ),
    "run hi --mode pla": "error: unknown value for --mode 'pla'\nhint: did you mean plan?",
    "run hi --approve yes": (
        "error: unknown value for --approve 'yes'\nhint: known: ask, edits, auto, readonly, none"
    ),
    "run hi --json=sumary": "error: --json has no view 'sumary'\nhint: did you mean summary?",
    "run hi there": (
        "error: tillerman run: unexpected argument: 'there'\n"
        "hint: put quotes around text with spaces"
    ),
    "run hi --max-turns 0": (
        "error: argument --max-turns: must be at least 1, not 0\n"
        "hint: `tillerman run --help` shows the usage"
    ),
    "run hi --max-cost lots": (
        "error: argument --max-cost: not a number: 'lots'\n"
        "hint: `tillerman run --help` shows the usage"
    ),
    "run hi --timeout inf": (
        "error: argument --timeout: must be greater than 0, not inf\n"
        "hint: `tillerman run --help` shows the usage"
    ),
    "run hi --fork": ("error: --fork requires --resume\nhint: tillerman run --resume ID --fork"),
    "run hi --resume x --worktree": (
        "error: --worktree is for new sessions\nhint: omit it with --resume"
    ),
    "run hi -f somewhere": (
        "error: the prompt is given twice\nhint: use either -f FILE or the argument"
    ),
    "run -f /nowhere/at/all": "error: -f /nowhere/at/all: No such file or directory",
    "run hi --attach /nowhere": "error: --attach /nowhere: No such file or directory",
    "run hi --add-dir /nowhere": "error: --add-dir /nowhere: no such folder",
    "run hi -C /nowhere": "error: --cwd /nowhere: no such folder",
    "run hi --system @/nowhere": "error: --system /nowhere: No such file or directory",
    "run hi --output-schema /nowhere": "error: --output-schema /nowhere: No such file or directory",
    "run hi --mcp-config {": "error: --mcp-config: not JSON",
    "run hi --mcp-config [1]": "error: --mcp-config [1]: No such file or directory",
    "sessions show": "error: the following arguments are required: ID",
    "sessions follow x --since -1": "error: argument --since: must be at least 0, not -1",
    "sessions list -n many": "error: argument -n/--limit: not a number: 'many'",
    "sessions export x --format pdf": "error: unknown value for --format 'pdf'",
    "requests answer": "error: the following arguments are required: ID, ANSWER",
    "requests answer r allow --input [1]": "error: --input: not a JSON object",
    "requests answer r allow --input {": "error: --input: not JSON",
    "requests answer r deny --input {}": "error: --input is for allow",
    "completion tcsh": "error: unknown value 'tcsh'\nhint: known: bash, zsh, fish",
    "trust /nowhere": "error: /nowhere: no such folder",
    "agents --jsn": "error: tillerman agents has no option --jsn\nhint: did you mean --json",
}


@pytest.mark.parametrize("words", WRONG)
def test_an_error_is_one_line_with_a_hint(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == "" or "--json" in words
    assert printed.err.startswith(WRONG[words])
    assert "Traceback" not in printed.err
    assert len(printed.err.splitlines()) <= 2


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    whole = capsys.readouterr().out
    assert main(["sessions"]) == 0
    part = capsys.readouterr().out
    for name in subcommands(build()):
        assert name in whole
    assert "follow" in part
    assert "exit codes:" in whole


def test_a_command_is_found_whether_its_siblings_are_built_or_not() -> None:
    every = subcommands(build())
    for name, parser in every.items():
        part = subcommands(build(name))
        assert len(part) < len(every)
        assert part[name].format_help() == parser.format_help()


@pytest.mark.parametrize(
    "words",
    [["--help"], ["run", "--help"], ["sessions", "follow", "-h"], ["requests", "answer", "--help"]],
)
def test_every_command_has_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("usage: tillerman")


def test_the_word_help_asks_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    for asked, same in {"help": "--help", "help sessions list": "sessions list --help"}.items():
        printed = []
        for words in (asked, same):
            assert main(words.split()) == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]


def test_the_help_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ("", *subcommands(build())):
        assert main([*words.split(), "--help"]) == 0
        assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_an_option_with_an_optional_value_does_not_consume_the_prompt() -> None:
    def of(*words: str) -> tuple[str | None, ...]:
        options = parse(build(), ["run", *words])
        return options.prompt, options.json, options.resume, options.worktree

    assert of("--json", "do it") == ("do it", "entries", None, None)
    assert of("--json=summary", "do") == ("do", "summary", None, None)
    assert of("--resume", "do it") == ("do it", None, "last", None)
    assert of("--resume", "3fa2", "do it") == ("do it", None, "3fa2", None)
    assert of("do it", "--resume") == ("do it", None, "last", None)
    assert of("--resume=3fa2", "do") == ("do", None, "3fa2", None)
    assert of("-c", "do") == ("do", None, "last", None)
    assert of("--worktree", "do it now") == ("do it now", None, None, "")
    assert of("--worktree", "fix-1", "do it") == ("do it", None, None, "fix-1")
    assert of("--", "--json") == ("--json", None, None, None)


def test_options_for_all_commands_go_before_or_after_it() -> None:
    before = parse(build(), ["--color", "never", "--debug", "agents"])
    after = parse(build(), ["agents", "--color", "never", "--debug"])
    between = parse(build(), ["sessions", "--color", "never", "--debug", "list"])
    for options in (before, after, between):
        assert (options.color, options.debug) == ("never", True)
    assert between.command == "sessions:list_all"
