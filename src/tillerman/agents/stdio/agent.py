"""Agent class for any CLI that exchanges JSON lines over stdio, built from a Wire."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from tillerman.agents.stdio.capability_check import refuse
from tillerman.core.agent import AgentInfo, Conversation, Host, SessionSpec
from tillerman.core.errors import AgentNotInstalled
from tillerman.core.wire import Launch, Wire

INTERRUPT_GRACE = 5.0  # seconds

WireFactory = Callable[[SessionSpec], Wire]


class StdioAgent:
    """`grace`: seconds that an interrupt may take to end a turn, and then SIGTERM."""

    def __init__(
        self, info: AgentInfo, wire: WireFactory, *, grace: float = INTERRUPT_GRACE
    ) -> None:
        self.info = info
        self.wire = wire
        self._grace = grace

    def program(self, spec: SessionSpec) -> Launch | None:
        """The command started when a conversation opens; None if it depends on the prompt."""
        wire = self.wire(spec)
        return wire.launch(spec, None) if wire.lifetime == "session" else None

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        # Local import: asyncio is slow to import, and a program may be started before it is loaded.
        from tillerman.agents.stdio.conversation import StdioConversation
        from tillerman.agents.stdio.per_turn_conversation import PerTurnConversation

        refuse(self.info, spec)
        wire = self.wire(spec)
        if wire.lifetime == "turn":
            return PerTurnConversation(self.info, wire, spec, host, self._grace)
        conversation = StdioConversation(self.info, wire, spec, host, self._grace)
        await conversation.start()
        return conversation


def found(
    info: AgentInfo, spec: SessionSpec, launch: Launch, find: Callable[[str], str | None]
) -> Launch:
    """The launch with the path of its program and the arguments that the user adds."""
    binary = str(spec.native.options.get("binary") or launch.argv[0])
    path = find(binary)
    if path is None:
        raise AgentNotInstalled(info.name, binary=binary, hint=info.install)
    return replace(launch, argv=[path, *launch.argv[1:], *spec.native.flags])
