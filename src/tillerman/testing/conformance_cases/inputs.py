"""Conformance cases: system prompts, images, folders and schemas reach the model."""

from __future__ import annotations

import base64

from tillerman.core.agent import File
from tillerman.core.events import SettingsChanged
from tillerman.core.program.answer_format import AnswerFormat
from tillerman.testing.conformance_cases.case import case
from tillerman.testing.model_double.script import Say
from tillerman.testing.scenario import Scenario, agent_text, do, end, of, play

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwAD"
    "hgGAWjR9awAAAABJRU5ErkJggg=="
)


@case("accepts a system prompt", "system")
async def system_prompt(scene: Scenario) -> None:
    session = await scene.start(system="Always mind the heron of Ulm.")
    await play(session, scene.script([Say("Minded.")]))
    assert "heron of Ulm" in scene.model_input(), "its model was not told"


@case("a system prompt leaves no files in the project", "system")
async def no_trace(scene: Scenario) -> None:
    before = sorted(path.name for path in scene.project.iterdir())
    session = await scene.start(system="Always mind the heron of Ulm.")
    await play(session, scene.script([Say("Minded.")]))
    assert sorted(path.name for path in scene.project.iterdir()) == before


@case("accepts an image", "images")
async def image(scene: Scenario) -> None:
    prompt = scene.script([Say("A dot.")])
    files = [File("dot.png", "image/png", DOT)]
    log = await play(await scene.start(), prompt, files=files)
    assert agent_text(log) == "A dot.", (agent_text(log), end(log))
    reported = scene.model_input()
    assert base64.b64encode(DOT).decode()[:40] in reported, "the picture did not reach its model"


@case("its model receives the name and the content of an attached text")
async def text_file(scene: Scenario) -> None:
    prompt = scene.script([Say("A kestrel.")])
    files = [File("sightings.txt", "text/plain", b"A kestrel over the moor.\n")]
    log = await play(await scene.start(), prompt, files=files)
    assert agent_text(log) == "A kestrel.", (agent_text(log), end(log))
    reported = scene.model_input()
    for words in ("sightings.txt", "A kestrel over the moor."):
        assert words in reported, f"its model did not receive {words!r}"


@case("works in additional folders", "folders")
async def folders(scene: Scenario) -> None:
    more = scene.project.parent / "more"
    more.mkdir(exist_ok=True)
    session = await scene.start(approve="auto", folders=(more,))
    file = more / "there.txt"
    await play(session, scene.script([do("write", file, "there\n")], [Say("Written.")]))
    assert file.read_text() == "there\n"


BIRD = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
    "additionalProperties": False,
}


@case("an answer that does not match the schema is rejected")
async def schema_checked(scene: Scenario) -> None:
    session = await scene.start(answer=AnswerFormat(BIRD))
    log = await play(session, scene.script([Say("It is a heron.")]))
    failure = end(log).failure
    assert failure, end(log)
    assert failure.kind == "schema_mismatch", failure
    titles = [event.title for event in of(log, SettingsChanged) if event.title]
    assert not [title for title in titles if "Your final" in title], titles


@case("retries once if the answer does not match the schema")
async def schema_repaired(scene: Scenario) -> None:
    session = await scene.start(answer=AnswerFormat(BIRD, repair=True))
    prompt = scene.script([Say("It is a heron.")], [Say('{"bird": "heron"}')])
    log = await play(session, prompt)
    assert end(log).result == {"bird": "heron"}, end(log)


@case("answers according to a JSON schema", "schema")
async def schema(scene: Scenario) -> None:
    session = await scene.start(output_schema=BIRD, answer=AnswerFormat(BIRD))
    log = await play(session, scene.script([do("result", '{"bird": "heron"}')], [Say("So it is.")]))
    assert end(log).result == {"bird": "heron"}, end(log)
