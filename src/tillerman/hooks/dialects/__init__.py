"""Hook dialects: decode an agent's hook events, encode replies, write its hook config.

The dialect of an agent is the module `hook_dialect` of its package; this package has the parts that
several of them share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.agent_packages import agents_with, load_module
from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.hooks.dialects.dialect import HookDialect

_MODULE = "hook_dialect"


def agents_with_hooks() -> tuple[str, ...]:
    return agents_with(_MODULE)


def load(agent: str) -> HookDialect:
    """Loads the dialect of this agent only."""
    module = load_module(agent, _MODULE)
    if module is None:
        hint = f"those that have: {', '.join(agents_with_hooks())}"
        raise UsageError(f"tillerman does not support hooks of {agent}", hint=hint)
    dialect: HookDialect = getattr(module, "dialect", module)  # a module may be the dialect itself
    return dialect


def dialect_of(agent: str, payload: bytes) -> HookDialect:
    """The dialect of a payload, which may come from another CLI that runs this agent's hooks."""
    from tillerman.hooks.dialects.payload_codec import table_of

    dialect = load(agent)
    given = table_of(payload)
    for key, other in dialect.ALSO_RUN_BY.items() if isinstance(given, dict) else ():
        if key in given:
            return load(other)
    return dialect
