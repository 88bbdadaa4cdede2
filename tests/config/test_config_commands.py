"""`tillerman config`: what it prints, and what it writes."""

from pathlib import Path

import pytest

from tillerman.config import Source, find_paths, load
from tillerman.config.config_commands import ConfigFile, ConfigRow, files, get, set_value, show
from tillerman.config.settings import SETTINGS
from tillerman.core.errors import ConfigError
from tillerman.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"TILLERMAN_HOME": str(tmp_path / "home")})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.git").write_text("gitdir: elsewhere")
    return tmp_path / "project"


def test_a_value_that_was_set_is_returned_by_get(paths: Paths, project: Path) -> None:
    words = {
        "agent": "mock",
        "approve": "edits",
        "env.pass": "FOO,BAR_*",
        "limits.tool_output": "64 KB",
        "limits.total": "10m",
        "limits.idle": "none",
        "limits.turns": "5",
        "limits.cost": "2.5",
        "agents.acme.flags": "--a,--b",
        "agents.acme.own": "thing",
    }
    for key, word in words.items():
        assert set_value(paths, key, word) == paths.config_file
    config = load(project, environment={}, paths=paths)
    shown = {key: get(config, key).shown for key in words}
    assert shown == words | {
        "env.pass": "FOO, BAR_*",
        "agents.acme.flags": "--a, --b",
    }
    assert {get(config, key).source.where for key in words} == {str(paths.config_file)}


def test_comments_and_order_stay(paths: Paths) -> None:
    paths.config.mkdir(parents=True)
    paths.config_file.write_text('# on top\n[limits]\nline = "2 MB" # enough\n\n[env]\npass = []\n')
    set_value(paths, "limits.line", "4 MB")
    set_value(paths, "limits.turns", "5")
    set_value(paths, "color", "never")
    assert paths.config_file.read_text() == (
        '# on top\ncolor = "never"\n\n[limits]\nline = "4 MB" # enough\nturns = 5\n\n'
        "[env]\npass = []\n"
    )


def test_a_wrong_value_is_not_written(paths: Paths) -> None:
    for key, word in (("limits.line", "big"), ("no.such", "1"), ("approve", "all")):
        with pytest.raises(ConfigError):
            set_value(paths, key, word)
    assert not paths.config_file.exists()


def test_a_file_with_an_error_is_not_overwritten(paths: Paths) -> None:
    paths.config.mkdir(parents=True)
    paths.config_file.write_text("agent = \n")
    with pytest.raises(ConfigError, match=r"config.toml:1:9"):
        set_value(paths, "agent", "mock")
    assert paths.config_file.read_text() == "agent = \n"


def test_the_users_own_change_of_a_project_keeps_its_trust(paths: Paths, project: Path) -> None:
    set_value(paths, "agent", "mock", project=project)
    set_value(paths, "model", "small", project=project)
    config = load(project, environment={}, paths=paths)
    assert (config.agent, config.model, config.withheld) == ("mock", "small", ())


def test_a_change_does_not_grant_trust(paths: Paths, project: Path) -> None:
    (project / ".tillerman").mkdir()
    (project / ".tillerman/config.toml").write_text('agent = "evil"\n')
    set_value(paths, "model", "small", project=project)
    config = load(project, environment={}, paths=paths)
    assert (config.agent, config.model) == ("claude", None)


def test_every_setting_is_shown_with_its_source(paths: Paths, project: Path) -> None:
    config = load(
        project, environment={"TILLERMAN_AGENTS_ACME_BINARY": "/opt/acme"}, flags={"agent": "mock"},
        paths=paths,
    )  # fmt: skip
    rows = {row.key: row for row in show(config)}
    assert list(rows) == [*SETTINGS, "agents.acme.binary"]
    assert rows["agent"] == ConfigRow(
        "agent", "mock", "mock", Source("flag", "--agent"), SETTINGS["agent"].help
    )
    assert rows["limits.request"].shown == "1h"
    assert str(rows["limits.request"].source) == "default"
    assert str(rows["agents.acme.binary"].source) == "TILLERMAN_AGENTS_ACME_BINARY"


def test_an_unknown_key_is_an_error(paths: Paths, project: Path) -> None:
    with pytest.raises(ConfigError) as mistake:
        get(load(project, environment={}, paths=paths), "limits.lnie")
    assert mistake.value.hint == "did you mean limits.line?"


def test_the_files_in_effect_are_listed(paths: Paths, project: Path) -> None:
    user = ConfigFile("user", paths.config_file, False, None)
    assert files(paths, project) == [user]
    set_value(paths, "agent", "mock", project=project)
    file = project / ".tillerman/config.toml"
    assert files(paths, project) == [ConfigFile("project", file, True, "trusted"), user]
    file.write_text('agent = "other"')
    assert files(paths, project) == [ConfigFile("project", file, True, "changed"), user]
