"""Nothing that version 1 promises is gone, and everything that is new is recorded."""

from __future__ import annotations

import json

import pytest

from tests.documents.stable_surface import RECORD, surface

KEPT: dict[str, list[str]] = json.loads(RECORD.read_text())


@pytest.mark.parametrize("kind", KEPT)
def test_nothing_that_is_stable_is_gone_or_unrecorded(kind: str) -> None:
    now = set(surface()[kind])
    gone = sorted(set(KEPT[kind]) - now)
    new = sorted(now - set(KEPT[kind]))
    assert (gone, new) == ([], []), "new: python -m tests.documents.stable_surface records it"


def test_every_kind_is_recorded() -> None:
    assert set(KEPT) == set(surface())
    assert all(KEPT.values())
