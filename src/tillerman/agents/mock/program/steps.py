"""The steps of a script, and the values that they need."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .script import Step

_NUMBER = (int, float)
_NAMES = {str: "a text", _NUMBER: "a number", list: "a list", dict: "an object", int: "a number"}
_NAMES[int, str] = "a number or a text"
_LISTS: dict[str, type | tuple[type, ...]] = {  # their elements
    "plan": (str, dict),
    "question": dict,
    "parallel": dict,
    "steps": dict,
}
NEEDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "say": {},
    "think": {},
    "read": {},
    "write": {"text": str},
    "edit": {"old": str, "new": str},
    "run": {},
    "call": {},
    "present": {},
    "parallel": {"parallel": list},
    "task": {"steps": list},
    "background": {"steps": list},
    "plan": {"plan": list},
    "question": {"question": list},
    "usage": {"usage": dict},
    "notice": {},
    "listen": {"listen": _NUMBER},
    "fail": {},
    "stop": {"stop": object},
    "repeat": {"repeat": int, "steps": list},
    "sleep": {"sleep": _NUMBER},
    "hang": {"hang": object},
    "deaf": {"deaf": object},
    "crash": {"crash": (int, str)},
    "flood": {"flood": int},
    "orphan": {"orphan": _NUMBER},
    "send": {"send": object},
    "line": {},
    "stderr": {},
}
"""Keys by step; the step's own key is a text unless it is among them."""


def check(step: Step) -> None:
    """Raises a ValueError that names the step and what is wrong with it."""
    shown = json.dumps(step)
    name = next((key for key in step if key in NEEDS), None) if isinstance(step, dict) else None
    if name is None:
        raise ValueError(f"no such step: {shown}; steps are {', '.join(NEEDS)}")
    for key, kind in {name: str, **NEEDS[name]}.items():
        if key not in step:
            raise ValueError(f"incomplete step: {shown}: it needs `{key}`")
        value = step[key]
        if not isinstance(value, kind):
            raise ValueError(f"wrong step: {shown}: `{key}` must be {_NAMES[kind]}")
        element = _LISTS.get(key, object)
        if isinstance(value, list) and not all(isinstance(one, element) for one in value):
            raise ValueError(f"wrong step: {shown}: `{key}` must be a list of objects")
    if name == "call" and "." not in step["call"]:
        raise ValueError(f"wrong step: {shown}: `call` must be SERVER.TOOL")
