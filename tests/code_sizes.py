"""Checks the sizes of the code: modules of at most 450 lines, functions of at most 80.

A longer function has a comment with the reason above its first line. Test modules may be longer.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "bench", "tests")
MOST_LINES = 450
LONGEST_FUNCTION = 80
PENDING = {ROOT / "src/tillerman/sessions/runner/runner.py"}  # is being split


def problems(path: Path) -> Iterator[str]:
    text = path.read_text()
    lines = text.splitlines()
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    if len(lines) > MOST_LINES and not path.name.startswith("test_"):
        yield f"{name} has {len(lines)} lines: split it (at most {MOST_LINES})"
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        if length > LONGEST_FUNCTION and not lines[first - 2].strip().startswith("#"):
            yield (
                f"{name}:{node.lineno} {node.name} has {length} lines: split it (at most"
                f" {LONGEST_FUNCTION}), or give the reason in a comment above it"
            )


def main() -> int:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    files = [path for path in files if path not in PENDING]
    found = [problem for path in files for problem in problems(path)]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
