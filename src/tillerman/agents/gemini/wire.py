"""ACP wire of Gemini CLI: the common wire, and retries decoded from stderr."""

from __future__ import annotations

from collections.abc import Iterable

from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.wire import AcpWire
from tillerman.agents.gemini.retries import Retries
from tillerman.core.agent import SessionSpec
from tillerman.core.events import Event


class GeminiWire(AcpWire):
    def __init__(self, dialect: AcpDialect, spec: SessionSpec) -> None:
        super().__init__(dialect, spec)
        self._retries = Retries()

    def decode_stderr(self, line: str) -> Iterable[Event]:
        notice = self._retries.read(line)
        return [notice] if notice else []
