"""Output helpers for commands: lines, tables, JSON, warnings, colors, confirmation."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import IO, Any

from tillerman.core.terminal_sanitizer import clean, json_safe
from tillerman.surfaces.rendering.ansi_style import Style


def write(stream: IO[str], text: str) -> None:
    stream.write(text)
    stream.flush()


def emit(*lines: str) -> None:
    write(sys.stdout, "".join(f"{line}\n" for line in lines))


def emit_json(value: Any) -> None:
    """Prints one indented JSON document."""
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(value), indent=2)
    write(sys.stdout, json_safe(data).decode() + "\n")


def warn(text: str, hint: str = "") -> None:
    more = f" ({hint})" if hint else ""
    write(sys.stderr, f"warning: {' '.join(clean(text).split())}{more}\n")


def is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    except ValueError:  # closed
        return False


def colored(options: Namespace, stream: IO[str]) -> bool:
    match options.color:
        case "always":
            return True
        case "never":
            return False
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def table(
    rows: Iterable[Sequence[str]],
    head: Sequence[str],
    style: Style,
    width: int,
    *,
    wrap: bool = False,
) -> str:
    """Formats a table; the last column gets the remaining width and is truncated or wrapped."""
    import textwrap

    from rich.cells import cell_len, set_cell_size

    cells = [[" ".join(clean(cell).split()) for cell in row] for row in rows]
    widths = [max(cell_len(row[i]) for row in [list(head), *cells]) for i in range(len(head) - 1)]
    room = max(10, width - sum(widths) - 2 * len(widths))
    lines = []
    for number, row in enumerate([list(head), *cells]):
        *first, last = row
        fixed = [set_cell_size(cell, size) for cell, size in zip(first, widths, strict=True)]
        if wrap:
            last, *more = textwrap.wrap(last, room) or [""]
        elif cell_len(last) > room:
            last, more = set_cell_size(last, room - 1) + "…", []
        else:
            more = []
        line = "  ".join([*fixed, last]).rstrip()
        lines.append(style("dim", line) if number == 0 else line)
        lines += [" " * (width - room) + part for part in more]
    return "\n".join(lines)


def width() -> int:
    """Terminal width; unlimited for a pipe."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


def confirmed(question: str) -> bool:
    """Asks for confirmation at the terminal; False if there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    write(sys.stderr, f"{clean(question)} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
