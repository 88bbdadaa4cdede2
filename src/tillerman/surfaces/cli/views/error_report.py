"""Reports the error of a command: lines on standard error, and with --json an object."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tillerman.core.errors import TillermanError, kind_of


def report(words: Sequence[str], error: TillermanError) -> int:
    """Returns the exit code."""
    return report_failure(words, kind_of(type(error)), error.message, error.hint, error.exit_code)


def report_failure(
    words: Sequence[str], kind: str, message: str, hint: str = "", exit_code: int = 1
) -> int:
    complain(message, hint)
    if wants_json(words):
        from msgspec.json import encode

        from tillerman.core.terminal_sanitizer import json_safe
        from tillerman.surfaces.machine_errors import error_object

        line = encode(error_object(kind, message, hint, exit_code))
        sys.stdout.write(json_safe(line).decode() + "\n")
    return exit_code


def wants_json(words: Sequence[str]) -> bool:
    """Also of words that cannot be parsed; those after `--` are somebody else's."""
    own = words[: words.index("--")] if "--" in words else words
    return words[:1] != ["hook"] and any(
        word == "--json" or word.startswith("--json=") for word in own
    )


def complain(message: str, hint: str = "") -> None:
    from tillerman.core.terminal_sanitizer import clean

    lines = [f"error: {' '.join(clean(message).split())}"]
    if hint:
        lines.append(f"hint: {' '.join(clean(hint).split())}")
    try:
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # stderr is closed
