"""A file is edited by text, and images are detected by their bytes."""

from __future__ import annotations

import base64
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace.image_files import gif, jpeg, png, webp
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.content.images import ImageKind, image_kind
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.reading import ImageFile
from tillerman.workspace.files.refusal import Refused


@pytest.fixture
def files(root: Path, tmp_path: Path) -> Iterator[Files]:
    with ConfinedRoot(root) as confined:
        yield Files(confined, tmp_path / "exports", Secrets())


def test_a_text_is_replaced_in_place(files: Files, root: Path) -> None:
    (root / "a").write_text("one\ntwo\nthree\n")
    edit = files.replace_text_in_file("a", "two\nth", "2\nTH")
    assert (root / "a").read_text() == "one\n2\nTHree\n"
    assert (edit.added, edit.removed, edit.changed) == (2, 2, True)
    assert files.replace_text_in_file("a", "e\n", "E\n", count=2).changed
    assert (root / "a").read_text() == "onE\n2\nTHreE\n"
    files.replace_text_in_file("a", "2\n", "")
    assert (root / "a").read_text() == "onE\nTHreE\n"


def test_an_ambiguous_text_is_reported_with_its_lines(files: Files, root: Path) -> None:
    (root / "a").write_text("x\ny\nx\n" * 30)
    with pytest.raises(Refused, match="60 times, not 1: in lines 1, 3, 4, 6, ") as caught:
        files.replace_text_in_file("a", "x", "z")
    assert "count=60" in caught.value.hint and "…" in caught.value.message
    with pytest.raises(Refused, match="60 times, not 70"):
        files.replace_text_in_file("a", "x", "z", count=70)


def test_a_missing_text_is_answered_with_the_most_similar_one(files: Files, root: Path) -> None:
    (root / "a").write_text("def one():\n    return  1\n\ndef two():\n    return 2\n")
    with pytest.raises(Refused) as caught:
        files.replace_text_in_file("a", "def one():\n    return 1\n", "x")
    assert caught.value.message == (
        "a does not contain old_text; the most similar lines are 1 to 2:\n"
        "1: def one():\n2:     return  1"
    )
    with pytest.raises(Refused, match=r"(?m)does not contain old_text$"):
        files.replace_text_in_file("a", "nothing of the kind: 0123456789", "x")
    with pytest.raises(Refused, match="is empty"):
        files.replace_text_in_file("a", "", "x")
    with pytest.raises(Refused, match="does not exist"):
        files.replace_text_in_file("b", "x", "y")


def test_the_nearest_text_is_found_in_time(files: Files, root: Path) -> None:
    (root / "a").write_text("".join(f"a line with number {n} in it\n" for n in range(300_000)))
    with pytest.raises(Refused, match="most similar"):
        files.replace_text_in_file("a", "a line with number x in it\nand more", "")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_line_ends_and_encoding_stay_whatever_tool_writes(
    files: Files, root: Path, ends: str
) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1"):
        before, after = (f"{word}{ends}ö{ends}" for word in ("ä", "ü"))
        for call in (
            lambda: files.replace_text_in_file("a", "ä\nö", "ü\nö"),
            lambda: files.write_file("a", "ü\nö\n"),
            lambda: files.replace_lines_in_file("a", 1, 1, "ü", "ä"),
        ):
            (root / "a").write_bytes(before.encode(encoding))
            edit = call()
            assert (root / "a").read_bytes() == after.encode(encoding), (encoding, call)
            assert (edit.added, edit.removed) == (1, 1)
    edit = files.write_file("a", "→\n")
    assert (root / "a").read_bytes() == f"→{ends}".encode()
    assert edit.notes == ("the file was converted from latin-1 to UTF-8",)


def test_a_last_line_without_an_end_gets_lines_like_the_others(files: Files, root: Path) -> None:
    for before, after in ((b"a\r\nb", b"a\r\nx\r\ny"), (b"a\nb", b"a\nx\ny"), (b"\rb", b"\rx\ny")):
        (root / "a").write_bytes(before)
        files.replace_text_in_file("a", "b", "x\ny")
        assert (root / "a").read_bytes() == after


def test_any_text_is_replaced_as_python_replaces_it(files: Files, root: Path) -> None:
    chance = random.Random(2)
    for _ in range(60):
        before = "".join(chance.choices("ab\n ", k=chance.randint(1, 40)))
        start = chance.randrange(len(before))
        old = before[start : start + chance.randint(1, 5)]
        new = "".join(chance.choices("ab\nc", k=chance.randint(0, 4)))
        (root / "a").write_text(before)
        edit = files.replace_text_in_file("a", old, new, count=before.count(old))
        assert (root / "a").read_text() == before.replace(old, new)
        if edit.diff:
            (root / "a").write_text(before)
            command = ["git", "apply", "--unidiff-zero", "-"]
            subprocess.run(command, cwd=root, input=edit.diff, text=True, check=True)
            now = (root / "a").read_text() if (root / "a").exists() else ""
            assert now == before.replace(old, new)


def test_any_text_is_replaced_whatever_ends_its_lines(files: Files, root: Path) -> None:
    chance = random.Random(6)
    for _ in range(80):
        rows = ["".join(chance.choices("ab ", k=chance.randint(0, 4))) for _ in range(8)]
        ends = [chance.choice(("\n", "\r\n")) for _ in rows]
        before = "".join(row + end for row, end in zip(rows, ends, strict=True))
        shown = "\n".join(rows)
        start = chance.randrange(len(shown))
        old = shown[start : start + chance.randint(1, 9)]
        new = "".join(chance.choices("ab\nc", k=chance.randint(0, 4)))
        (root / "a").write_bytes(before.encode())
        assert files.read_file("a").text == shown  # type: ignore[union-attr]
        plain = before.replace("\r\n", "\n")
        files.replace_text_in_file("a", old, new, count=plain.count(old))
        after = (root / "a").read_bytes().decode()
        assert after.replace("\r\n", "\n") == plain.replace(old, new)
        stored = plain.index(old)
        assert after.replace("\r", "")[:stored] == before.replace("\r", "")[:stored]
        last = plain[: stored + 1].count("\n") - 1
        if last > 0:
            assert after.split("\n")[:last] == before.split("\n")[:last]


# -- images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "mime"),
    [(png, "image/png"), (gif, "image/gif"), (jpeg, "image/jpeg"), (webp, "image/webp")],
)
def test_an_image_is_recognized_by_its_bytes(
    files: Files, root: Path, make: object, mime: str
) -> None:
    for width, height in ((1, 1), (640, 480), (3, 7999)):
        data = make(width, height)  # type: ignore[operator]
        (root / "no-suffix").write_bytes(data)
        assert files.read_file("no-suffix") == ImageFile(
            "no-suffix", len(data), mime, width, height, base64.b64encode(data).decode()
        )
        if mime == "image/png" and shutil.which("file"):
            result = subprocess.run(
                ["file", "-b", root / "no-suffix"], capture_output=True, text=True
            )
            assert f"{width} x {height}" in result.stdout
    with pytest.raises(Refused, match="8001 x 2 pixels"):
        (root / "wide").write_bytes(make(8001, 2))  # type: ignore[operator]
        files.read_file("wide")
    whole = make(9, 9)  # type: ignore[operator]
    for end in range(len(whole)):
        assert image_kind(whole[:end]) is None or mime == "image/webp", end
    chance = random.Random(1)
    for _ in range(300):  # whatever is in it, it is an answer
        corrupted = bytearray(whole)
        corrupted[chance.randrange(len(corrupted))] = chance.randrange(256)
        assert isinstance(image_kind(bytes(corrupted)), ImageKind | None)


def test_an_image_that_is_incomplete_or_too_large_is_refused(files: Files, root: Path) -> None:
    (root / "half.png").write_bytes(png(50, 50)[:-20] + b"\0")
    (root / "large.png").write_bytes(png(5, 5)[:-12] + bytes(4 << 20) + png(5, 5)[-12:])
    (root / "text.png").write_text("no image\n")
    for name, why in (("half.png", "not text"), ("large.png", "images up to 3145728 bytes")):
        with pytest.raises(Refused, match=why):
            files.read_file(name)
    assert files.read_file("text.png").text == "no image"  # type: ignore[union-attr]


def test_an_image_that_holds_a_secret_is_not_shown(files: Files, root: Path) -> None:
    key = b"sk-" + b"abcdefghijklmnop0123456789"
    data = png(5, 5)
    (root / "a.png").write_bytes(data[:33] + b"\0\0\0\x21tEXtkey\0" + key + b"\0\0\0\0" + data[33:])
    with pytest.raises(Refused, match="contains a secret"):
        files.read_file("a.png")
