"""Redaction time of 128 KB without a secret, whole and in chunks of 4 KB, in milliseconds."""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Callable
from functools import partial
from random import Random

from tillerman.supervision.secrets import Redactor, Secrets

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))
SIZE, CHUNK = 128 * 1024, 4096
WORDS = ["quick", "brown", "function", "return", "const", "value", "import", "class", "span"]
KEYS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def page(chance: Random) -> str:
    line = '<div class="{}" id=\'{}\'>if (a && b < c) {{ {}("{}"); }}</div>\n'
    return "".join(line.format(*chance.choices(WORDS, k=4)) for _ in range(SIZE // 60))


def texts() -> dict[str, str]:
    chance = Random(1)
    lines = [json.dumps({"type": "text", "text": page(chance)[:200]}) for _ in range(SIZE // 250)]
    return {
        "plain text": " ".join(chance.choices(WORDS, k=SIZE // 6)),
        "HTML": page(chance),
        "HTML, escaped": html.escape(page(chance)),
        "JSON lines": "\n".join(lines),
        "JSON of escaped HTML": json.dumps(html.escape(page(chance))),
        "URL-encoded": "a=%20b%2Fc&x=1&y=2 " * (SIZE // 19),
    }


def in_chunks(secrets: Secrets, text: bytes) -> None:
    redactor = Redactor(secrets)
    for at in range(0, len(text), CHUNK):
        redactor.feed(text[at : at + CHUNK])
    redactor.flush()


def least(work: Callable[[], object]) -> float:
    """The least CPU time: other programs on the machine do not count."""

    def took() -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    return min(took() for _ in range(ROUNDS))


def main() -> None:
    chance = Random(2)
    sizes = (40, 51, 93, 20, 36)
    values = {f"K{n}": "".join(chance.choices(KEYS, k=size)) for n, size in enumerate(sizes)}
    plain = Secrets(values)
    quoted = Secrets({**values, "URL": 'postgres://me:a"b&c@db.example.com/x?y=1&z=2'})
    print(f"{'':<24}{'whole':>10}{'chunks':>10}   with a secret that HTML escapes")
    for name, text in texts().items():
        data = text.encode()[:SIZE]
        cells = []
        for secrets in (plain, quoted):
            cells += [
                least(partial(secrets.redact, data)),
                least(partial(in_chunks, secrets, data)),
            ]
        print(f"{name:<24}" + "".join(f"{cell * 1e3:>10.1f}" for cell in cells))


if __name__ == "__main__":
    main()
