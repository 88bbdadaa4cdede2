"""The harness, opened for one command."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridle.app import Harness


@asynccontextmanager
async def harness(options: Namespace, cwd: Path | str = ".") -> AsyncIterator[Harness]:
    import bridle

    async with bridle.open(cwd=cwd) as opened:
        options.color = options.color or opened.config.color
        if opened.mended:
            sys.stderr.write(f"{opened.mended}\n")
        yield opened
