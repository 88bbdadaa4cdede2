"""The program table: all rows by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tillerman.core.permission.shell.programs.row import Row
from tillerman.core.permission.shell.programs.tables.archives import ROWS as ARCHIVES
from tillerman.core.permission.shell.programs.tables.builds import ROWS as BUILDS
from tillerman.core.permission.shell.programs.tables.compressors import ROWS as COMPRESSORS
from tillerman.core.permission.shell.programs.tables.containers import ROWS as CONTAINERS
from tillerman.core.permission.shell.programs.tables.coreutils import ROWS as COREUTILS
from tillerman.core.permission.shell.programs.tables.editors import ROWS as EDITORS
from tillerman.core.permission.shell.programs.tables.files import ROWS as FILES
from tillerman.core.permission.shell.programs.tables.git import ROWS as GIT
from tillerman.core.permission.shell.programs.tables.interpreters import ROWS as INTERPRETERS
from tillerman.core.permission.shell.programs.tables.network import ROWS as NETWORK
from tillerman.core.permission.shell.programs.tables.packages import ROWS as PACKAGES
from tillerman.core.permission.shell.programs.tables.search import ROWS as SEARCH
from tillerman.core.permission.shell.programs.tables.shells import ROWS as SHELLS
from tillerman.core.permission.shell.programs.tables.system import ROWS as SYSTEM
from tillerman.core.permission.shell.programs.tables.text import ROWS as TEXT
from tillerman.core.permission.shell.programs.tables.wrappers import ROWS as WRAPPERS

_FAMILIES = (
    ARCHIVES, BUILDS, COMPRESSORS, CONTAINERS, COREUTILS, EDITORS, FILES, GIT, INTERPRETERS,
    NETWORK, PACKAGES, SEARCH, SHELLS, SYSTEM, TEXT, WRAPPERS,
)  # fmt: skip


def _named() -> Iterator[tuple[str, Row]]:
    for family_rows in _FAMILIES:
        for row in family_rows:
            yield from ((name, row) for name in row.names.split("|"))


ROWS: Mapping[str, Row] = dict(_named())
WITH_SUBCOMMANDS = frozenset(name.partition(" ")[0] for name in ROWS if " " in name)


def family(base: str) -> str:
    """The name in the table: `python3.12` is python, `gcc-12` is gcc."""
    if base in ROWS:
        return base
    plain = base.rstrip("0123456789.").removesuffix("-")
    if plain in ROWS:
        return plain
    return "ld.so" if base.startswith(("ld-linux", "ld.so", "ld-musl")) else base
