"""Output files of processes: ends, pages and searches, at a cost independent of their length."""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files import regex_client
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.processes import output_reader
from tillerman.workspace.processes.output_reader import OutputEnds, OutputLine, OutputLines

GB = 1 << 30


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stdout"


def texts(found: OutputLines) -> list[str]:
    return [line.text for line in found.lines]


def bytes_read(act: Callable[[], object]) -> int:
    """As counted by the kernel for this process: `rchar`."""

    def count() -> int:
        return int(Path("/proc/self/io").read_text().split("\n", 1)[0].removeprefix("rchar: "))

    overhead = -(count() - count())
    before = count()
    act()
    return count() - before - overhead


def sparse(path: Path, size: int, end: bytes = b"") -> Path:
    with path.open("wb") as out:
        out.truncate(size - len(end))
        out.seek(0, os.SEEK_END)
        out.write(end)
    return path


def test_the_ends_of_a_short_file(file: Path) -> None:
    file.write_bytes(b"one\ntwo\nthree\n")
    assert output_reader.head(file, 2) == OutputLines(
        (OutputLine(0, "one"), OutputLine(4, "two")), 0, 8, 14
    )
    assert output_reader.tail(file, 2) == OutputLines(
        (OutputLine(4, "two"), OutputLine(8, "three")), 4, 14, 14
    )
    assert output_reader.tail(file, 100) == output_reader.head(file, 100)


def test_a_last_line_without_newline_is_shown_and_marked_as_unfinished(file: Path) -> None:
    file.write_bytes(b"one\ntw")
    found = output_reader.tail(file, 1)
    assert (texts(found), found.unfinished) == (["tw"], True)
    with file.open("ab") as more:
        more.write(b"o\nthree\n")
    following = output_reader.span(file, found.next)
    assert (texts(following), following.middle) == (["o", "three"], True)


def test_an_empty_file_has_no_lines(file: Path) -> None:
    file.touch()
    assert output_reader.tail(file) == output_reader.head(file) == OutputLines((), 0, 0, 0)
    assert output_reader.ends(file, 10, 10) == OutputEnds("")
    assert output_reader.search(file, "x").matches == ()


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_pages_cover_the_whole_file_once(file: Path, ending: bytes) -> None:
    lines = [f"line {number} {'x' * (number % 97)}" for number in range(3_000)]
    file.write_bytes("\n".join(lines).encode() + ending)
    seen, at = [], 0
    while True:
        page = output_reader.span(file, at, 100)
        assert len(page.lines) <= 100
        seen += texts(page)
        at = page.next
        if not page.more:
            break
    assert seen == lines


def test_no_more_than_a_hundred_lines_are_given_however_many_are_asked_for(file: Path) -> None:
    file.write_bytes(b"x\n" * 1_000)
    assert (
        len(output_reader.tail(file, 10_000).lines)
        == len(output_reader.head(file, 10_000).lines)
        == 100
    )


def test_long_lines_together_are_bounded_and_the_rest_is_on_the_next_page(file: Path) -> None:
    file.write_bytes(b"".join(b"%d %s\n" % (number, b"x" * 1_500) for number in range(100)))
    first = output_reader.head(file, 100)
    assert 1 < len(first.lines) < 100
    assert output_reader.span(file, first.next, 1).lines[0].text.startswith(f"{len(first.lines)} x")
    last = output_reader.tail(file, 100)
    assert 1 < len(last.lines) < 100
    assert last.lines[-1].text.startswith("99 ")
    assert last.start > 0


def test_a_line_that_is_too_long_is_cut_in_its_middle_and_marked(file: Path) -> None:
    file.write_bytes(b"a" * 9_000 + b"z\nnext\n")
    cut, following = output_reader.head(file, 2).lines
    assert cut.left_out == 9_001 - output_reader.LINE_BYTES
    assert f"[{cut.left_out:,} bytes left out, from byte 1500 on]" in cut.text
    assert cut.text.endswith("aaz")
    assert following == OutputLine(9_002, "next")
    assert output_reader.span(file, 1_500, 1).lines[0].text.startswith("aaa")


def test_a_cut_leaves_no_half_characters(file: Path) -> None:
    for shift in range(4):
        file.write_bytes(b"x" * shift + "€😀ß".encode() * 2_000)
        for found in (output_reader.head(file, 1), output_reader.tail(file, 1)):
            assert "\ufffd" not in found.lines[0].text
        parts = output_reader.ends(file, 1_001, 1_002)
        assert "\ufffd" not in parts.head + parts.tail


def test_a_huge_line_is_read_in_part_forwards_and_backwards(file: Path) -> None:
    sparse(file, 5 * GB, b"the end")
    tracemalloc.start()
    try:
        assert bytes_read(lambda: output_reader.tail(file)) < 2 * output_reader.WINDOW
        found = output_reader.tail(file)
        assert found.lines[-1].text.endswith("the end")
        assert found.lines[-1].left_out > 0
        assert found.middle
        assert bytes_read(lambda: output_reader.head(file)) < 2 * output_reader.WINDOW
        first = output_reader.head(file)
        assert first.next < 2 * output_reader.WINDOW
        assert output_reader.span(file, first.next).middle
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_the_tail_of_five_gigabytes_reads_little_more_than_that_of_five_kilobytes(
    tmp_path: Path,
) -> None:
    lines = b"".join(b"line %03d %s\n" % (number, b"." * 40) for number in range(100))
    small = tmp_path / "small"
    small.write_bytes(lines)
    huge = sparse(tmp_path / "huge", 5 * GB, b"\n" + lines)
    assert 4_000 < small.stat().st_size < 6_000
    assert texts(output_reader.tail(huge, 100)) == texts(output_reader.tail(small, 100))
    cost = bytes_read(lambda: output_reader.tail(small, 100))
    assert cost >= len(lines)
    assert bytes_read(lambda: output_reader.tail(huge, 100)) <= 3 * cost
    assert bytes_read(lambda: output_reader.tail(huge, 1)) <= cost
    assert bytes_read(lambda: output_reader.span(huge, 5 * GB - len(lines), 100)) <= 3 * cost


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_any_number_of_last_lines_can_be_found(file: Path, ending: bytes) -> None:
    lines = [b"%d %s" % (number, b"x" * (number % 1_000)) for number in range(2_000)]
    file.write_bytes(b"\n".join(lines) + ending)
    data = file.read_bytes()
    for count in (1, 2, 99, 1_500, 1_999):
        assert data[output_reader.last_lines(file, count) :] == b"\n".join(lines[-count:]) + ending
    assert output_reader.last_lines(file, 2_000) == output_reader.last_lines(file, 9_999) == 0
    assert output_reader.last_lines(file, 0) == len(data)


def test_the_ends_of_a_file_report_what_was_left_out(file: Path) -> None:
    file.write_bytes(b"".join(b"line %d\n" % number for number in range(1_000)))
    assert output_reader.ends(file, 100_000, 100_000).left_out == 0
    found = output_reader.ends(file, 100, 50)
    assert found.head.startswith("line 0\nline 1\n") and found.head.endswith("\n")
    assert found.tail.endswith("line 998\nline 999\n") and found.tail.startswith("line ")
    assert len(found.head) <= 100 and len(found.tail) <= 50
    assert found.offset == len(found.head)
    assert len(found.head) + found.left_out + len(found.tail) == found.size


def test_no_cursor_control_is_left(file: Path) -> None:
    hostile = (
        b"\x1b[31mred\x1b[0m\x1b]52;c;ZXZpbA==\x07 \x9b2J \xff\xfe \x00nul \xe2\x80\xaegnihsif\n"
    )
    file.write_bytes(hostile * 3)
    shown = [
        *texts(output_reader.head(file)),
        *texts(output_reader.tail(file)),
        output_reader.ends(file, 1_000, 1_000).head,
        output_reader.ends(file, 60, 60).tail,
        *(match.line.text for match in output_reader.search(file, "red").matches),
    ]
    assert all(not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text) for text in shown)
    assert output_reader.head(file, 1).lines[0].text.startswith("red ")


def test_a_progress_bar_is_one_line(file: Path) -> None:
    file.write_bytes(b"10%\r20%\r30%\r\ndone\r\n")
    assert texts(output_reader.tail(file)) == ["10%␍20%␍30%", "done"]


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_a_search_finds_each_line_once_with_its_context(
    file: Path, kind: output_reader.Kind
) -> None:
    file.write_bytes(b"a\nb\nerror one error\nc\nd\nerror two\n")
    found = output_reader.search(file, "error", kind, context=1)
    assert [match.line.text for match in found.matches] == ["error one error", "error two"]
    assert [line.text for line in found.matches[0].before] == ["b"]
    assert [line.text for line in found.matches[0].after] == ["c"]
    assert found.matches[1].after == ()
    assert (found.ended, found.next) == ("end", found.size)


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_a_search_continues_where_it_ended(file: Path, kind: output_reader.Kind) -> None:
    file.write_bytes(b"".join(b"line %d\n" % number for number in range(60_000)))
    seen: list[str] = []
    at = 0
    while True:
        found = output_reader.search(file, "77", kind, limit=50, from_offset=at)
        seen += [match.line.text for match in found.matches]
        at = found.next
        if found.ended == "end":
            break
    assert seen == [f"line {number}" for number in range(60_000) if "77" in str(number)]


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_colours_hide_nothing_from_a_search(file: Path, kind: output_reader.Kind) -> None:
    file.write_bytes(b"plain\n\x1b[1mer\x1b[31mror\x1b[0m: x\n")
    found = output_reader.search(file, "error: x", kind)
    assert [match.line.text for match in found.matches] == ["error: x"]


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_a_match_deep_in_a_long_line_is_shown(file: Path, kind: output_reader.Kind) -> None:
    file.write_bytes(b"first\n" + b"x" * 100_000 + b"needle" + b"y" * 100_000 + b"\nlast\n")
    (match,) = output_reader.search(file, "needle", kind).matches
    assert "needle" in match.line.text


def test_a_match_on_the_border_of_two_pieces_of_a_line_is_found(file: Path) -> None:
    for border in range(-8, 9):
        file.write_bytes(b"x" * ((256 << 10) + border) + b"needle" + b"y" * 300_000)
        (match,) = output_reader.search(file, "needle").matches
        assert "needle" in match.line.text


def test_a_search_without_time_ends_and_reports_where(file: Path) -> None:
    sparse(file, 5 * GB, b"\nneedle\n")
    found = output_reader.search(file, "needle", seconds=0.05)
    assert (found.matches, found.ended) == ((), "time")
    assert 0 < found.next < found.size
    assert output_reader.search(file, "needle", from_offset=5 * GB - 1_000).matches != ()


def test_an_endless_expression_is_stopped_and_its_line_skipped(file: Path) -> None:
    file.write_bytes(b"fine\n" + b"a" * 60 + b"\nafter aa!\n")
    found = output_reader.search(file, r"^(a|a)+!$|after", "regex", seconds=0.2)
    assert (found.matches, found.ended, found.next) == ((), "slow", 66)
    rest = output_reader.search(file, r"^(a|a)+!$|after", "regex", from_offset=found.next)
    assert [match.line.text for match in rest.matches] == ["after aa!"]


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(?P<x", "a{99999999999999}"])
def test_an_invalid_expression_is_refused_with_a_fix(file: Path, pattern: str) -> None:
    file.write_bytes(b"x\n")
    with pytest.raises(Refused, match="not a regular expression") as refused:
        output_reader.search(file, pattern, "regex")
    assert "text" in refused.value.hint


def test_a_pattern_is_one_short_line(file: Path) -> None:
    file.write_bytes(b"x\n")
    for pattern in ("", "a\nb", "a\0", "x" * 1_001):
        with pytest.raises(Refused, match="one line"):
            output_reader.search(file, pattern)


def test_a_position_outside_the_file_is_refused(file: Path) -> None:
    file.write_bytes(b"one\n")
    assert output_reader.span(file, 4).lines == ()
    for offset in (-1, 5):
        with pytest.raises(Refused, match="which has 4"):
            output_reader.span(file, offset)
    with pytest.raises(Refused, match="number of lines is too small"):
        output_reader.tail(file, 0)


def test_only_files_are_read(tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    (tmp_path / "secret").write_text("secret\n")
    link.symlink_to("secret")
    for path in (fifo, link, tmp_path, tmp_path / "nothing"):
        with pytest.raises(Refused):
            output_reader.tail(path)


def test_a_file_that_grows_is_read_as_it_was_when_opened(file: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", "while True: print('x' * 60)"], stdout=file.open("wb")
    )
    try:
        while not file.stat().st_size:
            pass
        at, pages = 0, 0
        while pages < 300:
            page = output_reader.span(file, at)
            assert page.next <= page.size
            assert all(line.text == "x" * 60 for line in page.lines[1:-1])
            assert output_reader.tail(file, 3).lines[0].text == "x" * 60
            at, pages = page.next, pages + 1
    finally:
        writer.kill()
        writer.wait()


def test_the_regex_process_loads_little() -> None:
    """It is started for every search by expression."""
    program = Path(regex_client.__file__)
    words = [str(program), str(program.parents[2]), "x", "0", "1", "1"]
    reported = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    ).stderr
    assert not {"typing", "json", "msgspec", "pathlib"} & set(re.findall(r"\| +([\w.]+)", reported))


# -- secrets that a cut goes through ---------------------------------------------------------------

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
VALUE = "correct-horse-battery-staple-9431"
KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "".join(f"{hashlib.sha256(bytes([n])).hexdigest()}\n" for n in range(24))
    + "-----END RSA PRIVATE KEY-----"
)


def shows_part(text: str, secret: str) -> bool:
    """Twelve letters of it, at any place."""
    plain = secret.replace("\n", "")
    return any(plain[at : at + 12] in text for at in range(0, len(plain) - 11, 3))


@pytest.mark.parametrize("secret", [TOKEN, VALUE, KEY])
@pytest.mark.parametrize("around", [" ", "\n"])
def test_no_way_to_read_an_output_shows_part_of_a_secret(
    tmp_path: Path, secret: str, around: str
) -> None:
    secrets = Secrets({"PHRASE": VALUE})
    pick = random.Random(len(secret))
    path = tmp_path / "stdout"
    for _ in range(4):
        lines = [pick.choice("xyz") * pick.choice((3, 80, 1_900, 2_500)) for _ in range(60)]
        first, last = "\n".join(lines[:30]), "\n".join(lines[30:])
        path.write_text(f"{first}{around}{secret}{around}{last}")
        at = len(first) + 1
        read = [
            output_reader.ends(path, at + pick.randint(-5, len(secret)), 5_000, secrets),
            output_reader.ends(path, 5_000, len(last) + 1 + pick.randint(-5, len(secret)), secrets),
            output_reader.tail(path, pick.randint(1, 60), secrets),
            output_reader.head(path, pick.randint(1, 60), secrets),
            output_reader.search(path, secret[:3], limit=5, context=3, secrets=secrets),
            *(
                output_reader.span(
                    path, at + pick.randint(-2, len(secret)), pick.randint(1, 20), secrets
                )
                for _ in range(8)
            ),
        ]
        for one in read:
            message = msgspec.json.encode(one).decode().replace("\\n", "\n")
            assert not shows_part(secrets.redact_text(message).replace("\n", ""), secret)


def test_a_secret_that_is_shown_as_a_whole_keeps_its_usual_mark(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_text(f"before\nkey {TOKEN} end\nafter\n")
    secrets = Secrets()
    [line] = [line for line in output_reader.tail(path, 9, secrets).lines if "key" in line.text]
    assert line.text == f"key {TOKEN} end"
    assert secrets.redact_text(line.text).startswith("key [secret:")


@pytest.mark.parametrize("kind", ["text", "regex"])
def test_a_search_answers_alike_whether_a_guess_at_a_secret_is_right_or_wrong(
    tmp_path: Path, kind: output_reader.Kind
) -> None:
    secret = "Zq8fX2wLp7RtVb9NcQ"
    secrets = Secrets({"TOKEN": secret})
    path = tmp_path / "stdout"
    path.write_text(f"start\nkey={secret} and more\n{'x' * 3_000}{secret}\nend\n")
    wrong = "J" * len(secret)  # in no line, and not in what stands for a secret

    def answer(pattern: str) -> output_reader.OutputMatches:
        return output_reader.search(path, pattern, kind, limit=1, secrets=secrets)

    for length in (1, 2, 5, len(secret) - 1, len(secret)):
        for before in ("key=", ""):
            if length > 1 or before:
                right, other = (answer(before + one[:length]) for one in (secret, wrong))
                assert right == other
    assert [one.line.text for one in answer("end").matches] == ["end"]
