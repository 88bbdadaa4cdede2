"""An unknown value of an option is an error, on every surface, before a session exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tillerman
from tillerman.config import Config, load
from tillerman.config.profiles import parse as parse_profile
from tillerman.config.settings import LimitsConfig, TeamConfig, UntilConfig, Workspace
from tillerman.core.errors import ConfigError, TillermanError, UsageError
from tillerman.core.events import Answer, PermissionRequested, QuestionAsked
from tillerman.core.session_options import OPTIONS, StartOptions
from tillerman.paths import Paths, find_paths
from tillerman.surfaces.cli.parsing import parser
from tillerman.surfaces.cli.parsing.argparse_errors import parse

CHOICES = {name: values.choices for name, values in OPTIONS.items() if values.choices}
NUMBERS = ("max_turns", "max_tokens", "max_cost", "timeout", "request_timeout")
WRONG_TYPES: tuple[Any, ...] = (0, 1, True, 1.5, b"auto", ["auto"], ("auto",), {"auto": 1}, object)


def misspelled(word: str) -> Iterator[str]:
    yield from (word.upper(), word.title(), word.swapcase(), f"{word}s", f"{word}ing", "", " ")
    yield from (f" {word}", f"{word} ", f"{word}\n", f"\t{word}", f"{word}\0", f"{word},{word}")
    yield from (f"{word}\u200b", f"\ufeff{word}", word.replace("a", "\u0430"), f"--{word}")
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]  # one letter too few
        yield word[:at] + word[at] + word[at:]  # one twice
        yield word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]  # two the other way


def wrong_values(choices: tuple[str, ...]) -> list[str]:
    found = {wrong for word in choices for wrong in misspelled(word)} | {"bogus", "None", "null"}
    return sorted(found - set(choices))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})


def sessions(harness: tillerman.Harness) -> int:
    return len(harness.sessions.catalog.list(limit=10))


# -- the Python API --------------------------------------------------------------------------------


async def refused(call: Any, name: str, value: object, choices: tuple[str, ...]) -> bool:
    """Asserts an error that names the option, the value, and the valid values."""
    try:
        await call(**{name: value})
    except UsageError as error:
        named = error.message.startswith(f"{name} cannot be {value!r}: expected ")
        return named and all(word in error.message for word in choices)
    return False


@pytest.mark.parametrize("name", ["approve", "mode"])
async def test_no_session_starts_with_an_unknown_value(
    paths: Paths, tmp_path: Path, name: str
) -> None:
    words: list[Any] = [*wrong_values(CHOICES[name]), *WRONG_TYPES]
    async with tillerman.open(cwd=tmp_path, paths=paths) as harness:

        async def start(**options: Any) -> None:
            await harness.start("mock", **options)

        taken = [word for word in words if not await refused(start, name, word, CHOICES[name])]

        assert (taken, len(words) > 60, sessions(harness)) == ([], True, 0)


async def test_no_server_starts_with_an_unknown_value(paths: Paths, tmp_path: Path) -> None:
    async with tillerman.open(cwd=tmp_path, paths=paths) as harness:
        for name in ("approve", "isolation"):
            words: list[Any] = [*wrong_values(CHOICES[name]), *WRONG_TYPES]
            found = [w for w in words if not await refused(harness.serve, name, w, CHOICES[name])]
            assert found == []
        assert sessions(harness) == 0


@pytest.mark.parametrize("name", NUMBERS)
async def test_a_limit_is_a_number_above_zero(paths: Paths, tmp_path: Path, name: str) -> None:
    wrong: list[Any] = [0, -1, -0.5, nan, inf, -inf, True, False, "5", "", [], {}, 0.0, -0.0]
    if name in ("max_turns", "max_tokens"):
        wrong += [1.5, 2**63]
    async with tillerman.open(cwd=tmp_path, paths=paths) as harness:

        async def start(**options: Any) -> None:
            await harness.start("mock", **options)

        taken = [value for value in wrong if not await refused(start, name, value, ())]

        assert (taken, sessions(harness)) == ([], 0)


@pytest.mark.parametrize("name", sorted({*StartOptions.__annotations__, "title"}))
async def test_no_option_takes_a_value_of_another_type(
    paths: Paths, tmp_path: Path, name: str
) -> None:
    async with tillerman.open(cwd=tmp_path, paths=paths) as harness:
        with pytest.raises(TillermanError, match=f"^{name} cannot be <object"):
            await harness.start("mock", **{name: object()})  # type: ignore[arg-type]
        assert sessions(harness) == 0


async def test_an_unknown_option_is_reported_with_a_known_one(paths: Paths, tmp_path: Path) -> None:
    async with tillerman.open(cwd=tmp_path, paths=paths) as harness:
        with pytest.raises(UsageError, match=r"(?m)^unknown option: 'aprove'$") as caught:
            await harness.start("mock", aprove="none")  # type: ignore[call-arg]
        assert (caught.value.hint, sessions(harness)) == ("did you mean approve?", 0)


async def test_a_running_session_refuses_unknown_values_too(paths: Paths, tmp_path: Path) -> None:
    config = Config(agents={"mock": {"pace": "0"}}, paths=paths)
    async with tillerman.open(config=config, cwd=tmp_path, paths=paths) as harness:
        session = await harness.start("mock", approve="ask")
        await session.ask('[{"say": "hello"}]')
        attached = harness.attach(session.id)
        for one in (session, attached):
            for word in wrong_values(CHOICES["mode"]):
                with pytest.raises(UsageError, match=r"^mode cannot be "):
                    await one.configure(mode=word)  # type: ignore[arg-type]
            for word in [*wrong_values(CHOICES["when_busy"]), None]:
                with pytest.raises(UsageError, match=r"^when_busy cannot be "):
                    await one.prompt("[]", when_busy=word)  # type: ignore[arg-type]
        await session.close()
        for options in ({"mode": "Plan"}, {"approve": "AUTO"}, {"max_turns": -1}, {"fork": "no"}):
            with pytest.raises(UsageError):
                await harness.resume(session.id, **options)  # type: ignore[arg-type]
            with pytest.raises(UsageError):
                await harness.handoff(session.id, "replay", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [{"run": "make"}, {"question": [{"text": "Which?"}]}])
async def test_an_answer_that_is_not_offered_is_refused_and_the_request_stays_open(
    paths: Paths, tmp_path: Path, step: dict[str, Any]
) -> None:
    config = Config(agents={"mock": {"pace": "0"}}, paths=paths)
    wrong = [Answer(word) for word in wrong_values(("allow", "deny"))]
    wrong += [Answer(word) for word in WRONG_TYPES if not isinstance(word, str)]
    wrong += [Answer("allow", remember=word) for word in wrong_values(CHOICES["remember"])]  # type: ignore[arg-type]
    wrong += [Answer("deny", note=5), Answer("allow", answers=["x"])]  # type: ignore[arg-type]
    async with tillerman.open(config=config, cwd=tmp_path, paths=paths) as harness:
        session = await harness.start("mock", approve="ask")
        taken = []
        async for entry in session.run(json.dumps([step])):
            if not isinstance(entry.event, PermissionRequested | QuestionAsked):
                continue
            request = entry.event.request_id
            for answer in wrong:
                try:
                    session.answer(request, answer)
                except UsageError:
                    continue
                taken.append(answer)
            assert session.waits_for(request)
            session.answer(request, Answer("deny"))
    assert taken == []


def test_mypy_refuses_what_is_refused_at_run_time(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    wrong = [
        'await harness.start("mock", mode="Plan")',
        'await harness.start("mock", approve="bogus")',
        'await harness.start("mock", max_turns="5")',
        'await harness.start("mock", aprove="ask")',
        'await harness.serve(isolation="High")',
        'await harness.resume("last", approve="readOnly")',
        'await harness.handoff("last", "mock", mode="asks")',
        'await session.configure(mode="PLAN")',
        'await session.prompt("x", when_busy="wait")',
        'tillerman.Answer("allow", remember="sesion")',
        'Config(approve="all")',
        'Config(supervision="none")',
        'Workspace(isolation="low")',
    ]
    right = [
        'session = await harness.start("mock", mode="plan", approve="auto", max_turns=5)',
        'await session.configure(mode="ask")',
    ]
    lines = [
        "import tillerman",
        "from tillerman.config import Config",
        "from tillerman.config.settings import Workspace",
        "async def main(harness: tillerman.Harness) -> None:",
        *(f"    {line}" for line in [*right, *wrong]),
    ]
    snippet.write_text("\n".join(lines) + "\n")

    root = Path(tillerman.__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml")]
    done = subprocess.run([*command, str(snippet)], cwd=root, capture_output=True, text=True)

    reported = {int(at) for at in re.findall(r"snippet\.py:(\d+): error", done.stdout)}
    first = len(lines) - len(wrong) + 1
    assert reported == set(range(first, len(lines) + 1)), done.stdout


# -- the other surfaces ----------------------------------------------------------------------------

COMMAND_LINES = {
    "approve": ("run", "--approve={}", "hello"),
    "mode": ("run", "--mode={}", "hello"),
    "isolation": ("mcp", "serve", "--isolation={}"),
    "when_busy": ("sessions", "prompt", "--when-busy={}", "last", "hello"),
    "remember": ("requests", "answer", "--remember={}", "r1", "allow"),
}


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_the_command_line_refuses_unknown_values(name: str) -> None:
    built = parser.build()
    for word in wrong_values(CHOICES[name]):
        with pytest.raises(UsageError, match="unknown value for"):
            parse(built, [one.format(word) for one in COMMAND_LINES[name]])
    for word in CHOICES[name]:
        parse(parser.build(), [one.format(word) for one in COMMAND_LINES[name]])


@pytest.mark.parametrize("option", ["max-turns", "max-tokens", "max-cost", "timeout"])
def test_the_command_line_refuses_invalid_limits(option: str) -> None:
    for word in ("0", "-1", "nan", "inf", "", "many", "1e400"):
        with pytest.raises(UsageError):
            parse(parser.build(), ["run", f"--{option}={word}", "hello"])


KEYS = {
    "approve": CHOICES["approve"],
    "supervision": CHOICES["supervision"],
    "workspace.isolation": CHOICES["isolation"],
    "team.handoff": ("never", "limits", "always"),
    "team.rate_limit": ("switch", "wait"),
}


@pytest.mark.parametrize("key", KEYS)
def test_no_config_file_or_variable_may_have_an_unknown_value(
    paths: Paths, tmp_path: Path, key: str
) -> None:
    file = paths.config / "config.toml"
    file.parent.mkdir(parents=True)
    for word in wrong_values(KEYS[key]):
        file.write_text(f"{key} = {json.dumps(word)}\n")
        with pytest.raises(ConfigError, match=re.escape(key)):
            load(tmp_path, environment={}, paths=paths)
        if word and "\0" not in word:
            file.write_text("")
            variable = "TILLERMAN_" + key.upper().replace(".", "_")
            with pytest.raises(ConfigError):
                load(tmp_path, environment={variable: word}, paths=paths)


@pytest.mark.parametrize(
    "config",
    [
        Config(approve="Auto"),  # type: ignore[arg-type]
        Config(supervision="none"),  # type: ignore[arg-type]
        Config(workspace=Workspace(isolation="low")),  # type: ignore[arg-type]
        Config(team=TeamConfig(handoff="sometimes")),  # type: ignore[arg-type]
        Config(limits=LimitsConfig(cost=nan)),
        Config(limits=LimitsConfig(cost=inf)),
        Config(limits=LimitsConfig(turns=-1)),
        Config(limits=LimitsConfig(tokens=0)),
        Config(limits=LimitsConfig(total=-5)),
        Config(limits=LimitsConfig(request=0)),
        Config(until=UntilConfig(rounds=0)),
        Config(accept_advisory="no"),  # type: ignore[arg-type]
    ],
    ids=lambda config: re.sub(r", paths=.*", "", str(config))[:60],
)
async def test_a_config_made_in_python_is_checked_like_a_file(
    paths: Paths, tmp_path: Path, config: Config
) -> None:
    with pytest.raises(ConfigError, match=" cannot be "):
        async with tillerman.open(config=replace(config, paths=paths), cwd=tmp_path, paths=paths):
            pass


def test_no_profile_has_an_unknown_mode() -> None:
    for word in wrong_values(CHOICES["mode"]):
        line = f'mode: "{word}"' if word == word.strip() else f"mode: {word}x"
        if "\n" in word or "\0" in word:
            continue
        with pytest.raises(ConfigError, match="unknown mode"):
            parse_profile(f"---\n{line}\n---\nwords\n".encode(), "p.md", "user")
