"""Secret arguments of a command line reach only their program, in files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tillerman.core.agent import Child, SecretFile, SecretFolder, Word
from tillerman.supervision.client.warden_client import WardenClient

CANARY = "canary-7f3Kq9ZtW2"
SHOW = 'cat "${1#--config=}"; echo; stat -c %a "${1#--config=}"; tr "\\0" " " </proc/$$/cmdline'
PATH = {"PATH": os.environ["PATH"]}


def argv(content: str = CANARY) -> list[Word]:
    return ["sh", "-c", SHOW, "sh", SecretFile("--config=", content.encode())]


async def output_lines(child: Child) -> list[str]:
    os.set_blocking(child.stdout, True)
    text = b""
    async with asyncio.timeout(10):
        while part := await asyncio.to_thread(os.read, child.stdout, 65536):
            text += part
    return text.decode().split("\n")


async def test_a_program_finds_its_file_and_no_command_line_has_its_content(
    warden: WardenClient, tmp_path: Path
) -> None:
    content, mode, words = await output_lines(await warden.spawn(argv(), cwd="/", env=PATH))
    assert (content, mode) == (CANARY, "600")
    assert f" sh --config={tmp_path}" in words
    assert CANARY not in words


async def test_each_program_reads_its_own(warden: WardenClient) -> None:
    texts = [await output_lines(await warden.spawn(argv(text), cwd="/", env=PATH)) for text in "ab"]
    assert [text[0] for text in texts] == ["a", "b"]


async def test_the_file_is_removed_with_the_warden(warden: WardenClient, tmp_path: Path) -> None:
    await output_lines(await warden.spawn(argv(), cwd="/", env=PATH))
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert CANARY.encode() in [path.read_bytes() for path in stored]
    await warden.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


async def test_a_variable_names_a_file_of_its_own(warden: WardenClient) -> None:
    show = 'cat "$SETTINGS"; echo; stat -c %a "$SETTINGS"'
    env = {**PATH, "SETTINGS": SecretFile("", CANARY.encode())}
    assert await output_lines(await warden.spawn(["sh", "-c", show], cwd="/", env=env)) == [
        CANARY,
        "600",
        "",
    ]


async def test_a_folder_of_secret_files_has_them_where_they_are_looked_for(
    warden: WardenClient,
) -> None:
    show = 'cd "${1#--plugin=}"; cat a/b.json top.json; echo; stat -c %a . a a/b.json'
    folder = SecretFolder("--plugin=", {"a/b.json": b"{}", "top.json": CANARY.encode()})
    words: list[Word] = ["sh", "-c", show, "sh", folder]
    reported = ["{}" + CANARY, "700", "700", "600", ""]
    assert await output_lines(await warden.spawn(words, cwd="/", env=PATH)) == reported
