"""Mount plans for spawning a program, including those known before its session exists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.workspace.protection.mount_plan import Mountable, mountable

if TYPE_CHECKING:
    from tillerman.sessions.run_settings import RunSettings


def early_mounts(cwd: Path, run_settings: RunSettings) -> dict[str, Any]:
    """Mounts for a program that starts before its session: those that need no policy.

    The session adds the rest.
    """
    if run_settings.enforcement.protected == "watch":
        return {}
    loosened = any(rule.verdict == "allow" and rule.paths for rule in run_settings.rules)
    plans = () if loosened else mountable(str(cwd))
    return mounts(plans, run_settings)


def mounts(plans: Sequence[Mountable], run_settings: RunSettings) -> dict[str, Any]:
    required = run_settings.enforcement.protected == "mounts"
    return {"mounts": {"plan": [plan.tree for plan in plans], "required": required}}
