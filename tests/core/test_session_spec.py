"""A session's spec is built from the flat options that all interfaces use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.core.session_options import session_spec, with_options
from tillerman.core.session_spec import (
    Approval,
    NativeLimits,
    NativeOptions,
    SessionSpec,
    ToolSelection,
)

CWD = Path("/proj")


def test_every_grouped_option_has_its_place() -> None:
    spec = session_spec(
        CWD,
        model="m",
        approve="auto",
        accept_advisory=True,
        allowed_tools=("a",),
        denied_tools=("d",),
        only_tools=("o",),
        servers={"s": {"command": "x"}},
        max_turns=3,
        max_cost=0.5,
        flags=("--f",),
        options={"k": 1},
    )
    assert spec == SessionSpec(
        CWD,
        model="m",
        approval=Approval("auto", accept_advisory=True),
        tools=ToolSelection(("a",), ("d",), ("o",), {"s": {"command": "x"}}),
        limits=NativeLimits(3, 0.5),
        native=NativeOptions(("--f",), {"k": 1}),
    )


def test_other_options_of_a_group_stay_as_they_are() -> None:
    spec = session_spec(CWD, flags=("--f",), approve="edits")
    assert with_options(spec, options={"k": 1}, fork=True) == SessionSpec(
        CWD, fork=True, approval=Approval("edits"), native=NativeOptions(("--f",), {"k": 1})
    )


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="polite"):
        session_spec(CWD, polite=True)
