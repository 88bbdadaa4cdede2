"""The tools that read, write and replace lines."""

from __future__ import annotations

import base64
import codecs
import hashlib
import random
import resource
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.content.unified_diff import difference
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.reading import FileText
from tillerman.workspace.files.refusal import Refused


@pytest.fixture
def files(root: Path, tmp_path: Path) -> Iterator[Files]:
    with ConfinedRoot(root) as confined:
        yield Files(confined, tmp_path / "exports")


# reading


def test_a_file_is_read_by_lines(files: Files, root: Path) -> None:
    data = b"".join(b"line %d\n" % number for number in range(1, 101))
    (root / "a").write_bytes(data)
    whole = files.read_file("a")
    assert (whole.first, whole.last, whole.lines, whole.next) == (1, 100, 100, None)
    assert whole.hash == hashlib.sha256(data).hexdigest() and whole.size == len(data)
    part = files.read_file("a", offset=10, limit=3)
    assert part.text == "line 10\nline 11\nline 12"
    assert (part.first, part.last, part.lines, part.next) == (10, 12, 100, 13)
    assert part.hash == whole.hash and "offset 13" in part.notes[0]
    assert files.read_file("a", offset=98).next is None
    with pytest.raises(Refused, match="has 100 lines"):
        files.read_file("a", offset=101)


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "a\nb", "a\nb\n", "\n\n", "a\n\nb"])
def test_every_window_is_a_part_of_the_whole(files: Files, root: Path, text: str) -> None:
    (root / "a").write_text(text)
    lines = text.split("\n")
    lines = lines[:-1] if not lines[-1] else lines
    whole = files.read_file("a")
    assert whole.text.split("\n") == (lines or [""]) and whole.lines == len(lines)
    for first in range(1, len(lines) + 1):
        for limit in range(1, len(lines) + 1):
            part = files.read_file("a", first, limit)
            assert part.text.split("\n") == lines[first - 1 : first - 1 + limit]
            assert (part.next is None) == (first - 1 + limit >= len(lines))


@pytest.mark.parametrize(
    ("data", "encoding", "line_ends"),
    [
        ("ä\n".encode(), "utf-8", "lf"),
        (b"\xef\xbb\xbf" + "ä\r\n".encode(), "utf-8-sig", "crlf"),
        (b"\xff\xfe" + "ä\r\n".encode("utf-16-le"), "utf-16-le", "crlf"),
        (b"\xfe\xff" + "ä\n".encode("utf-16-be"), "utf-16-be", "lf"),
        (b"\xff\xfe\0\0" + "ä\r\n".encode("utf-32-le"), "utf-32-le", "crlf"),
        (b"\0\0\xfe\xff" + "ä\n".encode("utf-32-be"), "utf-32-be", "lf"),
        ("ä\n".encode("latin-1"), "latin-1", "lf"),
        (b"x" * 70_000 + b"\r\n\xe4", "latin-1", "crlf"),
        (b"\xc3", "latin-1", "none"),
    ],
)
def test_the_encoding_is_reported(
    files: Files, root: Path, data: bytes, encoding: str, line_ends: str
) -> None:
    (root / "a").write_bytes(data)
    read = files.read_file("a")
    assert (read.encoding, read.line_ends) == (encoding, line_ends)
    assert encoding == "latin-1" or read.text == "ä"
    assert (encoding == "latin-1") == any("decoded as latin-1" in note for note in read.notes)


def test_binary_data_is_refused_or_given_as_base64(files: Files, root: Path) -> None:
    (root / "a").write_bytes(bytes(range(256)))
    with pytest.raises(Refused, match="not text, 256 bytes"):
        files.read_file("a")
    read = files.read_file("a", binary="base64")
    assert read.encoding == "base64" and base64.b64decode(read.text) == bytes(range(256))
    (root / "big").write_bytes(bytes(2 << 20))
    with pytest.raises(Refused, match="at most"):
        files.read_file("big", binary="base64")


def test_long_lines_and_long_texts_are_cut_and_reported(files: Files, root: Path) -> None:
    (root / "a").write_text("x" * 1_000_000 + "\nnext\r\n" + "y" * 2_000 + "\n" + "y" * 2_001)
    read = files.read_file("a")
    assert [len(line) for line in read.text.split("\n")] == [2_000, 4, 2_000, 2_000]
    assert "2 lines are truncated" in read.notes[0]
    (root / "b").write_text(("z" * 99 + "\n") * 5_000)
    read = files.read_file("b", limit=5_000)
    assert len(read.text) < 70_000 and read.next and read.lines == 5_000
    assert files.read_file("b", read.next).first == read.next


def test_a_huge_file_is_read_by_window(files: Files, root: Path) -> None:
    with (root / "a").open("wb") as file:
        file.write(b"first\nsecond\n")
        file.truncate(20 << 30)  # sparse; a reader of the whole would not come back
    with pytest.raises(Refused, match="not text"):
        files.read_file("a")
    (root / "a").unlink()
    with (root / "b").open("wb") as file:
        for _ in range(70):
            file.write(b"0123456789abcde\n" * (1 << 16))
    read = files.read_file("b", limit=2)
    assert read.lines is None and read.hash == "" and read.next == 3
    assert files.read_file("b", offset=4_000_000, limit=1).text == "0123456789abcde"


def test_invalid_windows_are_refused(files: Files, root: Path) -> None:
    (root / "a").write_text("x")
    for offset, limit in ((0, 1), (1, 0), (-1, 5), (1, 10**9)):
        with pytest.raises(Refused):
            files.read_file("a", offset, limit)
    with pytest.raises(Refused, match="does not exist"):
        files.read_file("b")


# writing


def test_a_file_is_made_with_the_folders_above_it(files: Files, root: Path) -> None:
    edit = files.write_file("x/y/z.txt", "one\ntwo\n")
    assert edit.created and edit.added == 2 and (root / "x/y/z.txt").read_text() == "one\ntwo\n"
    assert edit.diff == "--- /dev/null\n+++ b/x/y/z.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    with pytest.raises(Refused):
        files.write_file("other/z", "", create_parents=False)


def test_a_write_that_fails_leaves_no_folder(files: Files, root: Path) -> None:
    (root / "there").mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        for path in ("new/deep/a", "there/deep/a", "a"):
            with pytest.raises(Refused, match="larger than the maximum file size"):
                files.write_file(path, "x" * 5_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in root.rglob("*")] == ["there"]


def test_a_file_is_written_only_over_what_the_caller_has_read(files: Files, root: Path) -> None:
    (root / "a").write_text("one\n")
    read = files.read_file("a")
    edit = files.write_file("a", "two\n", expected_hash=read.hash)
    assert not edit.created and edit.hash == files.read_file("a").hash
    assert edit.diff == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n"
    with pytest.raises(Refused, match=edit.hash):
        files.write_file("a", "three\n", expected_hash=read.hash)
    assert (root / "a").read_text() == "two\n"
    (root / "a").unlink()
    with pytest.raises(Refused, match="no longer exists"):
        files.write_file("a", "three\n", expected_hash=edit.hash)


def test_writing_unchanged_content_is_reported(files: Files) -> None:
    files.write_file("a", "same\n")
    edit = files.write_file("a", "same\n")
    assert (edit.diff, edit.added, edit.removed) == ("", 0, 0)


def test_binary_data_is_not_written(files: Files, root: Path) -> None:
    with pytest.raises(Refused):
        files.write_file("a", "\ud800")
    with pytest.raises(Refused, match="at most"):
        files.write_file("a", "x" * (17 << 20))
    assert not (root / "a").exists()


def test_a_difference_is_one_that_patch_understands(tmp_path: Path) -> None:
    chance = random.Random(1)
    for _ in range(60):
        lines = [f"{chance.randint(0, 30)}\n" for _ in range(chance.randint(0, 60))]
        changed = list(lines)
        for _ in range(chance.randint(1, 5)):
            at = chance.randint(0, len(changed))
            changed[at : at + chance.randint(0, 3)] = ["new\n"] * chance.randint(0, 3)
        before, after = "".join(lines), "".join(changed)
        if chance.random() < 0.3:
            after = after.removesuffix("\n")
        diff = difference("a", before, after)
        (tmp_path / "a").write_text(before)
        if diff.text:
            command = ["git", "apply", "--unidiff-zero", "-"]
            done = subprocess.run(
                command, cwd=tmp_path, input=diff.text, text=True, capture_output=True
            )
            assert done.returncode == 0, (done.stderr, diff.text)
        now = (tmp_path / "a").read_text() if (tmp_path / "a").exists() else ""
        assert now == after


def test_a_difference_of_large_texts_is_bounded() -> None:
    before, after = "a\n" * 30_000, "a\nb\n" * 30_000
    diff = difference("a", before, after)
    assert diff.left_out > 0 and len(diff.text) < 25_000
    assert diff.added - diff.removed == 30_000


# replacing lines


def test_line_ranges_are_replaced(files: Files, root: Path) -> None:
    (root / "a").write_text("1\n2\n3\n4\n")
    edit = files.replace_lines_in_file("a", 2, 3, "two\nthree\nand", "2\n3\n")
    assert (root / "a").read_text() == "1\ntwo\nthree\nand\n4\n"
    assert (edit.added, edit.removed) == (3, 2) and "-2\n-3\n+two\n" in edit.diff


@pytest.mark.parametrize(
    ("before", "start", "end", "new", "expected", "after"),
    [
        ("a\nb\n", 1, 2, "", "a\nb", ""),
        ("a\nb\n", 2, 2, "", "b", "a\n"),
        ("a\nb", 2, 2, "", "b", "a"),
        ("a\nb", 2, 2, "c", "b", "a\nc"),
        ("a\nb", 2, 2, "c\n", "b\n", "a\nc"),
        ("a\nb", 3, 2, "c", "", "a\nb\nc"),
        ("a\n", 2, 1, "b", "", "a\nb\n"),
        ("a\n", 1, 0, "b", "", "b\na\n"),
        ("", 1, 0, "b\n", "", "b\n"),
        ("a\r\nb\r\n", 1, 1, "x\ny", "a", "x\r\ny\r\nb\r\n"),
        ("a\r\nb\r\n", 1, 1, "x\r\ny\r\n", "a\r\n", "x\r\ny\r\nb\r\n"),
        ("a\r\nb", 2, 2, "x\ny", "b", "a\r\nx\r\ny"),
        ("a\n\nb\n", 2, 2, "\n", "", "a\n\nb\n"),
        ("a\x0cb\nc\n", 1, 1, "d", "a\x0cb", "d\nc\n"),
    ],
)
def test_line_ends_and_the_end_of_the_file_stay(
    files: Files, root: Path, before: str, start: int, end: int, new: str, expected: str, after: str
) -> None:
    (root / "a").write_bytes(before.encode())
    files.replace_lines_in_file("a", start, end, new, expected)
    assert (root / "a").read_bytes() == after.encode()


def test_a_stale_caller_is_given_the_current_content(files: Files, root: Path) -> None:
    (root / "a").write_text("1\nchanged\n3\n")
    with pytest.raises(Refused, match="2: changed\n3: 3"):
        files.replace_lines_in_file("a", 2, 3, "x", "2\n3")
    for start, end in ((0, 1), (3, 1), (2, 9), (5, 4)):
        with pytest.raises(Refused, match="has 3 lines"):
            files.replace_lines_in_file("a", start, end, "x", "")
    assert (root / "a").read_text() == "1\nchanged\n3\n"


def test_the_encoding_stays(files: Files, root: Path) -> None:
    for data, new in (
        (b"\xfe\xff" + "ä\nö\n".encode("utf-16-be"), b"\xfe\xff" + "ä\nü\n".encode("utf-16-be")),
        (b"\xef\xbb\xbf" + "ä\nö\n".encode(), b"\xef\xbb\xbf" + "ä\nü\n".encode()),
        ("ä\nö\n".encode("utf-32"), "ä\nü\n".encode("utf-32")),
        ("ä\nö\n".encode("latin-1"), "ä\nü\n".encode("latin-1")),
    ):
        (root / "a").write_bytes(data)
        files.replace_lines_in_file("a", 2, 2, "ü", "ö")
        assert (root / "a").read_bytes() == new
    with pytest.raises(Refused, match="latin-1"):
        files.replace_lines_in_file("a", 2, 2, "→", "ü")


def test_an_edit_changes_no_byte_of_another_line_whatever_the_bytes_are(
    files: Files, root: Path
) -> None:
    chance = random.Random(7)
    results: Counter[str] = Counter()
    marks = {"utf-8-sig": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-8": b""}
    for _ in range(300):
        codec, mark = chance.choice(list(marks.items()))
        text = "".join(chance.choices("aé→😀\0\r\n", k=8)) if codec != "utf-8" else "é\n"
        ends = [
            text.encode(codec.removesuffix("-sig")),
            b"",
            chance.randbytes(3),
            b"\xff",
            b"\x00\xd8",
        ]
        before, after = chance.choice(ends), chance.choice(ends)
        old, new = (one.encode(codec.removesuffix("-sig")) for one in ("\nOLD\n", "\nNEW\n"))
        (root / "a").write_bytes(mark + before + old + after)
        try:
            files.replace_text_in_file("a", "OLD", "NEW")
        except Refused:
            assert (root / "a").read_bytes() == mark + before + old + after
            results["refused"] += 1
        else:
            assert (root / "a").read_bytes() == mark + before + new + after
            results["written"] += 1
    assert min(results.values()) > 50


def test_a_file_with_invalid_bytes_is_read_with_a_note_and_may_be_replaced_as_a_whole(
    files: Files, root: Path
) -> None:
    (root / "a").write_bytes(b"\xff\xfe" + "one\n".encode("utf-16-le") + b"\x00\xd8x")
    read = files.read_file("a")
    assert isinstance(read, FileText) and read.text.startswith("one\n")
    assert "not valid utf-16-le" in read.notes[0]
    with pytest.raises(Refused, match="damaged"):
        files.replace_lines_in_file("a", 1, 1, "two", "one")
    assert files.write_file("a", "whole\n", read.hash).changed
    assert (root / "a").read_bytes() == b"whole\n"


def test_bytes_that_contain_a_secret_are_not_given_as_base64(root: Path, tmp_path: Path) -> None:
    secrets = Secrets({"TOKEN": "tok_9fK2mQ7xWc41"})
    with ConfinedRoot(root) as confined:
        files = Files(confined, tmp_path / "exports", secrets)
        for secret in ("tok_9fK2mQ7xWc41", "sk-abcdefghijklmnop0123456789"):
            (root / "a").write_bytes(b"\0\1" + secret.encode() + b"\0")
            with pytest.raises(Refused, match="contains a secret"):
                files.read_file("a", binary="base64")


def test_descriptors_are_closed(files: Files, root: Path) -> None:
    (root / "a").write_text("1\n2\n")
    (root / "bin").write_bytes(b"\0")

    def use() -> int:
        files.read_file("a")
        files.write_file("b", "x")
        files.list_directory(depth=5)
        files.search_files("1")
        files.search_files("1", kind="regex")
        files.export_file("a")
        files.export_zip(["."], "all")
        for path in ("bin", "gone"):
            with pytest.raises(Refused):
                files.read_file(path)
        return len(list(Path("/proc/self/fd").iterdir()))

    assert use() == use()
