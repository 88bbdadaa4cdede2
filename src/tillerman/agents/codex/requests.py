"""Approval requests and questions of Codex's app-server, and the responses to them.

Each request is stored with a function that builds its response. A refusal has no field for a
reason, so the reason is sent to the turn as user input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tillerman.agents.codex.thread_items.items import Items
from tillerman.agents.codex.thread_items.shell_items import command_of
from tillerman.agents.decoding import mcp_elicitation
from tillerman.agents.decoding.fields import Table, storable, strings, table, tables, text
from tillerman.agents.decoding.questions import question
from tillerman.agents.jsonrpc.peer import RpcPeer, RpcRequest
from tillerman.core import tools
from tillerman.core.events import (
    ALLOW,
    DENY,
    Answer,
    Event,
    Notice,
    Option,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
)
from tillerman.core.wire import WireReply

ALWAYS = Option("always", "Allow for this session", "always")
# Requests that need a host with its own tools, tokens or clock, and those of the protocol before
# threads.
REFUSED = frozenset(
    {"item/tool/call", "account/chatgptAuthTokens/refresh", "attestation/generate",
     "currentTime/read", "applyPatchApproval", "execCommandApproval"}
)  # fmt: skip

_Put = Callable[[Answer], Any]  # builds the result


class _Open(NamedTuple):
    asked: RpcRequest
    put: _Put
    call_id: str


class CodexRequests:
    """Open requests; `may_run` returns whether a call is already allowed unchanged."""

    def __init__(
        self, cwd: str, peer: RpcPeer, items: Items, may_run: Callable[[str], bool]
    ) -> None:
        self._may_run = may_run
        self._cwd = cwd
        self._peer = peer
        self._items = items
        self._open: dict[str, _Open] = {}

    def receive(self, asked: RpcRequest, parent: str | None) -> Iterator[Event | WireReply] | None:
        """Handles a request; None for an unknown method."""
        match asked.method:
            case "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" if (
                self._is_plain_call(asked.params) and self._may_run(text(asked.params, "itemId"))
            ):
                return iter([WireReply(self._peer.result(asked, _decision(Answer("allow"))))])
            case "item/commandExecution/requestApproval":
                return self._command(asked, parent)
            case "item/fileChange/requestApproval":
                return self._patch(asked, parent)
            case "item/permissions/requestApproval":
                return self._permissions(asked, parent)
            case "mcpServer/elicitation/request":
                return self._elicitation(asked, parent)
            case "item/tool/requestUserInput":
                return self._questions(asked, parent)
        return None

    def answer(self, request_id: str, answer: Answer) -> tuple[list[Table], str, str]:
        """The response messages and, for a refusal with a note, the thread and turn it is for."""
        request = self._open.pop(request_id, None)
        if request is None:
            return [], "", ""
        params = request.asked.params
        if answer.option == "deny":
            self._items.denied.add(request.call_id)
        messages = [self._peer.result(request.asked, request.put(answer))]
        if answer.option != "deny" or not answer.note:
            return messages, "", ""
        return messages, text(params, "threadId"), text(params, "turnId")

    def resolved(self, request_id: object) -> Iterator[Event]:
        """Handles `serverRequest/resolved`, which is also sent for withdrawn requests."""
        if not isinstance(request_id, str | int | float):
            return
        key = RpcRequest(request_id, "", {}).key
        if self._open.pop(key, None):
            yield _withdrawn(key)

    def drop(self) -> Iterator[Event]:
        """Withdraws all open requests at the end of the turn."""
        for key in list(self._open):
            del self._open[key]
            yield _withdrawn(key)

    def _is_plain_call(self, params: Table) -> bool:
        """Whether the request is for the call alone, without a sandbox escape or network."""
        more = ("reason", "networkApprovalContext", "additionalPermissions", "grantRoot")
        return not any(params.get(key) for key in more) and text(params, "kind") != "writeStdin"

    # -- kinds of requests -------------------------------------------------------------------

    def _command(self, asked: RpcRequest, parent: str | None) -> Iterator[Event]:
        params = asked.params
        input: Table = {"command": command_of(params)}
        for key in ("cwd", "networkApprovalContext", "additionalPermissions"):
            if params.get(key):
                input[key] = storable(params[key])
        title = tools.title("Bash", input, cwd=self._cwd)
        if host := text(table(params, "networkApprovalContext"), "host"):
            title = f"{title} reaches {host}"
        if text(params, "kind") == "writeStdin":
            title = f"Type into {title}"
        yield self._ask(asked, _decision, "Bash", title, input, (), parent)

    def _patch(self, asked: RpcRequest, parent: str | None) -> Iterator[Event]:
        calls = self._items.calls(text(asked.params, "itemId"))
        paths = [path for call in calls for path in call.paths]
        if root := text(asked.params, "grantRoot"):
            paths.append(root)
        kinds = {call.tool for call in calls}
        tool = kinds.pop() if len(kinds) == 1 else "MultiEdit"
        input = calls[0].input if len(calls) == 1 else {"paths": paths}
        title = calls[0].title if len(calls) == 1 else _several(paths, self._cwd)
        yield self._ask(asked, _decision, tool, title, input, tuple(paths), parent)

    def _permissions(self, asked: RpcRequest, parent: str | None) -> Iterator[Event]:
        wanted = table(asked.params, "permissions")
        files = table(wanted, "fileSystem")
        paths = tuple(strings(files, "write"))
        names = [key for key in wanted if wanted[key]]

        def put(answer: Answer) -> Table:
            granted = {key: wanted[key] for key in names} if answer.option != "deny" else {}
            scope = "session" if answer.option == "always" else "turn"
            return {"permissions": granted, "scope": scope}

        # More write access is decided like a write there.
        tool = "Write" if paths or files.get("entries") else "Permissions"
        title = f"More permissions: {', '.join(names) or 'none'}"
        yield self._ask(asked, put, tool, title, storable(wanted), paths, parent)

    def _elicitation(self, asked: RpcRequest, parent: str | None) -> Iterator[Event | WireReply]:
        params = asked.params
        server, meta = text(params, "serverName"), table(params, "_meta")
        if text(meta, "codex_approval_kind") == "mcp_tool_call":
            yield self._mcp(asked, server, meta, parent)
        elif fields := mcp_elicitation.questions(params):

            def put(answer: Answer) -> Table:
                if answer.option == "deny":
                    return _elicited("decline")
                return _elicited("accept", mcp_elicitation.content(params, answer.answers or {}))

            self._open[asked.key] = _Open(asked, put, "")
            yield QuestionAsked(request_id=asked.key, questions=tuple(fields), parent=parent)
        else:
            yield WireReply(self._peer.result(asked, _elicited("decline")))
            message = " ".join(filter(None, (text(params, "message"), text(params, "url"))))
            text_ = f"MCP server {server!r} was refused a request to the user: {message}"
            yield Notice(level="warning", kind="session", text=text_, parent=parent)

    def _mcp(
        self, asked: RpcRequest, server: str, meta: Table, parent: str | None
    ) -> Event | WireReply:
        arguments = storable(table(meta, "tool_params"))
        call_id = self._items.asking(server, arguments) or ""
        if call_id and self._may_run(call_id):
            return WireReply(self._peer.result(asked, _elicited("accept", {}, None)))
        names = [call.name for call in self._items.calls(call_id)] or [server]
        lasts = "session" in strings(meta, "persist")

        def put(answer: Answer) -> Table:
            if answer.option == "deny":
                return _elicited("decline")
            lasting = {"persist": "session"} if answer.option == "always" else None
            return _elicited("accept", {}, lasting)

        self._open[asked.key] = _Open(asked, put, call_id)
        return PermissionRequested(
            request_id=asked.key,
            tool="MCP",
            title=tools.title("MCP", {}, name=names[0]),
            input=arguments,
            call_id=call_id or None,
            options=(ALLOW, ALWAYS, DENY) if lasts else (ALLOW, DENY),
            reason=text(asked.params, "message"),
            parent=parent,
        )

    def _questions(self, asked: RpcRequest, parent: str | None) -> Iterator[Event]:
        given = tables(asked.params, "questions")

        def put(answer: Answer) -> Table:
            parsed = answer.answers or {}
            found = {text(one, "id"): parsed.get(text(one, "question")) for one in given}
            if answer.option == "deny":
                found = {}
            return {"answers": {id: {"answers": [words]} for id, words in found.items() if words}}

        self._open[asked.key] = _Open(asked, put, "")
        yield QuestionAsked(
            request_id=asked.key, questions=tuple(question(one) for one in given), parent=parent
        )

    def _ask(
        self,
        asked: RpcRequest,
        put: _Put,
        tool: str,
        title: str,
        input: Table,
        paths: tuple[str, ...],
        parent: str | None,
    ) -> Event:
        call_id = text(asked.params, "itemId")
        self._open[asked.key] = _Open(asked, put, call_id)
        return PermissionRequested(
            request_id=asked.key,
            tool=tool,
            title=title,
            input=input,
            paths=paths,
            call_id=call_id or None,
            options=(ALLOW, ALWAYS, DENY),
            reason=text(asked.params, "reason"),
            parent=parent,
        )


def _decision(answer: Answer) -> Table:
    words = {"allow": "accept", "always": "acceptForSession"}
    return {"decision": words.get(answer.option, "decline")}


def _elicited(action: str, content: Table | None = None, meta: Table | None = None) -> Table:
    return {"action": action, "content": content, "_meta": meta}


def _several(paths: list[str], cwd: str) -> str:
    edits = [{"file_path": path} for path in paths]
    return tools.title("MultiEdit", {"edits": edits}, cwd=cwd)


def _withdrawn(key: str) -> RequestAnswered:
    return RequestAnswered(request_id=key, answer=Answer("deny"), by="withdrawn")
