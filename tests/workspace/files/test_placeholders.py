"""Text that a model was not shown is not lost when it writes: secrets are restored, or nothing is
written."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace.secret_files import (
    PLACEHOLDER,
    REGISTERED,
    Change,
    SecretFile,
    change,
    encoded,
    secret_file,
)
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.path_locks import PathLocks
from tillerman.workspace.files.editing import AppliedEdit
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.reading import FileText
from tillerman.workspace.files.refusal import Refused

ROUNDS = int(os.environ.get("TILLERMAN_TORTURE_ROUNDS", "20000"))
KEY = "sk-abcdefghijklmnop0123456789"
OTHER = "sk-zyxwvutsrqponmlk9876543210"


@pytest.fixture
def files(root: Path, tmp_path: Path) -> Iterator[Files]:
    with ConfinedRoot(root, locks=PathLocks(tmp_path / "locks")) as confined:
        yield Files(confined, tmp_path / "exports", Secrets(REGISTERED))


def read(files: Files, path: str = "a") -> FileText:
    found = files.read_file(path)
    assert isinstance(found, FileText)
    return found


def private_key(*rows: str) -> list[str]:
    return ["-----BEGIN PRIVATE " + "KEY-----", *rows, "-----END PRIVATE " + "KEY-----"]


# -- one by one ------------------------------------------------------------------------------------


def test_a_file_that_is_read_and_written_keeps_its_secret(files: Files, root: Path) -> None:
    (root / "a").write_text(f"key = {KEY}\nport = 1\n")
    seen = read(files)
    assert seen.text == "key = [secret:api-key]\nport = 1"
    assert seen.notes == (
        "1 placeholders [secret:…] stand for redacted secrets: keep each one "
        "unchanged when you write this file, and the secret is restored; omit it to remove the "
        "secret",
    )
    edit = files.write_file("a", "key = [secret:api-key]\nport = 2\n", seen.hash)
    assert (root / "a").read_text() == f"key = {KEY}\nport = 2\n"
    assert edit.hash == read(files).hash
    assert edit.diff == (
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n key = [secret:api-key]\n-port = 1\n+port = 2\n"
    )


def test_lines_with_a_secret_are_replaced_by_the_shown_text(files: Files, root: Path) -> None:
    (root / "a").write_text(f"key = {KEY}\n")
    files.replace_lines_in_file("a", 1, 1, "name = [secret:api-key]", "key = [secret:api-key]")
    assert (root / "a").read_text() == f"name = {KEY}\n"


def test_a_text_with_a_secret_is_replaced_by_the_shown_text(files: Files, root: Path) -> None:
    (root / "a").write_text(f"key = {KEY}\n")
    files.replace_text_in_file("a", "key = [secret:api-key]", "[secret:api-key], yes")
    assert (root / "a").read_text() == f"{KEY}, yes\n"


def test_two_secrets_of_one_name_are_distinguished(files: Files, root: Path) -> None:
    (root / "a").write_text(f"{KEY}\n{OTHER}\n{KEY}\n")
    first, second, third = read(files).text.split("\n")
    assert first == third != second
    files.write_file("a", f"{second}\n{first}\n")
    assert (root / "a").read_text() == f"{OTHER}\n{KEY}\n"
    assert read(files).text == f"{second}\n{first}"


def test_a_secret_that_was_added_meanwhile_does_not_replace_another(
    files: Files, root: Path
) -> None:
    (root / "a").write_text(f"{KEY}\n{OTHER}\n")
    shown = read(files).text
    (root / "a").write_text(f"sk-0000000000aaaaaaaaaa1111\n{KEY}\n{OTHER}\n")
    files.write_file("a", shown)
    assert (root / "a").read_text() == f"{KEY}\n{OTHER}"
    (root / "a").write_text(f"{KEY}\n")
    untagged = read(files).text
    (root / "a").write_text(f"{KEY}\n{OTHER}\n")
    with pytest.raises(Refused, match="does not identify a secret of this file") as caught:
        files.write_file("a", untagged)
    assert read(files).text.split("\n")[0] in caught.value.hint


def test_a_text_that_was_always_in_the_file_is_not_a_placeholder(files: Files, root: Path) -> None:
    (root / "a").write_text(f"write [secret:api-key] for {KEY}\n")
    shown = read(files).text
    assert shown.startswith("write [secret:api-key] for [secret:api-key ")
    files.write_file("a", f"{shown}!\n")
    assert (root / "a").read_text() == f"write [secret:api-key] for {KEY}!\n"
    with pytest.raises(Refused, match="does not identify a secret"):
        files.write_file("a", f"{shown} [secret:api-key]\n")


def test_a_tag_that_a_command_wrote_into_the_file_stays_text(files: Files, root: Path) -> None:
    (root / "a").write_text(f"{KEY}\n{OTHER}\n")
    tag = read(files).text.split("\n")[0]
    (root / "a").write_text(f"{KEY}\n{OTHER}\n{tag}\n")
    shown = read(files).text
    assert shown.split("\n")[2] == tag and shown.count(tag) == 1
    files.write_file("a", f"{shown}\nnew\n")
    assert (root / "a").read_text() == f"{KEY}\n{OTHER}\n{tag}\nnew\n"


def test_a_registered_secret_of_several_lines_is_restored_in_a_file_with_crlf(
    root: Path, tmp_path: Path
) -> None:
    data = b"a\r\nfirst99XX\r\nsecond88YY\r\nthird-77\r\nlast\r\n"
    (root / "a").write_bytes(data)
    with ConfinedRoot(root) as confined:
        files = Files(confined, tmp_path, Secrets({"KEY": "first99XX\nsecond88YY\nthird-77"}))
        seen = read(files)
        assert [line for line in seen.text.split("\n") if "secret:" not in line] == ["a", "last"]
        files.write_file("a", seen.text.replace("last", "end\n"), seen.hash)
    assert (root / "a").read_bytes() == data.replace(b"last", b"end")


def test_lines_of_a_long_secret_keep_their_numbers(files: Files, root: Path) -> None:
    rows = private_key("MIIEvQ" * 10, "c2VjcmV0" * 8)
    (root / "a").write_bytes("\r\n".join(["one", *rows, "six", ""]).encode())
    seen = read(files)
    assert seen.text.split("\n") == [
        "one", *(f"[secret:private-key {n}/4]" for n in range(1, 5)), "six",
    ]  # fmt: skip
    assert seen.lines == 6
    files.replace_lines_in_file("a", 6, 6, "seven", "six")
    assert (root / "a").read_bytes() == "\r\n".join(["one", *rows, "seven", ""]).encode()
    assert files.read_file("a", offset=3, limit=1).text == "[secret:private-key 2/4]"  # type: ignore[union-attr]


def test_a_part_of_a_secret_that_would_be_shown_is_not_written(files: Files, root: Path) -> None:
    rows = private_key("MIIEvQ" * 10, "c2VjcmV0" * 8)
    data = "\n".join(rows)
    (root / "a").write_text(data)
    for new in ("[secret:private-key 2/4]\n", "x [secret:private-key 3/4]\n"):
        with pytest.raises(Refused, match="no longer be recognized"):
            files.write_file("a", new)
    (root / "b").write_text(f"{KEY}\n")
    with pytest.raises(Refused, match="no longer be recognized"):
        files.write_file("b", "word[secret:api-key]\n")
    assert (root / "a").read_text() == data and (root / "b").read_text() == f"{KEY}\n"


@pytest.mark.parametrize("there", [None, "nothing secret\n", "\0binary"])
def test_a_placeholder_of_another_file_is_not_written(
    files: Files, root: Path, there: str | None
) -> None:
    if there is not None:
        (root / "a").write_text(there)
    for name in ("api-key", "SERVICE_TOKEN", "UNKNOWN_NAME", "private-key 1/9", "x 0a1b2c"):
        with pytest.raises(Refused, match="does not contain") as caught:
            files.write_file("a", f"key = [secret:{name}]\n")
        assert "move_file" in caught.value.hint
    files.write_file("b", "data[secret:end]\n")  # a slice of Python's
    assert (root / "a").exists() == (there is not None)


def test_a_search_neither_shows_nor_finds_secrets(files: Files, root: Path) -> None:
    rows = private_key("MIIEvQ" * 10, "c2VjcmV0" * 8)
    (root / "a").write_text("\n".join([f"key {KEY}", *rows, "key last"]))
    for kind in ("text", "regex"):
        found = files.search_files("key", kind=kind, context=2)  # type: ignore[arg-type]
        assert [(one.line, one.text) for one in found.matches if "secret:" not in one.text] == [
            (6, "key last")
        ]
        shown = str(found)
        assert KEY not in shown and "MIIEvQ" not in shown and "c2VjcmV0" not in shown
        for guess in ("sk-a", KEY[:12], "MIIE", "c2Vj"):
            assert files.search_files(guess, kind=kind).matches == ()  # type: ignore[arg-type]


def test_the_diff_of_a_line_beside_a_secret_does_not_show_it(files: Files, root: Path) -> None:
    rows = private_key(*("MIIEvQ" * 10 for _ in range(9)))
    (root / "a").write_text("\n".join([*rows, "last", ""]))
    edit = files.replace_text_in_file("a", "last", "new")
    assert "MIIE" not in edit.diff and "+new" in edit.diff
    with pytest.raises(Refused) as caught:
        files.replace_lines_in_file("a", 5, 6, "x", "y")
    assert "MIIE" not in caught.value.message
    assert "MIIE" not in files.delete_file("a").diff


def test_a_large_file_is_read_without_its_secrets_and_not_changed(files: Files, root: Path) -> None:
    rows = private_key(*("MIIEvQ" * 10 for _ in range(20)))
    with (root / "a").open("w") as file:
        file.write(f"{KEY}\n" + "0123456789abcde\n" * (17 << 16))
        file.write("\n".join(rows))
    last = (17 << 16) + 1
    for offset in (1, last, last + 5, last + 12):
        seen = files.read_file("a", offset=offset, limit=5)
        assert "MIIE" not in str(seen) and KEY not in str(seen)
    with pytest.raises(Refused, match="does not contain"):
        files.write_file("a", "[secret:api-key]\n")


# -- any file --------------------------------------------------------------------------------------


def written(files: Files, chance: random.Random, file: SecretFile, made: Change) -> AppliedEdit:
    """As a model writes it: from what it was shown."""
    seen = read(files)
    shown = seen.text.split("\n") if file.lines else []
    if seen.lines is not None and len(shown) < seen.lines:
        shown.append("")
    rows = [shown[row] if isinstance(row, int) else row for row in made.rows]
    match chance.choice(("whole", "hash", "lines", "text")):
        case "lines" if len(shown) == seen.lines:
            return files.replace_lines_in_file(
                "a", 1, len(shown), "\n".join(rows) + ("\n" if rows else ""), "\n".join(shown)
            )
        case "text" if shown and all(shown) and rows and shown[0] != rows[0]:
            old = "\n".join(shown)
            return files.replace_text_in_file("a", old, "\n".join(rows))
        case how:
            content = "\n".join(rows) + ("\n" if file.ends_last and rows else "")
            return files.write_file("a", content, seen.hash if how == "hash" else None)


def play(files: Files, root: Path, seed: int) -> str:
    """One round; returns its result."""
    chance = random.Random(seed)
    file = secret_file(chance)
    made = change(chance, file)
    path = root / "a"
    path.write_bytes(file.data)
    before = Counter(PLACEHOLDER.findall(path.read_text(file.encoding)))
    shown = read(files).text
    assert files.secrets.redact_text(shown) == shown
    assert not any(value in shown for value in file.values)
    expected = encoded(
        [file.lines[row].raw if isinstance(row, int) else row for row in made.rows], file
    )
    try:
        written(files, chance, file, made)
    except Refused as refusal:
        assert path.read_bytes() == file.data
        assert not made.whole or made.repeats, refusal
        return "refused"
    after = path.read_bytes()
    if not file.ends_last and not made.rows:
        expected = after
    assert after == expected
    assert Counter(PLACEHOLDER.findall(after.decode(file.encoding))) <= before
    for value in file.values:
        assert value not in read(files).text
    return "written"


def test_secrets_stay_where_a_model_left_them_and_are_removed_where_it_did_not(
    files: Files, root: Path
) -> None:
    results = Counter(play(files, root, seed) for seed in range(200))
    assert results["written"] > 150 and results["refused"] > 0


@pytest.mark.torture
@pytest.mark.timeout(3_600)
def test_secrets_stay_in_all_rounds(files: Files, root: Path) -> None:
    print(Counter(play(files, root, seed) for seed in range(ROUNDS)))
