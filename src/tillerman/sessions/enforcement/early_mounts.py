"""The mounts of a program, as a spawn takes them; those that are known before its session is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.workspace.protection.mount_plan import Mountable, mountable

if TYPE_CHECKING:
    from tillerman.sessions.run_settings import RunSettings


def early_mounts(cwd: Path, terms: RunSettings) -> dict[str, Any]:
    """For the enforcement of a program that is started before its session is: what needs no policy.

    The session adds the rest to it.
    """
    if terms.enforcement.protected == "watch":
        return {}
    loosened = any(rule.verdict == "allow" and rule.paths for rule in terms.rules)
    plans = () if loosened else mountable(str(cwd))
    return mounts(plans, terms)


def mounts(plans: Sequence[Mountable], terms: RunSettings) -> dict[str, Any]:
    required = terms.enforcement.protected == "mounts"
    return {"mounts": {"plan": [plan.tree for plan in plans], "required": required}}
