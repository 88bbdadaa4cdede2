"""A registered secret is found in every documented encoding, wherever it is cut."""

from __future__ import annotations

import base64
import html
import json
import quopri
import re
import shlex
import shutil
import subprocess
import urllib.parse
from collections.abc import Callable
from random import Random

import pytest

from tests import CHECKOUT
from tillerman.supervision.secrets import Redactor, Secrets
from tillerman.supervision.secrets.encodings import ENCODINGS
from tillerman.supervision.secrets.secret_forms import forms_of

Encoder = Callable[[str], bytes]


def _lines(text: str, width: int) -> bytes:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width)).encode()


def _run(*words: str) -> Encoder:
    """The output of a system program, with the secret on its standard input."""
    return lambda text: subprocess.run(
        words, input=text.encode(), capture_output=True, check=True
    ).stdout.strip()


def _shell(quoting: str) -> Encoder:
    return lambda text: (
        subprocess.run(
            ["bash", "-c", quoting, "bash", text], capture_output=True, check=True
        ).stdout
    )


def _each(form: str) -> Encoder:
    return lambda text: "".join(form.format(byte) for byte in text.encode()).encode()


ENCODERS: dict[str, list[Encoder]] = {
    "plain": [str.encode],
    "JSON": [
        lambda text: json.dumps(text)[1:-1].encode(),
        lambda text: json.dumps(json.dumps(text))[3:-3].encode(),
        lambda text: (
            "".join(f"\\u{ord(c):04x}" for c in text if ord(c) < 0x10000).encode()
            if max(map(ord, text)) < 0x10000
            else text.encode()
        ),
        lambda text: json.dumps(text)[1:-1].replace("/", "\\/").encode(),
    ],
    "URL": [
        lambda text: urllib.parse.quote(text, safe="").encode(),
        lambda text: urllib.parse.quote_plus(text).encode(),
        lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe="").encode(),
        _each("%{:02X}"),
        _each("%{:02x}"),
    ],
    "backslash escapes": [_each("\\x{:02x}"), _each("\\x{:02X}"), _each("\\{:03o}")],
    "HTML": [
        lambda text: html.escape(text).encode(),
        lambda text: html.escape(html.escape(text)).encode(),
        lambda text: "".join(f"&#{ord(c)};" for c in text).encode(),
        lambda text: "".join(f"&#x{ord(c):X};" for c in text).encode(),
        lambda text: text.encode("ascii", "xmlcharrefreplace"),
    ],
    "shell": [
        lambda text: shlex.quote(text).encode(),
        lambda text: text.replace("'", "'\\''").encode(),
        _shell('printf %q "$1"'),
        _shell('LC_ALL=C; printf %q "$1"'),
        _shell('printf %s "${1@Q}"'),
    ],
    "quoted-printable": [
        lambda text: quopri.encodestring(text.encode()).replace(b"=\n", b""),
        lambda text: quopri.encodestring(text.encode(), quotetabs=False).replace(b"=\n", b""),
    ],
    "base64": [
        lambda text: base64.b64encode(text.encode()),
        lambda text: base64.urlsafe_b64encode(text.encode()),
        lambda text: base64.b64encode(b"x" + text.encode() + b"yz"),
        lambda text: base64.b64encode(b"KEY=" + text.encode()),
        lambda text: _lines(base64.b64encode(text.encode()).decode(), 64),
        lambda text: base64.b64encode(base64.b64encode(text.encode())),
        lambda text: base64.b64encode(b"{" + base64.b64encode(b"k=" + text.encode()) + b"}"),
        lambda text: base64.urlsafe_b64encode(base64.urlsafe_b64encode(text.encode())),
        _run("base64"),
    ],
    "base32": [
        lambda text: base64.b32encode(text.encode()),
        lambda text: base64.b32encode(text.encode()).lower(),
        *(lambda text, n=n: base64.b32encode(b"x" * n + text.encode()) for n in range(1, 5)),
        _run("base32"),
    ],
    "hex": [
        lambda text: text.encode().hex().encode(),
        lambda text: text.encode().hex().upper().encode(),
        *(lambda text, s=s: text.encode().hex(s).encode() for s in ":- "),
        *(lambda text, s=s: text.encode().hex(s).upper().encode() for s in ":- "),
        lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()).encode(),
        lambda text: ",".join(f"0x{byte:02X}" for byte in text.encode()).encode(),
        lambda text: _lines(text.encode().hex(), 60),
        _run("od", "-An", "-v", "-tx1"),
    ],
}
ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/=.",
    "".join(map(chr, range(33, 127))),
    "".join(map(chr, range(33, 127))) + " äßéЖ漢😀",
)


def secret(chance: Random, letters: str = "") -> str:
    while True:
        alphabet = letters or chance.choice(ALPHABETS)
        text = "".join(
            chance.choice(alphabet) for _ in range(chance.choice((8, 9, 12, 20, 40, 80)))
        )
        if text == text.strip(" \t\r\n\\\"'") and len(set(text)) >= 4:
            return text


def remains(encoded: bytes, redacted: bytes) -> bool:
    """Whether more of it is left than the few characters that it shares with its neighbours."""
    gone = re.sub(rb"\[secret:KEY\]", b"", redacted)
    return b"[secret:KEY]" not in redacted or len(gone) > max(12, len(encoded) // 8) + 10


@pytest.mark.parametrize("count", [12, pytest.param(1_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_secret_is_found_in_the_encoding_whole_and_cut_in_two(name: str, count: int) -> None:
    chance = Random(f"{name}/{count}")
    shown = []
    for _ in range(count):
        value = secret(chance)
        secrets = Secrets({"KEY": value})
        for number, encode in enumerate(ENCODERS[name]):
            encoded = encode(value)
            text = b"<" + encoded + b">"
            whole = secrets.redact(text)
            if remains(encoded, whole):
                shown.append((number, value, whole))
            for cut in chance.sample(range(1, len(text)), k=min(6, len(text) - 1)):
                redactor = Redactor(secrets)
                parts = redactor.feed(text[:cut]) + redactor.feed(text[cut:]) + redactor.flush()
                if parts != whole:
                    shown.append((number, value, cut, parts))
    assert shown == []


@pytest.mark.parametrize("name", ENCODERS)
def test_a_secret_is_found_wherever_its_encoding_is_cut(name: str) -> None:
    value = "s3cr3t/of'a&\"$kind+=%"
    secrets = Secrets({"KEY": value})
    for encode in ENCODERS[name]:
        text = b"before " + encode(value) + b" after"
        whole = secrets.redact(text)
        for cut in range(len(text)):
            redactor = Redactor(secrets)
            parts = redactor.feed(text[:cut]) + redactor.feed(text[cut:]) + redactor.flush()
            assert parts == whole, (text, cut)


@pytest.mark.skipif(not shutil.which("xxd"), reason="needs xxd")
def test_a_plain_hex_dump_of_any_length_is_found() -> None:
    value = "long-secret-" + "0123456789abcdef" * 8
    dumped = subprocess.run(["xxd", "-p"], input=value.encode(), capture_output=True).stdout
    assert b"[secret:KEY]" in Secrets({"KEY": value}).redact(dumped)


def test_the_documents_name_the_encodings_that_are_covered() -> None:
    text = (CHECKOUT / "docs/secrets.md").read_text("utf-8")
    table = text.partition("<!-- encodings:")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)

    assert {name: what for name, what in rows if name not in ("encoding", "---")} == ENCODINGS
    assert set(ENCODERS) == set(ENCODINGS)
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    (claim,) = [line for line in readme.splitlines() if "Keys stay out" in line]
    assert "docs/secrets.md" in claim


# -- among what is, or looks like, an escape -------------------------------------------------------

PIECES = (
    b"\\u00", b"\\u0041", b"\\", b"\\\\", b"\\n", b"\\x4", b"\\x41", b"\\101", b"%", b"%4", b"%41",
    b"%25", b"%2541", b"&", b"&amp;", b"&am", b"&lt;", b"&#6", b"&#65;", b"&amp;#65;", b"&#x41;",
    b"&#37;41", b"\\u0026amp;", b"\\u005cn", b"%5Cx41", b"\n", b"\r\n", b"25", b"4", b"1", b"n",
    b"u", b"x", b"amp;", b"lt;", b"#", b";", b"d83d", b"\\ud83d", b"\\ude00", b"plain text ",
)  # fmt: skip
SPELLINGS = [encode for name in ENCODERS if name != "shell" for encode in ENCODERS[name][:5]]


def entangled(chance: Random, values: list[str]) -> bytes:
    """Secrets in many encodings, some truncated, among real and apparent escapes."""
    parts: list[bytes] = []
    for _ in range(chance.randrange(1, 4)):
        encoded = chance.choice(SPELLINGS)(chance.choice(values))
        parts += chance.choices(PIECES, k=chance.randrange(5))
        parts.append(encoded[: chance.choice((len(encoded), chance.randrange(len(encoded))))])
    return b"".join([*parts, *chance.choices(PIECES, k=chance.randrange(5))])


def redacted_by_every_pattern(text: bytes, values: list[str]) -> bytes:
    """Redacts with every pattern, without the index that selects candidates."""
    patterns = [form.pattern for value in values for form in forms_of("KEY", value)]
    done = b""
    while matches := [match for one in patterns if (match := one.search(text))]:
        first = min(matches, key=lambda match: (match.start(), -match.end()))
        done += text[: first.start()] + b"[secret:KEY]"
        text = text[first.end() :]
    return done + text


@pytest.mark.parametrize("count", [50, pytest.param(100_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("alphabet", range(len(ALPHABETS)))
def test_a_secret_among_escapes_is_found_as_by_trying_every_pattern_however_it_is_cut(
    alphabet: int, count: int
) -> None:
    chance = Random(f"{alphabet}/{count}")
    shown = []
    for _ in range(count // 50):
        values = [secret(chance, ALPHABETS[alphabet]) for _ in range(3)]
        secrets = Secrets({f"KEY{at}": value for at, value in enumerate(values)})
        for _ in range(50):
            text = entangled(chance, values)
            whole = re.sub(rb"\[secret:KEY\d\]", b"[secret:KEY]", secrets.redact(text))
            if whole != redacted_by_every_pattern(text, values):
                shown.append((values, text, whole))
            for cut in chance.choices(range(len(text) + 1), k=6):
                redactor = Redactor(secrets)
                parts = redactor.feed(text[:cut]) + redactor.feed(text[cut:]) + redactor.flush()
                if parts != secrets.redact(text):
                    shown.append((values, text, cut, parts))
    assert not shown, f"{len(shown)}, such as {shown[0]}"
