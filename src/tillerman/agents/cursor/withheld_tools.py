"""Selects the tools that are withheld from Cursor because they cannot be asked about.

In print mode the CLI approves its tools by itself, and only its hooks ask. Tools that the hooks do
not see, or all tools in a version that does not run our hooks, are withheld before the turn begins
if the preset would ask about or deny them. This is done twice: the tools are not offered to the
model, and the permissions of the CLI deny them. This cannot distinguish what is outside the
workspace, nor protect a file from an allowed command. A version that ignores both is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tillerman.core.agent import SessionSpec
from tillerman.core.permission import INSTRUCTIONS, PROTECTED, PROTECTED_PREFIX


class _Group(NamedTuple):
    title: str
    tools: tuple[str, ...]  # names in events, without `ToolCall`
    rules: tuple[str, ...]  # for `permissions.deny`


_COMMANDS = _Group("commands", ("shell", "writeShellStdin"), ("Shell(*)", "Shell(**)"))
_WRITES = _Group(
    "writes", ("edit", "write", "delete", "applyAgentDiff"), ("Write(**)", "Write(/**)")
)
_SERVERS = _Group("MCP", ("mcp", "readMcpResource"), ("Mcp(*:*)",))
_WEB = _Group("the web", ("webFetch", "webSearch", "fetch", "generateImage"), ("WebFetch(*)",))
_THE_REST = _Group(
    "any other tool",
    ("read", "grep", "glob", "ls", "semSearch", "readLints", "task", "updateTodos"),
    ("Read(**)", "Read(/**)"),
)
_SUBAGENTS = _Group("subagents", ("task",), ())
_UNASKED = ("writeShellStdin", "applyAgentDiff", "readMcpResource", "generateImage")
_WITHHELD: dict[str, tuple[_Group, ...]] = {
    "auto": (),
    "edits": (_COMMANDS, _SERVERS, _WEB),
    "ask": (_COMMANDS, _WRITES, _SERVERS, _WEB),
    "readonly": (_COMMANDS, _WRITES, _SERVERS, _WEB),
    "none": (_COMMANDS, _WRITES, _SERVERS, _WEB, _THE_REST),
}
_PLANNING = (_COMMANDS, _WRITES, _SERVERS)


class WithheldTools(NamedTuple):
    withheld: tuple[str, ...]  # names for users
    tools: tuple[str, ...]  # not offered to the model
    rules: tuple[str, ...]  # added to the user's deny rules

    @classmethod
    def of(cls, spec: SessionSpec, *, asked: bool) -> WithheldTools:
        """Selects the tools; `asked`: hooks send requests for all calls that they see."""
        if asked:
            return cls._besides_hooks(spec)
        groups = _WITHHELD.get(spec.approval.preset, _WITHHELD["none"])
        if spec.mode != "agent":
            groups += tuple(group for group in _PLANNING if group not in groups)
        rules = [rule for group in groups for rule in group.rules]
        rules += _named(PROTECTED) if _WRITES not in groups else ()
        if spec.approval.preset == "edits":
            rules += _named(INSTRUCTIONS)
        return cls(
            tuple(group.title for group in groups),
            tuple(tool for group in groups for tool in group.tools),
            tuple(rules),
        )

    @classmethod
    def _besides_hooks(cls, spec: SessionSpec) -> WithheldTools:
        unseen = () if spec.approval.preset == "auto" else (_WEB, _SUBAGENTS)
        groups = (*unseen, *(_PLANNING if spec.mode != "agent" else ()))
        tools = [tool for group in groups for tool in group.tools]
        return cls(
            tuple(group.title for group in unseen),
            tuple(dict.fromkeys([*tools, *_UNASKED])),
            tuple(rule for group in groups for rule in group.rules),
        )

    @property
    def commands(self) -> bool:
        return _COMMANDS.title not in self.withheld

    @property
    def writes(self) -> bool:
        return _WRITES.title not in self.withheld

    def notice(self, preset: str, *, asked: bool) -> str:
        """Text for users; "" if there is nothing to report."""
        if asked:
            names = " and ".join(self.withheld)
            message = f"Cursor has no hook for {names}: disabled (approve = {preset})"
            return message if names else ""
        if not self.withheld:
            return (
                "Cursor does not ask for approval here: everything but writes to protected files is"
                " allowed, also outside the workspace"
            )
        *others, last = self.withheld
        names = f"{', '.join(others)} and {last}"
        reads = last != _THE_REST.title
        return f"Cursor cannot ask for approval here: {names} are disabled (approve = {preset})" + (
            "; reads outside the workspace are not" if reads else ""
        )


def _named(names: frozenset[str]) -> Iterator[str]:
    for name in sorted(names):
        yield f"Write(**/{name})"
        yield f"Write(**/{name}/**)"
        if name.endswith(".md"):
            yield f"Write(**/{name.removesuffix('.md').upper()}.md)"
    if names is PROTECTED:
        yield f"Write(**/{PROTECTED_PREFIX}*)"
