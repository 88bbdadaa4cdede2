from __future__ import annotations

from pathlib import Path

import pytest

from tests.stand_ins.cursor_alone import Cursor


@pytest.fixture
def cursor(tmp_path: Path) -> Cursor:
    return Cursor(tmp_path)
