"""Asks the MCP client's user for permission by elicitation, if the client supports it."""

from __future__ import annotations

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from tillerman.core.events import Answer, PermissionRequested
from tillerman.sessions.permissions.request_broker import Ask

LONGEST = 4_000  # characters of a command or file in the question

_ANSWERS = {
    "allow": Answer("allow"),
    "allow from now on": Answer("allow", remember="session"),
    "deny": Answer("deny", note="The user denied this."),
}
_FORM: types.ElicitRequestedSchema = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Allow it?", "enum": [*_ANSWERS]}},
    "required": ["answer"],
}


def asking(session: ServerSession) -> Ask | None:
    able = session.client_capabilities
    if able is None or able.elicitation is None or not session.can_send_request:
        return None

    async def ask(request: PermissionRequested) -> Answer | None:
        try:
            said = await session.elicit_form(_words(request), _FORM)
        except MCPError:
            return None  # others may still answer
        if said.action != "accept":
            return _ANSWERS["deny"]
        return _ANSWERS.get(str((said.content or {}).get("answer")))

    return ask


def _words(request: PermissionRequested) -> str:
    told = request.title
    for key in ("command", "content", "new_string"):
        if isinstance(text := request.input.get(key), str) and text not in told:
            cut = f"\n[{len(text) - LONGEST} more characters]" if len(text) > LONGEST else ""
            told += f"\n\n{text[:LONGEST]}{cut}"
    return told
