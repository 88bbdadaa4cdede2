"""No registered secret and no well-known key is left in what is stored, logged or shown."""

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.supervision.written import WAYS
from tillerman.core.events import (
    MessageChunk,
    PermissionRequested,
    Text,
    ToolFinished,
    ToolStarted,
    UsageReported,
)
from tillerman.supervision.secrets import Redactor, Secrets, TextRedactor, key_patterns

KEY = "Zq8/fX+2w'Lp<7&Rt=1Vb 9Nc\"e"
LONG = "c0ffee-Kx81jQzT7vYwR5uNsB3mHaD9eG2pLf4iXoC6tZ"
SHORT = "hunter2!"
SECRETS = Secrets({"API_KEY": KEY, "LONG_TOKEN": LONG, "DB_PASSWORD": SHORT})


@pytest.mark.parametrize("value", [KEY, LONG, SHORT])
@pytest.mark.parametrize("way", WAYS)
def test_a_secret_is_found_however_it_is_written(way: str, value: str) -> None:
    name = {KEY: "API_KEY", LONG: "LONG_TOKEN", SHORT: "DB_PASSWORD"}[value]
    assert f"[secret:{name}]" in SECRETS.redact_text(f"<{WAYS[way](value)}>")


def test_only_the_secret_is_taken_out() -> None:
    assert (
        SECRETS.redact(b"before " + LONG.encode() + b" after")
        == b"before [secret:LONG_TOKEN] after"
    )
    assert SECRETS.redact_text(f"x={SHORT};y={LONG}{SHORT}") == (
        "x=[secret:DB_PASSWORD];y=[secret:LONG_TOKEN][secret:DB_PASSWORD]"
    )


def test_clean_data_is_given_back_as_it_is() -> None:
    line = b'{"type":"text","text":"50% of nothing\\nis \\u00e9 nothing"}'
    assert SECRETS.redact(line) is line
    assert SECRETS.redact(b"") == b""


@pytest.mark.parametrize("before", ["", "100%", "%", "\\", "\\n", "a\\\\", "%2", "=", "\\u00"])
def test_data_before_a_secret_does_not_hide_it(before: str) -> None:
    for value in (KEY, LONG, SHORT, "abcdef-123456", "20abcdef-123456-abcdef"):
        secrets = Secrets({"NAME": value})
        assert "[secret:NAME]" in secrets.redact_text(before + value), value


def test_short_and_trivial_values_are_not_registered() -> None:
    secrets = Secrets()
    registered = {
        value: secrets.register("N", value) for value in ("", "abc", "1234567", "00000000")
    }
    registered |= {
        value: secrets.register("N", value) for value in ("password", "Production", SHORT)
    }
    assert registered == dict.fromkeys(registered, False) | {SHORT: True}


PEM_LINES = (
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
    "Nn4/tW2pLq0dR7s=",
)
PEM = "\n".join(("-----BEGIN RSA KEY-----", *PEM_LINES, "-----END RSA KEY-----", ""))
ACCOUNT = json.dumps(
    {"kind": "account", "id": 7, "hidden": "a1B2c3D4e5F6g7H8i9", "pem": PEM}, indent=2
)


@pytest.mark.parametrize("line", PEM_LINES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "value", [PEM, PEM.replace("\n", "\\n"), PEM.replace("\n", "\r\n"), ACCOUNT], ids=len
)
def test_one_line_of_a_multiline_secret_is_a_secret(value: str, way: str, line: str) -> None:
    secrets = Secrets({"KEY": value})
    redacted = secrets.redact_text(f"<{WAYS[way](line)}>")
    assert "[secret:KEY]" in redacted


def test_a_key_inside_a_line_of_a_multiline_secret_is_a_secret() -> None:
    redacted = Secrets({"KEY": ACCOUNT}).redact_text("it is a1B2c3D4e5F6g7H8i9, I think")
    assert redacted == "it is [secret:KEY], I think"


def test_the_frame_and_the_short_lines_of_a_multiline_secret_are_none() -> None:
    plain = '-----BEGIN RSA KEY----- and -----END RSA KEY----- and "id": 7, and }'
    assert Secrets({"KEY": PEM, "ACCOUNT": ACCOUNT}).redact_text(plain) == plain


def test_the_whole_of_a_multiline_secret_is_one_secret() -> None:
    secrets = Secrets({"KEY": PEM})
    assert secrets.redact_text(f"<{PEM.strip()}>") == "<[secret:KEY]>"


def test_a_secret_of_short_lines_is_found_whatever_ends_its_lines() -> None:
    secrets = Secrets({"KEY": "first99XX\nsecond88YY\nthird-77"})
    for end in ("\n", "\r\n", "\\n", "\\r\\n", "\\\\r\\\\n", "%0A", "%0D%0A"):
        text = f"<first99XX{end}second88YY{end}third-77>"
        assert secrets.redact_text(text) == "<[secret:KEY]>", end


def test_a_value_under_two_names_keeps_the_first() -> None:
    secrets = Secrets({"FIRST": LONG, "SECOND": LONG})
    assert secrets.redact_text(LONG) == "[secret:FIRST]"


def test_a_name_cannot_break_the_json_around_it() -> None:
    secrets = Secrets()
    secrets.register('A"B\\C]', LONG)
    assert json.loads(secrets.redact(json.dumps({"k": LONG}).encode())) == {"k": "[secret:A_B_C_]"}


@pytest.mark.parametrize(
    "value", [KEY, LONG, SHORT, 'quote"and\\slash/end', "tab\tline\nend-of-it"]
)
@pytest.mark.parametrize("escape", [True, False])
def test_json_stays_json(value: str, escape: bool) -> None:
    secrets = Secrets({"NAME": value})
    line = json.dumps({"a": [f"x{value}y", 1], value: {"b": None}}, ensure_ascii=escape).encode()
    assert json.loads(secrets.redact(line)) == {
        "a": ["x[secret:NAME]y", 1],
        "[secret:NAME]": {"b": None},
    }


def test_a_secret_that_is_a_number_leaves_valid_json() -> None:
    secrets = Secrets({"PIN": "8675309421"})
    line = b'{"pin":8675309421,"pins":[-8675309421.5,"8675309421"],"other":17}'
    assert json.loads(secrets.redact(line)) == {
        "pin": "[secret:PIN]",
        "pins": ["[secret:PIN]", "[secret:PIN]"],
        "other": 17,
    }


def test_letters_of_an_escape_that_look_like_a_secret_leave_valid_json() -> None:
    secrets = Secrets({"NAME": "nabcd-1234"})
    redacted = secrets.redact(b'{"text":"line\\nabcd-1234 \\\\"}')
    assert b"nabcd-1234" not in redacted
    json.loads(redacted)


def test_invalid_json_is_redacted_all_the_same() -> None:
    assert SECRETS.redact(b'{"cut":"' + LONG.encode()) == b'{"cut":"[secret:LONG_TOKEN]'


SHAPES = {
    "api-key": "sk-ant-api03-Ab1" + "x" * 40,
    "github-token": "ghp_" + "a1B2" * 9,
    "aws-key-id": "AKIAIOSFODNN7EXAMPLE",
    "google-key": "AIza" + "Sy-1_" * 7,
    "slack-token": "xoxb-123456789012-abcdefghijkl",
    "web-token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0",
    "bearer-token": "Bearer abcdef0123456789abcdef",
    "private-key": (
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA+/==\n"
        "-----END OPENSSH PRIVATE KEY-----"
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_key_behind_a_character_that_json_escapes_is_found_everywhere(name: str) -> None:
    key, left = SHAPES[name], []
    for before in (*map(chr, (*range(32), 127)), "é", "\u2028", "😀"):
        text = f"a word{before}{key}"
        event = MessageChunk(message_id="m", text=text)
        shown = {
            "text": SECRETS.redact_text(text),
            "value": SECRETS.redact_value({"lines": [text]})["lines"][0],
            "event": SECRETS.redact_event(event).text,  # type: ignore[union-attr]
        }
        left += [(kind, before) for kind, one in shown.items() if key[12:] in one]
    assert left == []


ORDINARY_KEYS = {
    **SHAPES,
    "api-key": "sk-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0",
    "google-key": "AIzaSyA1b2C3d4E5f6G7h8I9j0KlMnOpQrStUvW",
}
BEFORE = ["\x1b[31m", "\x1b[01;31m\x1b[K", "\\x1b[0m", "%3D", "%20", "\\x20", "-p", "-u", "key_"]
_neighbours = st.one_of(
    st.sampled_from(BEFORE),
    st.sampled_from([chr(code) for code in range(128)]),
    st.text(max_size=3),
)


@given(_neighbours, st.sampled_from(sorted(ORDINARY_KEYS)), _neighbours, st.data())
def test_a_well_known_key_is_found_in_any_context(
    before: str, name: str, after: str, data: st.DataObject
) -> None:
    """In a text, in JSON, and in a stream that is cut anywhere."""
    key = ORDINARY_KEYS[name]
    text = f"{before}{key}{after}"
    cut = data.draw(st.integers(0, len(text)))
    redactor = TextRedactor(Secrets())
    shown = {
        "text": Secrets().redact_text(text),
        "value": Secrets().redact_value({"lines": [text]})["lines"][0],
        "line": Secrets().redact(json.dumps({"line": text}).encode()).decode(),
        "stream": redactor.feed(text[:cut]) + redactor.feed(text[cut:]) + redactor.flush(),
    }
    left = [how for how, one in shown.items() if any_part(key, one)]
    assert left == [], shown


def any_part(key: str, shown: str) -> bool:
    """Twelve characters of it that its head alone does not contain."""
    return any(key[at : at + 12] in shown for at in range(len(key) - 11))


@pytest.mark.parametrize("code", range(128))
def test_a_well_known_key_behind_any_character_is_found(code: int) -> None:
    left = [
        name
        for name, key in ORDINARY_KEYS.items()
        if any_part(key, Secrets().redact_text(f"{chr(code)}{key}"))
    ]
    assert left == []


@pytest.mark.parametrize("name", SHAPES)
def test_a_well_known_key_is_found_without_being_registered(name: str) -> None:
    key = SHAPES[name]
    assert Secrets().redact_text(f"key: {key}, end") == f"key: [secret:{name}], end"
    line = json.dumps({"text": f"first line\n{key}\nlast"}).encode()
    assert json.loads(Secrets().redact(line)) == {"text": f"first line\n[secret:{name}]\nlast"}


@pytest.mark.parametrize(
    "prose",
    [
        "a task-oriented-assistant-with-many-hyphens",
        "sk-spinner-container-wrapper-element",
        "the bearer of this-rather-long-hyphenated-word",
        "Bearer $ANTHROPIC_AUTH_TOKEN",
        "ghp_short and AKIA and eyJ and xoxo",
        "-----BEGIN CERTIFICATE-----",
        "task-3f2a9b1c0d4e5f6a7b8c9d0e1f2a3b4c5d6e7f80",
        "disk-550e8400-e29b-41d4-a716-446655440000",
        "ask-me-about-task-2024-12-and-a-longer-one",
        "flask-sqlalchemy-migrations-v2-and-more-words",
        "css_sk-fading-circle-delay-12-and-more",
    ],
)
def test_prose_is_not_taken_for_a_key(prose: str) -> None:
    assert Secrets().redact_text(prose) == prose


# -- streams -------------------------------------------------------------------------------------


def test_a_secret_in_two_chunks_is_held_back_until_it_is_complete() -> None:
    redactor = TextRedactor(SECRETS)
    assert redactor.feed("the token is c0ffee-Kx81") == "the token is "
    assert redactor.feed(LONG[11:-1]) == ""
    assert redactor.feed(LONG[-1] + " and so on. ") == "[secret:LONG_TOKEN] and so on. "


def test_a_tail_that_only_resembled_a_secret_is_released() -> None:
    redactor = TextRedactor(SECRETS)
    assert redactor.feed("more c0ffee") == "more "
    assert redactor.held == 6
    assert redactor.feed(" please.") == "c0ffee please."


def test_another_event_releases_the_tail() -> None:
    redactor = Redactor(Secrets({"N": LONG}))
    assert redactor.feed(b"c0ffee-Kx") == b""
    assert redactor.flush() == b"c0ffee-Kx"
    assert redactor.flush() == b""


def test_text_without_the_start_of_a_secret_passes_at_once() -> None:
    redactor = TextRedactor(Secrets({"N": LONG}))
    assert redactor.passes("Hello, world. ")
    assert redactor.held == 0
    assert not redactor.passes("it is c0ff")
    assert redactor.feed("it is c0ff") == "it is "
    assert not redactor.passes("Hello, world. ")


def test_a_flood_that_looks_like_a_key_is_not_held_back_for_ever() -> None:
    redactor = Redactor(SECRETS)
    for start in (b" sk-", b"-----BEGIN PRIVATE KEY-----\n", b"\\" * 50, b"%25%25"):
        redactor.feed(start)
        for _ in range(40):
            redactor.feed(b"a" * 10_000)
            assert redactor.held < 40_000
        redactor.flush()


_words = st.one_of(
    st.sampled_from([KEY, LONG, SHORT, *SHAPES.values()]).flatmap(
        lambda value: st.sampled_from([way(value) for way in WAYS.values()])
    ),
    st.sampled_from(["\\", "\\n", "\n", " ", "sk-", "Z", "é", "😀", "c0ffee", "hunter", "=", '"']),
    st.text(max_size=6),
)


@given(st.lists(_words, max_size=5), st.data())
def test_where_a_stream_is_cut_makes_no_difference(words: list[str], data: st.DataObject) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    redactor = TextRedactor(SECRETS)
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(map(redactor.feed, pieces)) + redactor.flush() == SECRETS.redact_text(text)


# -- events --------------------------------------------------------------------------------------


def test_an_event_keeps_its_shape_and_loses_its_secrets() -> None:
    started = ToolStarted(
        call_id="c", tool="Bash", name="Bash", title=f"Bash `echo {KEY}`",
        input={"command": f"curl -H 'x: {LONG}'", "pin": 1, SHORT: [LONG, None, 2.5]},
        paths=(f"/tmp/{LONG}",),
    )  # fmt: skip
    assert SECRETS.redact_event(started) == ToolStarted(
        call_id="c", tool="Bash", name="Bash", title="Bash `echo [secret:API_KEY]`",
        input={
            "command": "curl -H 'x: [secret:LONG_TOKEN]'", "pin": 1,
            "[secret:DB_PASSWORD]": ["[secret:LONG_TOKEN]", None, 2.5],
        },
        paths=("/tmp/[secret:LONG_TOKEN]",),
    )  # fmt: skip
    finished = ToolFinished(call_id="c", outcome="completed", content=(Text(WAYS["json"](KEY)),))
    assert SECRETS.redact_event(finished) == ToolFinished(
        call_id="c", outcome="completed", content=(Text("[secret:API_KEY]"),)
    )


def test_a_clean_event_is_given_back_as_it_is() -> None:
    event = MessageChunk(message_id="m", text="nothing here")
    assert SECRETS.redact_event(event) is event


def test_a_number_that_happens_to_be_a_secret_stays_a_number_where_one_must_be() -> None:
    secrets = Secrets({"PIN": "8675309421"})
    usage = UsageReported(input_tokens=8675309421)
    assert secrets.redact_event(usage) == usage
    asked = PermissionRequested(request_id="r", tool="Bash", title="t", input={"n": 8675309421})
    assert secrets.redact_event(asked) == PermissionRequested(
        request_id="r", tool="Bash", title="t", input={"n": "[secret:PIN]"}
    )


def test_basic_authorization_is_found() -> None:
    header = "Authorization: Basic " + base64.b64encode(f"user:{LONG}".encode()).decode()
    assert SECRETS.redact_text(header).startswith("Authorization: Basic dXNlcj")
    assert "[secret:LONG_TOKEN]" in SECRETS.redact_text(header)


_texts = st.lists(
    st.sampled_from([KEY, LONG, SHORT, *SHAPES.values()]).flatmap(
        lambda value: st.sampled_from(sorted(WAYS)).map(lambda way: WAYS[way](value))
    )
    | st.text(max_size=8)
    | st.sampled_from(["\\", "\\n", "\n", "\x01", "\f", "%", "&amp;", '"', "\ud800", "😀"]),
    max_size=4,
).map("".join)
_values = st.recursive(
    _texts | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)


@given(_values)
def test_a_value_is_redacted_as_each_text_in_it_is_by_itself(value: object) -> None:
    def each(one: object) -> object:
        match one:
            case str():
                return SECRETS.redact_text(one)
            case list():
                return [each(item) for item in one]
            case dict():
                return {each(key): each(item) for key, item in one.items()}
        return one

    assert SECRETS.redact_value(value) == each(value)


def test_the_quick_search_finds_the_shapes_whose_anchor_is_there() -> None:
    pick = random.Random(3)
    anchors = [shape.anchor for shape in key_patterns.SHAPES]
    for _ in range(2_000):
        parts = pick.choices([*anchors, b"x", b"sk", b"I", b"J", b" "], k=pick.randint(0, 4))
        text = b" ".join(parts)
        wanted = {shape for shape in key_patterns.SHAPES if shape.anchor in text}
        found = key_patterns.shapes_in(text)
        assert set(found) == wanted and len(found) == len(wanted), text
