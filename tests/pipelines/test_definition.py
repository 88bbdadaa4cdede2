"""Pipeline files of every shape: what is written is read, and what is read is consistent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import CHECKOUT
from tests.pipelines.file_writer import as_toml, as_yaml, document
from tests.pipelines.generated import pipelines
from tillerman.agents.mock.program.history import MockHistory
from tillerman.agents.mock.program.script import choose
from tillerman.core.errors import PipelineFileError
from tillerman.pipelines.definition import read_definition
from tillerman.pipelines.graph import Node, nodes
from tillerman.pipelines.graph_checks import every_step, inner_steps, levels
from tillerman.pipelines.graph_drawing import drawing
from tillerman.pipelines.graph_mermaid import mermaid
from tillerman.pipelines.steps import AgentStep, BestOfStep, Pipeline

SCHEMA = json.loads((CHECKOUT / "docs/pipeline.schema.json").read_text())
FILES = sorted((CHECKOUT / "examples/pipelines").glob("*.yaml"))


def read(data: bytes, path: str = "case.yaml") -> Pipeline:
    return read_definition(data, path).pipeline


@given(pipelines())
@settings(max_examples=40, deadline=None)
def test_a_pipeline_is_read_as_it_was_written(pipeline: Pipeline) -> None:
    assert read(as_yaml(pipeline)) == pipeline
    assert read(as_toml(pipeline), "case.toml") == pipeline


@given(pipelines())
@settings(max_examples=25, deadline=None)
def test_ids_and_needs_are_as_the_structs_promise(pipeline: Pipeline) -> None:
    found = read(as_yaml(pipeline))
    steps = list(every_step(found.steps))
    attempts = [one.id for step in steps if isinstance(step, BestOfStep) for one in step.attempts]
    ids = [step.id for step in steps] + attempts
    assert len(set(ids)) == len(ids)
    for level in levels(found.steps):
        placed: set[str] = set()
        waiting = list(level)
        while waiting:  # every step can start after others of its level
            ready = [step for step in waiting if placed.issuperset(step.needs)]
            assert ready
            placed.update(step.id for step in ready)
            waiting = [step for step in waiting if step not in ready]


@given(pipelines())
@settings(max_examples=25, deadline=None)
def test_a_valid_file_is_valid_by_the_schema(pipeline: Pipeline) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(document(pipeline))


@given(pipelines(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_drawing_has_a_line_for_every_step(pipeline: Pipeline, ascii: bool) -> None:
    graph = nodes(pipeline)
    lines = drawing(graph, ascii=ascii)
    mark = "o" if ascii else "●"
    drawn = [line.split(mark, 1)[1].lstrip(" |│┊:").split()[0] for line in lines if mark in line]
    expected = [node.id for node in flat(graph)]
    assert sorted(drawn) == sorted(expected)
    if ascii:
        assert all(ord(char) < 128 for line in lines for char in line.split("  ")[0])


@given(pipelines())
@settings(max_examples=25, deadline=None)
def test_the_rails_of_a_drawing_lead_from_each_step_to_those_that_need_it(
    pipeline: Pipeline,
) -> None:
    for level in levels(pipeline.steps):
        graph = nodes(Pipeline(name="level", steps=level))
        bare = [Node(node.id, node.kind, "", node.needs) for node in graph]
        needs = {(needed, node.id) for node in bare for needed in node.needs}
        assert needs <= connected(drawing(bare), [node.id for node in bare])


@given(pipelines())
@settings(max_examples=25, deadline=None)
def test_the_flowchart_has_every_step_and_every_need(pipeline: Pipeline) -> None:
    lines = [line.strip() for line in mermaid(nodes(pipeline)).splitlines()]
    assert lines[0] == "flowchart TD"
    assert sum(line.startswith("subgraph ") for line in lines) == lines.count("end")
    for node in flat(nodes(pipeline)):
        name = f"step_{node.id.replace('-', '_')}"
        assert any(line.removeprefix("subgraph ").startswith(f"{name}") for line in lines)
        for needed in node.needs:
            assert f"step_{needed.replace('-', '_')} --> {name}" in lines
    assert all(line.count('"') in (0, 2) for line in lines)


@pytest.mark.parametrize("suffix", ["yaml", "toml"])
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_changed_bytes_are_read_or_give_the_error_and_nothing_else(
    suffix: str, data: st.DataObject
) -> None:
    pipeline = data.draw(pipelines())
    valid = bytearray(as_yaml(pipeline) if suffix == "yaml" else as_toml(pipeline))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(valid)))
        end = at + data.draw(st.integers(0, 5))
        odd = (
            b"\t",
            b"\0",
            b"&a",
            b"*a",
            b"!!",
            b"{{",
            b"}}",
            b"\xff",
            b"- ",
            b": ",
            b"'",
            b'"',
            b"\n",
        )
        valid[at:end] = data.draw(st.binary(max_size=3) | st.sampled_from(odd))
    read_or_refuse(bytes(valid), f"case.{suffix}")


@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_refused_with_the_error_and_nothing_else(data: bytes) -> None:
    read_or_refuse(data, "case.yaml")
    read_or_refuse(data, "case.toml")


def read_or_refuse(data: bytes, path: str) -> None:
    try:
        read_definition(data, path)
    except PipelineFileError as error:
        lines = (
            data.count(b"\n")
            + data.count(b"\r")
            + data.count(b"\xc2\x85")
            + 3 * data.count(b"\xe2\x80")
            + 2
        )
        assert 1 <= error.line <= lines
        assert error.hint


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (BOMB, "more than 10,000 values"),
        ("steps: " + "[" * 100_000, "nested deeper than"),
        ("steps: " + "{a: " * 50_000, "nested deeper than"),
        ("- " * 100_000, "nested deeper than"),
        ("name: " + "x" * 300_000, "larger than 256 KB"),
        ("steps:\n" + "- {id: a}\n" * 20_000, "more than 10,000 values"),
        ("steps:\n- {id: a, run: 'echo " + "{{run.id}} " * 20_000 + "'}", "more than 200 values"),
        ("steps:\n- {id: a, run: '" + "{{" * 100_000 + "'}", "without"),
        ("steps:\n- {id: a, needs: [" + "a1, " * 9_000 + "]}", "a step that says nothing"),
        ("%YAML 1." + "9" * 5000 + "\n---\nname: x\n", "not YAML"),
        ("name: " + "9" * 10_000, "not a valid name"),
    ],
    ids=[
        "aliases",
        "lists",
        "tables",
        "dashes",
        "size",
        "values",
        "templates",
        "braces",
        "needs",
        "version",
        "digits",
    ],
)
def test_a_file_of_a_hostile_size_is_refused_soon(data: str, problem: str) -> None:
    with pytest.raises(PipelineFileError, match=problem):
        read(data.encode())


@pytest.mark.parametrize(
    "data",
    [
        "steps = " + "[" * 50_000,
        "a = " + "{a = " * 20_000,
        "name = " + "9" * 10_000,
        "a." * 3_000 + "b = 1",
    ],
    ids=["lists", "tables", "digits", "dots"],
)
def test_toml_of_a_hostile_size_is_refused(data: str) -> None:
    with pytest.raises(PipelineFileError):
        read(data.encode(), "case.toml")


def test_only_words_that_mean_the_same_in_every_yaml_are_no_texts() -> None:
    pipeline = "steps: [{id: a, map: {over: [%s], steps: [{id: b, run: make}]}}]"
    texts = "yes, no, on, off, 1:30, 2026-01-01, 0x10, 1e3, =, .inf, 1_000"
    found = read((pipeline % texts).encode()).steps[0]
    assert list(found.items) == texts.split(", ")  # type: ignore[union-attr]
    for other in ("true", "null", "5", "1.5"):
        with pytest.raises(PipelineFileError, match="must be a text"):
            read((pipeline % other).encode())


def test_an_alias_repeats_what_it_names() -> None:
    found = read(
        b"steps:\n- {id: a, run: x, limits: &l {time: 5m}}\n- {id: b, run: y, limits: *l}\n"
    )
    assert [step.limits.time for step in found.steps] == [300, 300]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1d", 86400),
        ("0.5", 0.5),
    ],
)
def test_a_duration_is_a_number_or_has_units(text: str, seconds: float) -> None:
    assert read(f"limits: {{time: {text}}}\nprocess: [mock]".encode()).limits.time == seconds


def test_a_step_without_needs_waits_for_the_one_before_it() -> None:
    found = read(
        b"steps:\n- {id: a, run: x}\n- {id: b, run: x}\n- {id: c, needs: [], run: x}\n"
        b"- {id: d, parallel: [{id: e, run: x}, {id: f, run: x}]}\n"
    )
    assert [step.needs for step in found.steps] == [(), ("a",), (), ("c",)]
    assert [step.needs for step in inner_steps(found.steps[3])] == [(), ()]


def test_a_short_form_is_agents_one_after_the_other_on_one_task() -> None:
    found = read(b"process: [developer, reviewer, HUMAN_REVIEW, developer]\n")
    assert list(found.inputs) == ["task"]
    assert [step.id for step in found.steps] == [
        "developer",
        "reviewer",
        "human-review",
        "developer-2",
    ]
    assert [step.needs for step in found.steps] == [
        (),
        ("developer",),
        ("reviewer",),
        ("human-review",),
    ]
    assert "{{ steps.reviewer.text }}" in found.steps[3].prompt  # type: ignore[union-attr]


def test_a_file_of_another_editor_is_read() -> None:
    text = "process:\r\n  - developer\r\n  - HUMAN_REVIEW\r\n"
    assert len(read(b"\xef\xbb\xbf" + text.encode()).steps) == 2
    assert len(read(b'process = [\r\n  "developer"\r\n]\r\n', "case.toml").steps) == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_valid_by_the_reader_and_by_the_schema(file: object) -> None:
    path = CHECKOUT / "examples/pipelines" / str(file)
    data = path.read_bytes()
    assert read(data, str(path)).description
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(data))


def test_the_mock_of_an_example_plays_the_last_line_of_its_prompt() -> None:
    prompts = [
        one.prompt
        for file in FILES
        for step in every_step(read(file.read_bytes(), str(file)).steps)
        for one in (step.attempts[:1] if isinstance(step, BestOfStep) else (step,))
        if isinstance(one, AgentStep)
    ]
    assert len(prompts) == 11
    for prompt in prompts:
        script, pace = choose("Earlier turns.\n" + prompt, MockHistory("unused", None, False), {})
        assert script[-1]["say"]
        assert script == json.loads(prompt.strip().rpartition("\n")[2])
        assert pace == 0


def flat(graph: Sequence[Node]) -> Iterator[Node]:
    for node in graph:
        yield node
        yield from flat(node.inside)


_UP, _DOWN, _LEFT, _RIGHT = "╵│╯┤╰├┴┼", "╷│╮┤╭├┬┼", "╴╯╮┤─┴┬┼", "╶╰╭├─┴┬┼"


def _at(lines: list[str], at: tuple[int, int]) -> str:
    y, x = at
    return lines[y][x] if y < len(lines) and 0 <= x < len(lines[y]) else " "


def connected(lines: list[str], ids: list[str]) -> set[tuple[str, str]]:
    """Steps and those below them that a line leads to; a line goes down or aside, never up."""
    found = set()
    rows = {
        line.split("●")[1].strip(" │").split()[0]: y for y, line in enumerate(lines) if "●" in line
    }
    for id in ids:
        start = (rows[id], lines[rows[id]].index("●"))
        seen, edge = {start}, [start]
        while edge:
            y, x = edge.pop()
            char = lines[y][x]
            if char == "●" and (y, x) != start:
                found.add((id, next(one for one in ids if rows[one] == y)))
                continue
            steps = [(1, 0, _UP)] if char == "●" or char in _DOWN else []
            if char in _LEFT and char != "●":
                steps.append((0, -1, _RIGHT))
            if char in _RIGHT and char != "●":
                steps.append((0, 1, _LEFT))
            for down, aside, meets in steps:
                at = (y + down, x + aside)
                if aside and _at(lines, at) == "│":  # a rail that is passed
                    at = (at[0], at[1] + aside)
                there = _at(lines, at)
                if at not in seen and (there in meets or (there == "●" and down)):
                    seen.add(at)
                    edge.append(at)
    return found
