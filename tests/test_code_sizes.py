"""The size rule of `make check` finds modules and functions that are too long."""

from __future__ import annotations

from pathlib import Path

from tests.code_sizes import LONGEST_FUNCTION, MOST_LINES, problems


def function(lines: int, above: str = "") -> str:
    return f"{above}def long():\n" + "    pass\n" * (lines - 1)


def test_a_module_that_is_too_long_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("pass\n" * MOST_LINES)
    assert list(problems(module)) == []
    module.write_text("pass\n" * (MOST_LINES + 1))
    assert [problem.split(":")[0] for problem in problems(module)] == [f"{module} has 451 lines"]


def test_a_test_module_may_be_long(tmp_path: Path) -> None:
    module = tmp_path / "test_module.py"
    module.write_text("pass\n" * (MOST_LINES + 1))
    assert list(problems(module)) == []


def test_a_function_that_is_too_long_needs_a_reason_above_it(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import os\n\n\n" + function(LONGEST_FUNCTION))
    assert list(problems(module)) == []
    module.write_text("import os\n\n\n" + function(LONGEST_FUNCTION + 1))
    (found,) = problems(module)
    assert "long has 81 lines" in found
    module.write_text("import os\n\n\n" + function(LONGEST_FUNCTION + 1, "# one table\n"))
    assert list(problems(module)) == []
