"""Opens an ACP session and applies its settings, one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tillerman.agents.acp import failures, handshake
from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.acp.handshake import AgentCapabilities
from tillerman.agents.acp.settings import AcpSettingChange, AcpSettings
from tillerman.agents.decoding.fields import Table, text
from tillerman.agents.jsonrpc.peer import METHOD_NOT_FOUND, RpcError, RpcPeer, Said
from tillerman.core.agent import Mode, SessionSpec
from tillerman.core.errors import Unsupported
from tillerman.core.events import Notice
from tillerman.core.failure import Failure
from tillerman.core.wire import WireReply

Then = Callable[[Any, RpcError | None], Said]


class SessionSetup:
    """State of the session setup.

    `over` is called when a session is open, or when `failure` holds the reason why not; in that
    case `step` retries from there.
    """

    def __init__(
        self, dialect: AcpDialect, spec: SessionSpec, peer: RpcPeer, over: Callable[[], Said]
    ) -> None:
        self._dialect = dialect
        self._spec = spec
        self._peer = peer
        self._over = over
        self.abilities: AgentCapabilities | None = None
        self.session = ""
        self.settings = AcpSettings(dialect.row, spec)
        self.replaying = False  # while the history of a loaded or forked session arrives
        self.under_way = False
        self.ready = False
        self.failure: Failure | None = None

    def step(self) -> Said:
        self.under_way, self.failure = True, None
        if self.abilities is None:
            params = handshake.hello(self._dialect, self._spec)
            yield WireReply(self._peer.request("initialize", params, self._greeted))
        elif not self.session:
            yield from self._open(self.abilities)
        else:
            yield from self._set()

    def replayed(self) -> Said:
        self.replaying = False
        yield from self.step()

    def configure(self, model: str | None, mode: Mode | None) -> Said:
        """Applies the settings now, or during the setup."""
        row = self._dialect.row
        if model and row.model_stays:
            hint = (
                f"it would become {row.title}'s default model: resume the session with it instead"
            )
            raise Unsupported(row.name, "changing the model during a session", hint=hint)
        self.settings.want(model, mode)
        if self.ready:
            yield from self._set()

    def read(self, error: RpcError) -> Failure:
        return self._dialect.failure(error) or failures.failure(error, self._dialect.row)

    def _greeted(self, result: Any, error: RpcError | None) -> Said:
        if error:
            yield from self._fail(self.read(error))
        elif failure := handshake.wrong_version(result):
            yield from self._fail(failure)
        else:
            self.abilities = handshake.abilities(result)
            yield from self.step()

    def _open(self, can: AgentCapabilities) -> Said:
        call = handshake.session(self._dialect, self._spec, can)
        if isinstance(call, Failure):
            yield from self._fail(call)
            return
        self.replaying = call.method in ("session/load", "session/fork")

        def then(result: Any, error: RpcError | None) -> Said:
            fields = result if isinstance(result, dict) else {}
            self.session = text(fields, "sessionId") or str(call.params.get("sessionId", ""))
            if error and error.code == METHOD_NOT_FOUND and call.method == "session/resume":
                # The agent declares the capability but does not know the method.
                self.session = ""
                self.abilities = replace(can, sessions=can.sessions - {"resume"})
                yield from self.step()
                return
            if error or not self.session:
                self.session, self.replaying = "", False
                yield from self._fail(self._not_opened(error))
                return
            self.settings.opened(fields)
            if not self.replaying or self._dialect.row.replays == "before":
                yield from self.replayed()

        yield WireReply(self._peer.request(call.method, call.params, then))

    def _not_opened(self, error: RpcError | None) -> Failure:
        if error is None:
            why = "the agent opened a session without an id"
            return Failure(kind="agent_failed", message=why)
        resuming = self._spec.resume is not None
        common = failures.not_opened(error, self._dialect.row, resuming=resuming)
        own = self._dialect.failure(error)
        return own if own and own.kind != "agent_failed" else common

    def _set(self) -> Said:
        """Sets model, effort and mode. In an open session a refusal is only reported."""
        while what := self.settings.next():
            if change := self.settings.change(what, self.session):
                then = self._changed(change)
                yield WireReply(self._peer.request(change.method, change.params, then))
                return
            why = failures.lacking(f"choosing a {what}", self._dialect.row)
            if offered := self.settings.offered(what):
                wanted = f"{what} {self.settings.wanted(what)!r}"
                why = replace(
                    failures.lacking(wanted, self._dialect.row), hint=f"it offers {offered}"
                )
            if not self.ready:
                yield from self._fail(why)
                return
            self.settings.drop(what)
            yield Notice(level="error", kind="settings", text=why.message)
        self.under_way = False
        if not self.ready:
            self.ready = True
            yield from self._over()

    def _changed(self, change: AcpSettingChange) -> Then:
        def then(result: Any, error: RpcError | None) -> Said:
            if error is None:
                fields: Table = result if isinstance(result, dict) else {}
                events = list(self.settings.done(change, fields))
                yield from events if self.ready else ()
                yield from self._set()
                return
            why = _refused(change, self.read(error))
            if self.ready:
                self.settings.drop(change.what)
                yield Notice(level="error", kind="settings", text=why.message)
                yield from self._set()
            else:
                yield from self._fail(why)

        return then

    def _fail(self, why: Failure) -> Said:
        self.under_way, self.failure = False, why
        yield from self._over()


def _refused(change: AcpSettingChange, why: Failure) -> Failure:
    message = f"{change.what} {change.value!r} was refused: {why.message}"
    if change.what == "model" and why.kind == "agent_failed":
        hint = "choose another model with -m"
        return Failure(kind="model_not_found", message=message, hint=hint)
    return Failure(kind=why.kind, message=message, status=why.status, hint=why.hint)
