"""Which pipelines a folder sees: trusted ones, the project's first, and what they call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.config import load
from tillerman.config.project_trust import read_folder, trust
from tillerman.core.errors import ConfigError, PipelineFileError, UsageError
from tillerman.paths import Paths, find_paths
from tillerman.pipelines.input_values import input_values
from tillerman.pipelines.library import Library

ONE = "process: [mock]\n"


class Folders:
    """A user's and a project's pipelines."""

    def __init__(self, folder: Path) -> None:
        self.paths: Paths = find_paths(
            {"HOME": str(folder), "TILLERMAN_HOME": str(folder / "home")}
        )
        self.project = folder / "project"
        (self.project / ".git").mkdir(parents=True)
        (self.project / ".git/HEAD").write_text("ref: refs/heads/main\n")
        self.inner = self.project / "src/inner"
        self.inner.mkdir(parents=True)

    def user(self, name: str, text: str) -> Path:
        return self._write(self.paths.config / "pipelines" / name, text)

    def of_project(self, name: str, text: str) -> Path:
        return self._write(self.project / ".tillerman/pipelines" / name, text)

    def trust(self) -> None:
        folder = read_folder(self.project)
        assert folder
        trust(self.paths, folder)

    def library(self, *, checked: bool = True) -> Library:
        config = load(self.inner, paths=self.paths, environment={})
        return Library(config, self.inner, checked=checked)

    def _write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_a_trusted_project_overrides_the_user(folders: Folders) -> None:
    folders.user("mine.yaml", "description: of the user\n" + ONE)
    folders.user("only.toml", 'process = ["mock"]\n')
    folders.of_project("mine.yml", "description: of the project\n" + ONE)
    folders.trust()
    library = folders.library()
    assert library.load("mine").description == "of the project"
    assert [(one.name, one.layer) for one in library.listed()] == [
        ("mine", "project"),
        ("only", "user"),
    ]


def test_an_untrusted_project_is_passed_over_or_refused(folders: Folders) -> None:
    path = folders.of_project("mine.yaml", ONE)
    with pytest.raises(ConfigError, match="is not trusted") as caught:
        folders.library().load("mine")
    assert "tillerman trust" in caught.value.hint
    assert folders.library(checked=False).load("mine").name == "mine"
    folders.user("mine.yaml", "description: of the user\n" + ONE)
    assert folders.library().load("mine").description == "of the user"
    folders.trust()
    assert folders.library().load("mine").description == ""
    path.write_text("process: [mock, mock]\n")
    assert folders.library().load("mine").description == "of the user"


def test_profiles_of_an_untrusted_project_are_no_agents(folders: Folders) -> None:
    path = folders.project / "mine.yaml"
    path.write_text("process: [writer]\n")
    folders.of_project("../agents/writer.md", "You write.\n")
    with pytest.raises(PipelineFileError, match=r"profile 'writer' cannot be used.*not trusted"):
        folders.library().load(str(path))
    assert folders.library(checked=False).load(str(path))
    folders.trust()
    assert folders.library().load(str(path))


def test_a_path_is_no_way_around_trust(folders: Folders) -> None:
    path = folders.of_project("mine.yaml", ONE)
    link = folders.project / "link.yaml"
    link.symlink_to(path)
    for given in (path, link):
        with pytest.raises(ConfigError, match="is not trusted") as caught:
            folders.library().load(str(given))
        assert caught.value.hint
        assert folders.library(checked=False).load(str(given)) is not None
    folders.trust()
    assert folders.library().load(str(path)).name == "mine"


def test_two_files_of_one_name_are_an_error(folders: Folders) -> None:
    folders.user("mine.yaml", ONE)
    folders.user("mine.toml", 'process = ["mock"]\n')
    with pytest.raises(ConfigError, match="has the same name"):
        folders.library().names()


def test_called_pipelines_are_all_in_the_outermost(folders: Folders) -> None:
    folders.user("top.yaml", "steps: [{id: a, pipeline: middle}, {id: b, pipeline: low}]\n")
    folders.user(
        "middle.yaml", "steps: [{id: a, loop: {until: x, steps: [{id: b, pipeline: low}]}}]\n"
    )
    folders.user("low.yaml", "steps: [{id: a, run: make}]\n")
    found = folders.library().load("top")
    assert sorted(found.called) == ["low", "middle"]
    assert not any(one.called for one in found.called.values())


def test_a_called_file_names_itself_in_its_error(folders: Folders) -> None:
    folders.user("top.yaml", "steps: [{id: a, pipeline: low}]\n")
    low = folders.user("low.yaml", "name: low\nsteps: [{id: a}]\n")
    with pytest.raises(PipelineFileError) as caught:
        folders.library().load("top")
    assert (caught.value.path, caught.value.line) == (str(low), 2)


def test_a_chain_of_calls_has_a_bound(folders: Folders) -> None:
    for number in range(30):
        folders.user(f"p{number}.yaml", f"steps: [{{id: a, pipeline: p{number + 1}}}]\n")
    folders.user("p30.yaml", ONE)
    with pytest.raises(PipelineFileError, match="more than 16 deep"):
        folders.library().load("p0")


def test_the_values_of_inputs_are_checked_and_complete(folders: Folders) -> None:
    text = """\
inputs:
  task:
  count: {type: integer, default: 2}
  ratio: {type: number, required: false}
  deep: {type: boolean, default: false}
  files: {type: list, default: [a, b]}
  size: {choices: [small, large], default: small}
steps:
  - id: a
    run: |
      echo {{ inputs.task }} {{ inputs.count }} {{ inputs.ratio }}
      echo {{ inputs.deep }} {{ inputs.files }} {{ inputs.size }}
"""
    folders.user("mine.yaml", text)
    pipeline = folders.library().load("mine")
    assert input_values(pipeline, {"task": "x"}) == {
        "task": "x", "count": "2", "ratio": "", "deep": "false", "files": ("a", "b"),
        "size": "small",
    }  # fmt: skip
    given = {"task": "", "files": "one two\n\nthree\n", "deep": "true", "ratio": "1e3"}
    found = input_values(pipeline, given)
    assert (found["files"], found["deep"], found["ratio"]) == (("one two", "three"), "true", "1e3")
    for wrong in (
        {},
        {"task": "x", "taks": "y"},
        {"task": "x", "count": "2.5"},
        {"task": "x", "ratio": "nan"},
        {"task": "x", "deep": "yes"},
        {"task": "x", "size": "medium"},
        {"task": "a\0b"},
    ):
        with pytest.raises(UsageError) as caught:
            input_values(pipeline, wrong)
        assert caught.value.hint
