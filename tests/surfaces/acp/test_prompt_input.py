"""The blocks of an editor's prompt, as text and files."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tillerman.surfaces.acp.errors import InvalidParams
from tillerman.surfaces.acp.prompt_input import EditorPrompt, file_path, read


async def no_buffer(path: str) -> str | None:
    return None


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def link(uri: str, name: str = "x") -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": name}


async def test_a_mention_stays_where_it_is_in_the_text() -> None:
    given = await read([text("look at "), link("file:///a/b.py"), text(" please")], no_buffer)
    assert given == EditorPrompt("look at @/a/b.py please", ())


async def test_texts_beside_each_other_are_lines() -> None:
    assert (await read([text("one"), text("two")], no_buffer)).text == "one\ntwo"


async def test_a_text_after_an_attachment_begins_a_line_unless_it_continues_the_sentence() -> None:
    mention = link("file:///a/b.py")
    for words, shown in (("do it", "@/a/b.py\ndo it"), (", please", "@/a/b.py, please")):
        assert (await read([mention, text(words)], no_buffer)).text == shown


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("file:///a/b%20c.py", "@/a/b c.py"),
        ("file:///a/b.py#L3:7", "@/a/b.py (lines 3-7)"),
        ("file:///a/b.py#L3-L7", "@/a/b.py (lines 3-7)"),
        ("file:///a/b.py?symbol=f#L3", "@/a/b.py (lines 3)"),
        ("/a/b.py", "@/a/b.py"),
        ("https://example.org/x", "https://example.org/x"),
        ("zed:///agent/thread/1", "zed:///agent/thread/1"),
        ("file://elsewhere/a", "file://elsewhere/a"),
        ("http://[bad", "http://[bad"),
        ("", "x"),
    ],
)
async def test_a_link_is_mentioned_by_its_path_or_address(uri: str, shown: str) -> None:
    assert (await read([link(uri)], no_buffer)).text == shown


async def test_a_resource_is_a_file_of_the_prompt() -> None:
    resource = {"uri": "file:///a/notes.md", "mimeType": "text/markdown", "text": "hi"}
    blob = {"uri": "mem:data", "blob": base64.b64encode(b"\xff\0").decode()}
    blocks = [text("see "), *({"type": "resource", "resource": one} for one in (resource, blob))]
    given = await read(blocks, no_buffer)
    assert given.text == "see @/a/notes.md @mem:data"
    assert [(file.name, file.mime, file.data) for file in given.files] == [
        ("notes.md", "text/markdown", b"hi"),
        ("mem:data", "application/octet-stream", b"\xff\0"),
    ]


async def test_an_image_has_a_name_and_its_bytes() -> None:
    data = base64.b64encode(b"dot").decode()
    plain = {"type": "image", "mimeType": "image/png", "data": data}
    given = await read([plain, {**plain, "uri": "file:///a/shot.png"}], no_buffer)
    assert [(file.name, file.data) for file in given.files] == [
        ("image-1.png", b"dot"), ("shot.png", b"dot"),
    ]  # fmt: skip


async def test_unsaved_text_is_attached_and_saved_text_is_not(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("saved")

    async def buffer(path: str) -> str | None:
        assert path == str(file)
        return text

    text = "saved"
    assert (await read([link(file.as_uri())], buffer)).files == ()
    text = "changed"
    [attached] = (await read([link(file.as_uri())], buffer)).files
    assert (attached.name, attached.data) == ("a.txt (not saved yet)", b"changed")


@pytest.mark.parametrize(
    "block",
    [
        "text",
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
        {"type": "image", "mimeType": "image/png", "data": "not base64!"},
        {"type": "image", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x", "blob": "*"}},
        {},
    ],
)
async def test_a_block_that_cannot_be_read_is_refused(block: Any) -> None:
    with pytest.raises(InvalidParams):
        await read([block], no_buffer)


def test_only_local_files_have_a_path() -> None:
    assert file_path("file://localhost/a") == "/a"
    assert [file_path(uri) for uri in ("file:a", "file:///a%00b", "ftp://x/a")] == [None] * 3
