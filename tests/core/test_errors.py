"""Every public error tells its next step."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import tillerman
from tillerman.core import errors
from tillerman.core.errors import TillermanError
from tillerman.core.session_options import OPTIONS, check_options, check_required

SOURCES = Path(tillerman.__file__).parent


def public() -> dict[str, type[TillermanError]]:
    """Without refusals of the workspace tools, which are results for a model."""
    return {
        name: made
        for name, made in vars(errors).items()
        if isinstance(made, type) and issubclass(made, TillermanError)
    }


def takes_a_hint(kind: type[TillermanError]) -> bool:
    """Whether it is made with a hint; the others make their own."""
    hint = inspect.signature(kind).parameters.get("hint")
    return hint is not None and hint.default is not hint.empty


def test_every_error_is_made_with_a_hint() -> None:
    names = {name for name, kind in public().items() if takes_a_hint(kind)}
    assert {"UsageError", "StoreError", "Unsupported"} <= names
    without = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in names
        and not any(given.arg in ("hint", None) for given in node.keywords)
    ]
    assert without == []


def test_the_public_errors_are_the_whole_tree() -> None:
    exported = {name: getattr(tillerman, name) for name in tillerman.__all__}
    assert {name: made for name, made in exported.items() if name in public()} == public()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_value_of_an_option_has_a_next_step(name: str) -> None:
    with pytest.raises(tillerman.UsageError) as wrong:
        check_options({name: object()})
    with pytest.raises(tillerman.UsageError) as missing:
        check_required(**{name: None})
    assert wrong.value.hint
    assert missing.value.hint
