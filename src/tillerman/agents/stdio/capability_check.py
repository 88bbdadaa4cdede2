"""Rejects sessions that need features or permission checks that the agent does not support."""

from __future__ import annotations

from collections.abc import Collection

from tillerman.core.agent import AgentInfo, SessionSpec
from tillerman.core.errors import GateNotEnforced, Unsupported
from tillerman.core.tools import ToolClass

# before every call, if any call is to be asked about or denied
MUST_ASK: tuple[ToolClass, ...] = ("write", "shell")
_RECORDED = frozenset({"replay"})  # reports calls that ran earlier


def refuse(info: AgentInfo, spec: SessionSpec) -> None:
    refuse_unsupported(info, spec)
    refuse_open_gate(info, spec)


def refuse_unsupported(info: AgentInfo, spec: SessionSpec) -> None:
    asked = {
        "model": (spec.model, "choosing a model"),
        "modes": (spec.mode != "agent", f"{spec.mode} mode"),
        "resume": (spec.resume, "resuming a conversation"),
        "fork": (spec.fork, "forking a conversation"),
        "effort": (spec.effort, "reasoning effort"),
        "system": (spec.system, "a system prompt"),
        "folders": (spec.folders, "additional folders"),
        "mcp": (spec.tools.servers, "MCP servers"),
        "tools": (spec.tools.allowed or spec.tools.denied, "lists of tools"),
        "schema": (spec.output_schema, "an output schema"),
        "limits": (
            spec.limits.turns is not None or spec.limits.cost is not None,
            "limits on turns and cost",
        ),
    }
    for word, (wanted, feature) in asked.items():
        if wanted and word not in info.can:
            raise Unsupported(
                info.name, feature, hint=f"`tillerman agents {info.name}` lists what it supports"
            )
    if spec.effort and info.efforts and spec.effort not in info.efforts:
        hint = f"it supports {', '.join(info.efforts)}"
        raise Unsupported(info.name, f"an effort of {spec.effort!r}", hint=hint)
    if spec.tools.only and info.can.isdisjoint({"tools", "permissions"}):
        hint = "it does not request approval either: use another agent, or another profile"
        raise Unsupported(info.name, "a list of tools", hint=hint)


def refuse_open_gate(
    info: AgentInfo, spec: SessionSpec, asks: Collection[ToolClass] | None = None
) -> None:
    """Rejects an agent that does not declare that it asks: it is only advisory.

    `asks`: what its process declares.
    """
    if spec.approval.preset == "auto" or spec.approval.accept_advisory:
        return
    if undeclared := undeclared_asks(info, asks):
        raise GateNotEnforced(info.name, spec.approval.preset, undeclared)


def watched_classes(
    info: AgentInfo, spec: SessionSpec, asks: Collection[ToolClass]
) -> Collection[ToolClass]:
    """The classes of which no call may run unasked.

    An agent that declares that it has no tools may run none at all, but where nothing is enforced.
    """
    if info.runs_tools or info.name in _RECORDED:
        return asks
    enforced = spec.approval.preset != "auto" and not spec.approval.accept_advisory
    return MUST_ASK if enforced else asks


def undeclared_asks(info: AgentInfo, asks: Collection[ToolClass] | None = None) -> list[ToolClass]:
    """The tool classes that the agent should ask about but does not declare."""
    declared = set(info.asks) if asks is None else {*info.asks} & {*asks}
    return [kind for kind in MUST_ASK if info.runs_tools and kind not in declared]
