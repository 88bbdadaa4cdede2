"""Config layers: precedence, the source of each value, and error messages."""

from pathlib import Path
from typing import Any

import pytest

from tillerman.config import Config, LimitsConfig, Source, find_paths, load
from tillerman.config.project_trust import project_folder, trust
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths


class Place:
    """A user's folders and a project, on disk."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.project.mkdir(parents=True)
        (self.project / ".git").write_text("gitdir: elsewhere")
        self.environment = {"TILLERMAN_HOME": str(root / "home")}

    @property
    def paths(self) -> Paths:
        return find_paths(self.environment)

    def user(self, text: str) -> Path:
        self.paths.config.mkdir(parents=True, exist_ok=True)
        self.paths.config_file.write_text(text)
        return self.paths.config_file

    def in_project(self, text: str, *, trusted: bool = True) -> Path:
        file = self.project / ".tillerman/config.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        if trusted:
            folder = project_folder(self.paths, self.project)
            assert folder
            trust(self.paths, folder)
        return file

    def load(self, *, cwd: str = "", flags: dict[str, Any] | None = None, **env: str) -> Config:
        environment = self.environment | env
        return load(self.project / cwd, environment=environment, flags=flags or {})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_any_file_all_values_are_defaults(place: Place) -> None:
    assert place.load() == Config(paths=place.paths)
    assert place.load().limits.tool_output == 50 * 1024


def test_each_layer_overrides_the_one_before(place: Place) -> None:
    project = place.in_project(
        'agent = "p"\nmodel = "p"\napprove = "none"\n[limits]\nline = "1 MB"'
    )
    user = place.user('# mine\nmodel = "u"\napprove = "edits"\ncolor = "never"\n')
    config = place.load(
        TILLERMAN_APPROVE="auto", TILLERMAN_COLOR="always", flags={"color": "auto", "model": None}
    )
    assert config == Config(
        agent="p",
        model="u",
        approve="auto",
        color="auto",
        limits=LimitsConfig(line=1 << 20),
        paths=place.paths,
        sources={
            "agent": Source("project", str(project), 1),
            "limits.line": Source("project", str(project), 5),
            "model": Source("user", str(user), 2),
            "approve": Source("environment", "TILLERMAN_APPROVE"),
            "color": Source("flag", "--color"),
        },
    )


def test_a_project_is_found_from_its_folders_below(place: Place) -> None:
    place.in_project('agent = "mock"')
    (place.project / "src/deep").mkdir(parents=True)
    assert place.load(cwd="src/deep").agent == "mock"


def test_a_folder_above_the_repository_does_not_count(place: Place) -> None:
    place.in_project('agent = "mock"')
    inner = place.project / "vendored"
    (inner / ".git").mkdir(parents=True)
    (inner / ".git/HEAD").touch()
    assert place.load(cwd="vendored").agent == "claude"


def test_outside_of_a_repository_only_the_folder_itself_counts(place: Place) -> None:
    place.in_project('agent = "mock"')
    (place.project / ".git").unlink()
    (place.project / ".git").mkdir()  # empty, which makes no repository
    (place.project / "below").mkdir()
    assert (place.load().agent, place.load(cwd="below").agent) == ("mock", "claude")


def test_sizes_times_lists_and_none_are_read(place: Place) -> None:
    place.user(
        '[limits]\nspill = "2 GB"\nidle = "none"\ntotal = "1h"\nrequest = 90\ncost = 1.5\n'
        '[env]\npass = ["FOO", "BAR_*"]\n[store]\nkeep_days = 30'
    )
    config = place.load(TILLERMAN_LIMITS_TURNS="7", TILLERMAN_LIMITS_TOOL_OUTPUT="64kb")
    assert config.limits == LimitsConfig(
        spill=2 << 30, idle=None, total=3600, request=90, cost=1.5, turns=7, tool_output=64 << 10
    )
    assert (config.env.passed, config.store.keep_days) == (("FOO", "BAR_*"), 30)
    assert place.load(TILLERMAN_ENV_PASS="A, B").env.passed == ("A", "B")


def test_tables_of_agents_are_kept_and_merged_by_key(place: Place) -> None:
    place.in_project('[agents.acme]\nmodel = "small"\nbinary = "acme"\n[agents.acme.own]\nx = 1')
    place.user('[agents.acme]\nbinary = "/opt/acme"\nflags = ["--fast"]\n[agents.empty]')
    assert place.load(TILLERMAN_AGENTS_MY_AGENT_MODEL="big").agents == {
        "acme": {
            "model": "small",
            "binary": "/opt/acme",
            "flags": ("--fast",),
            "own": {"x": 1},
        },
        "my_agent": {"model": "big"},
    }


MISTAKES = {
    "an unknown key": ("aproove = 1", ":1: unknown setting aproove", "approve"),
    "an unknown key in a table": (
        "[limits]\n\nlines = 5", ":3: unknown setting limits.lines", "limits.line",
    ),
    "a key outside of its table": (
        "tool_output = 5", "unknown setting tool_output", "limits.tool_output",
    ),
    "an unknown table": ("[limit]\nidle = 5", "unknown setting limit.idle", "limits.idle"),
    "a wrong type": ("model = 5", ":1: model must be a string, not 5", "tillerman config set"),
    "a wrong word": ('approve = "yes"', "approve must be one of none, readonly, ask", "set"),
    "a wrong size": ('[limits]\nline = "big"', ':2: limits.line must be a size such as', "set"),
    "a size below the least": ("[limits]\nline = 5", "at least 64 KB, not 5", "set"),
    "a wrong list": ('[env]\npass = "FOO"', "env.pass must be a list of strings", "set"),
    "a wrong option of an agent": (
        "[agents.x]\nbinary = []", "agents.x.binary must be a string", "set",
    ),
    "a table in place of a value": ("[agent]\nx = 1", "unknown setting agent.x", "agent"),
    "broken TOML": ("agent = \nmodel = 1", ":1:9: Invalid value", "fix"),
    "TOML without an end": ('agent = "x', ":1:11: ", "fix"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_its_file_and_the_fix(
    place: Place, text: str, message: str, hint: str
) -> None:
    file = place.user(text)
    with pytest.raises(ConfigError) as mistake:
        place.load()
    assert str(file) in mistake.value.message
    assert message in mistake.value.message
    assert hint in mistake.value.hint


def test_a_mistake_in_a_variable_names_the_variable(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"TILLERMAN_LIMITS_LINE: limits\.line must be a size"):
        place.load(TILLERMAN_LIMITS_LINE="much")
    with pytest.raises(ConfigError, match="TILLERMAN_LIMITS_LIEN: unknown setting") as mistake:
        place.load(TILLERMAN_LIMITS_LIEN="1")
    assert mistake.value.hint == "did you mean limits.line?"


def test_a_variable_of_another_program_is_ignored(place: Place) -> None:
    assert place.load(TILLERMAN_SESSION="abc", TILLERMAN_AGENT="") == Config(paths=place.paths)


def test_an_untrusted_project_may_only_tighten(place: Place) -> None:
    place.in_project(
        'agent = "evil"\napprove = "readonly"\n[limits]\ntool_output = "1 KB"\nspill = "9 GB"\n'
        'total = "10m"\nidle = "none"\nrequest = 1\nturn_log = 1024\nline = "64 KB"\n'
        'turns = 3\ncost = 0.5\n[env]\npass = ["AWS_*"]\n[store]\nkeep_days = 1\n'
        '[agents.claude]\nbinary = "./evil"',
        trusted=False,
    )
    config = place.load()
    assert (config.agent, config.approve, config.env.passed) == ("claude", "readonly", ())
    assert config.limits == LimitsConfig(turns=3, cost=0.5)
    assert (config.store.keep_days, config.agents) == (None, {})
    assert {item.key: item.why for item in config.withheld} == {
        "agent": "it is not trusted",
        "limits.tool_output": "it is not trusted",
        "limits.spill": "it is not trusted",
        "limits.total": "it is not trusted",
        "limits.idle": "it is not trusted",
        "limits.request": "it is not trusted",
        "limits.turn_log": "it is not trusted",
        "limits.line": "it is not trusted",
        "env.pass": "it is not trusted",
        "store.keep_days": "it is not trusted",
        "agents.claude.binary": "it is not trusted",
    }


def test_an_untrusted_project_cannot_take_a_limit_away(place: Place) -> None:
    place.in_project('approve = "auto"\n[limits]\nturns = "none"\n', trusted=False)
    assert place.load().limits == LimitsConfig()
    assert [item.why for item in place.load().withheld] == [
        "would loosen approve, but it is not trusted"
    ]


@pytest.mark.parametrize(
    ("word", "counts"),
    [("none", True), ("readonly", True), ("ask", True), ("edits", False), ("auto", False)],
)
def test_an_untrusted_project_cannot_approve_more(place: Place, word: str, counts: bool) -> None:
    place.in_project(f'approve = "{word}"', trusted=False)
    assert place.load().approve == (word if counts else "ask")


def test_trust_ends_with_any_changed_byte(place: Place) -> None:
    file = place.in_project('agent = "mock"')
    assert (place.load().agent, place.load().withheld) == ("mock", ())
    file.write_text('agent = "mocK"')
    assert place.load().agent == "claude"
    assert [item.why for item in place.load().withheld] == ["it changed since it was trusted"]
    file.write_text('agent = "mock"')
    assert place.load().agent == "mock"


def test_a_linked_config_of_a_project_is_not_followed(place: Place, tmp_path: Path) -> None:
    (tmp_path / "outside.toml").write_text('approve = "none"')
    (place.project / ".tillerman").mkdir()
    (place.project / ".tillerman/config.toml").symlink_to(tmp_path / "outside.toml")
    assert place.load().approve == "ask"
