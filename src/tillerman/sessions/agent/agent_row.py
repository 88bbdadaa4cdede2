"""Updates the agent name in a session's row when the session switches to another agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tillerman.core.agent import Agent, SessionSpec
from tillerman.store.catalog import Catalog
from tillerman.store.session_row import SessionRow


class AgentRow:
    def __init__(
        self, catalog: Catalog, row: SessionRow, settings: Mapping[str, Any] | None
    ) -> None:
        self._catalog = catalog
        self._session = row.id
        self._agent = row.agent
        self._settings = None if settings is None else {**row.settings, **settings}

    def begins(self, agent: Agent, spec: SessionSpec) -> None:
        """Writes the new agent to the row and clears its native id, before its first event."""
        if agent.info.name == self._agent:
            return
        self._agent = agent.info.name
        settings = {} if self._settings is None else {"settings": self._settings}
        self._catalog.update(
            self._session,
            agent=self._agent,
            native_id=None,
            model=spec.model,
            mode=spec.mode,
            **settings,
        )
