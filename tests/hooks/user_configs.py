"""Settings as people write them: any layout, any line ends, and comments where they are allowed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

EVENTS = ("PreToolUse", "PostToolUse", "Stop")
OURS = {
    "PreToolUse": {"hooks": [{"type": "command", "command": "tillerman hook || exit 2"}]},
    "Stop": {"hooks": [{"type": "command", "command": "tillerman hook é"}], "timeout": 60},
}

_words = st.text(max_size=6)
_scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from([0.5, 1e20]) | _words
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=6,
)
_entries = st.lists(
    st.fixed_dictionaries({"command": _words}, optional={"matcher": _words}) | _values, max_size=3
)
_hooks = st.dictionaries(st.sampled_from(EVENTS) | _words, _entries, max_size=3)


@st.composite
def plain_configs(draw: st.DrawFn) -> dict[str, Any]:
    config = draw(st.dictionaries(_words.filter(lambda word: word != "hooks"), _values, max_size=3))
    if draw(st.booleans()):
        hooks = draw(_hooks)
        items = [*config.items()]
        items.insert(draw(st.integers(0, len(items))), ("hooks", hooks))
        config = dict(items)
    return config


@st.composite
def texts(draw: st.DrawFn, *, comments: bool) -> bytes:
    """A file of settings; sometimes an empty one."""
    bom = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    if draw(st.integers(0, 9)) == 0:
        return bom + draw(st.sampled_from([b"", b"\n", b"  \r\n\t"]))
    space = st.sampled_from(_SPACES + (_COMMENTS if comments else ()))
    if draw(st.booleans()):
        text = json.dumps(
            draw(plain_configs()),
            indent=draw(st.sampled_from([None, 2, 4, "\t"])),
            ensure_ascii=draw(st.booleans()),
        )
        text += draw(st.sampled_from(["", "\n", "\n\n"]))
    else:
        text = draw(space) + _render(draw, draw(plain_configs()), space, comments) + draw(space)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return bom + text.encode()


_SPACES = ("", "", " ", "\n", "\n  ", "\t", "\n\n    ")
_COMMENTS = ('// note, it\'s "one"\n', "/* a [ b { */", " // x\n  ")


def _render(draw: st.DrawFn, value: Any, space: st.SearchStrategy[str], comments: bool) -> str:
    def inner(one: Any) -> str:
        return draw(space) + _render(draw, one, space, comments) + draw(space)

    def closed(parts: list[str]) -> str:
        comma = "," + draw(space) if parts and comments and draw(st.booleans()) else ""
        return ",".join(parts) + comma

    match value:
        case dict():
            members = [
                draw(space) + json.dumps(key) + draw(space) + ":" + inner(one)
                for key, one in value.items()
            ]
            return "{" + (closed(members) or draw(space)) + "}"
        case list():
            return "[" + (closed([inner(one) for one in value]) or draw(space)) + "]"
    return json.dumps(value, ensure_ascii=False)
