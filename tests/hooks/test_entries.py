"""Entries are added to a settings file and removed, and every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hooks.user_configs import OURS, texts
from tillerman.hooks.jsonc_editor import Invalid, parse
from tillerman.hooks.settings_entries import added, present, removed

ONE = {"PreToolUse": {"command": "ours"}}


def plain(data: bytes, *, comments: bool = False) -> Any:
    return parse(data.removeprefix(b"\xef\xbb\xbf").decode(), comments=comments).plain


@pytest.mark.parametrize("comments", [False, True])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_an_added_entry_is_removed_without_a_trace(comments: bool, data: st.DataObject) -> None:
    before = data.draw(texts(comments=comments))
    after = added(before, OURS, {"version": 1}, comments=comments)
    assert present(after, OURS, comments=comments) == set(OURS)
    assert after.startswith(before[:3] if before.startswith(b"\xef\xbb\xbf") else b"")
    empty = not before.removeprefix(b"\xef\xbb\xbf").strip()
    if not empty:
        assert removed(after, OURS, before, comments=comments) == before
        was = plain(before, comments=comments)
        for event, entry in OURS.items():
            was.setdefault("hooks", {}).setdefault(event, []).append(entry)
        assert plain(after, comments=comments) == was


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_json_that_python_accepts_is_parsed_alike(data: st.DataObject) -> None:
    text = data.draw(texts(comments=False)).removeprefix(b"\xef\xbb\xbf").decode()
    if text.strip():
        assert parse(text).plain == json.loads(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"{}", b'{"hooks": {"PreToolUse": [{"command": "ours"}]}}'),
        (b'{"a": 1}', b'{"a": 1, "hooks": {"PreToolUse": [{"command": "ours"}]}}'),
        (
            b'{\r\n\t"a": 1\r\n}\r\n',
            b'{\r\n\t"a": 1,\r\n\t"hooks": {"PreToolUse": [{"command": "ours"}]}\r\n}\r\n',
        ),
        (
            b'{\n  "hooks": {\n    "Stop": []\n  }\n}',
            b'{\n  "hooks": {\n    "Stop": [],\n    "PreToolUse": [{"command": "ours"}]\n  }\n}',
        ),
        (
            b'{"hooks": {"PreToolUse": [\n  {"command": "theirs"}\n]}}',
            b'{"hooks": {"PreToolUse": [\n  {"command": "theirs"},\n  {"command": "ours"}\n]}}',
        ),
    ],
)
def test_the_edit_follows_the_style_around_it(before: bytes, after: bytes) -> None:
    assert added(before, ONE, {}) == after
    assert removed(after, ONE, before) == before


def test_a_new_file_has_its_required_keys() -> None:
    assert json.loads(added(None, ONE, {"version": 1})) == {
        "version": 1,
        "hooks": {"PreToolUse": [{"command": "ours"}]},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"a": 1,}', "line 1: a comma before }"),
        (b'{"a": 1} x', "line 1: unexpected text after the value"),
        (b'{\n "a" 1}', "line 2: a colon is missing after 'a'"),
        (b"// c\n{}", "line 1: a value is missing"),
        (b'{"a": 1', "line 1: a comma or } is missing"),
        (b'{"a": "\x01"}', "line 1: a string is missing"),
        (b'{"a": "\\x"}', "line 1: Invalid \\escape: line 1 column 2 (char 1)"),
        (b"[]", "it is not an object"),
        (b'{"hooks": []}', "`hooks` is not an object"),
        (b'{"hooks": {"PreToolUse": {}}}', "`hooks.PreToolUse` is not a list"),
        (b"[" * 5000, "line 1: nested too deeply"),
        (b'{"a": "\xff"}', "it is not UTF-8"),
    ],
)
def test_an_unmergeable_file_is_reported(text: bytes, why: str) -> None:
    with pytest.raises(Invalid) as caught:
        added(text, ONE, {})
    assert str(caught.value).startswith(why)


def test_concurrent_edits_are_preserved() -> None:
    before = b'{\n  "a": 1\n}\n'
    text = added(before, OURS, {}).decode()
    edited = text.replace('"a": 1', '"a": 2,\n  "b": [3]').replace(
        '"Stop": [', '"Stop": [{"command": "mine"}, '
    )
    assert removed(edited.encode(), OURS, before) == (
        b'{\n  "a": 2,\n  "b": [3],\n  "hooks": {"Stop": [{"command": "mine"}]}\n}\n'
    )


def test_a_comment_put_beside_an_entry_stays() -> None:
    before = b'{"hooks": {"PreToolUse": [1, 2]}}'
    after = added(before, ONE, {}, comments=True).replace(b'{"command', b'/* why */ {"command')
    assert removed(after, ONE, before, comments=True) == (
        b'{"hooks": {"PreToolUse": [1, 2 /* why */ ]}}'
    )


def test_a_changed_entry_is_no_longer_ours() -> None:
    after = added(b"{}", ONE, {}).replace(b"ours", b"ours, changed")
    assert removed(after, ONE, b"{}") == after


@pytest.mark.parametrize("first", [b'"hooks": {"PreToolUse": []}', b'"PreToolUse": 1'])
def test_of_two_keys_with_one_name_the_last_counts(first: bytes) -> None:
    before = b"{%b, " % first + b'"hooks": {"Stop": [], "PreToolUse": []}}'
    after = added(before, ONE, {})
    assert json.loads(after)["hooks"]["PreToolUse"] == [{"command": "ours"}]
    assert removed(after, ONE, before) == before
