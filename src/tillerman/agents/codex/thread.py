"""The main Codex thread of a conversation: opening, turns, and queued prompts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from tillerman.agents.codex import failures
from tillerman.agents.codex.hook_requests import is_trusted
from tillerman.agents.codex.launch import greeting, opening
from tillerman.agents.codex.settings import CodexSettings
from tillerman.agents.decoding.fields import Table, table, text
from tillerman.agents.jsonrpc.peer import RpcError, RpcPeer, Said
from tillerman.core.agent import SessionSpec
from tillerman.core.events import AgentReady, Notice, TurnEnded, TurnStarted
from tillerman.core.wire import WireReply

Input = list[Table]
End = Callable[[TurnEnded], Said]
Then = Callable[[Any, RpcError | None], Said]

_UNHOOKED = "Codex does not run tillerman's hook: only calls that it asks about can be decided here"


class Thread:
    """The thread is requested together with `initialize`, which the app-server accepts.

    Prompts sent before it is open are queued; if it did not open, the next prompt requests it
    again. Input within a turn is queued until the turn has begun: before that Codex refuses it, and
    refuses an interrupt too. `end` reports the end of a turn.
    """

    def __init__(self, spec: SessionSpec, peer: RpcPeer, settings: CodexSettings, end: End) -> None:
        self.hooks: Table = {}  # of its config
        self.id = ""
        self.turn = ""  # id of the open turn, once it has begun
        self.working = False  # a turn is open
        self.greeted = False
        self._spec = spec
        self._peer = peer
        self._settings = settings
        self._end = end
        self._opening = False
        self._cancelled = False
        self._named = ""  # the turn in the response to turn/start
        self._over = ""  # the previous turn
        self._waiting: list[Input] = []

    # -- host to agent -----------------------------------------------------------------------

    def greet(self) -> list[Table]:
        return [
            self._peer.request("initialize", greeting(), self._greeted),
            self._peer.notify("initialized"),
            self._open(),
        ]

    def prompt(self, input: Input) -> list[Table]:
        if self.working and self.turn:
            return [self._steer(input)]
        first = not self.working
        self.working = True
        if first and self.id:
            return [self._start(input)]
        self._waiting.append(input)
        if self.id or self._opening:
            return []
        return [self._open()] if self.greeted else self.greet()

    def cancel(self) -> list[Table]:
        self._cancelled = self.working
        return [self.interrupt(self.id, self.turn)] if self.working and self.turn else []

    def interrupt(self, thread: str, turn: str) -> Table:
        params = {"threadId": thread, "turnId": turn}
        return self._peer.request("turn/interrupt", params, pass_over)

    def clean(self, thread: str, then: Then) -> Table:
        """Ends the commands of a thread."""
        return self._peer.request("thread/backgroundTerminals/clean", {"threadId": thread}, then)

    # -- agent to host -----------------------------------------------------------------------

    def wake(self) -> Said:
        """Activity of the agent: starts a turn if none is open."""
        if not self.working:
            self.working = True
            yield TurnStarted(origin="agent")

    def runs(self, turn: str) -> Said:
        """Marks the turn as begun, which the turn/start response does not; sends queued input."""
        turn = turn or self._named
        if self.turn or not turn or not self.working:
            return
        self.turn = turn
        for input in self._waiting:
            yield WireReply(self._steer(input))
        self._waiting.clear()
        if self._cancelled:
            yield WireReply(self.interrupt(self.id, turn))

    def completed(self, turn: str, end: TurnEnded, running: Collection[str]) -> Said:
        """Handles the end of a turn; `running`: threads with running commands."""
        ours = self.turn or self._named
        if not self.working or (turn and (turn == self._over or ours not in ("", turn))):
            return
        if end.reason != "cancelled" or not running:
            yield from self._end(end)
            return
        left = set(running)

        # An interrupt does not stop running commands; the turn is not over while they run.
        def cleaned(thread: str) -> Then:
            def then(result: Any, error: RpcError | None) -> Said:
                left.discard(thread)
                if not left and self.working:
                    yield from self._end(end)

            return then

        for thread in running:
            yield WireReply(self.clean(thread, cleaned(thread)))

    def rest(self) -> None:
        """Ends the turn."""
        self.working = self._cancelled = False
        self._over = self.turn or self._named or self._over
        self.turn = self._named = ""
        self._waiting.clear()

    # -- responses ---------------------------------------------------------------------------

    def _open(self) -> Table:
        self._opening = True
        method, params = opening(self._spec, self.hooks)
        return self._peer.request(method, params, self._opened)

    def _greeted(self, result: Any, error: RpcError | None) -> Said:
        self.greeted = error is None
        yield from ()

    def _opened(self, result: Any, error: RpcError | None) -> Said:
        self._opening = False
        answer = result if isinstance(result, dict) else {}
        thread = table(answer, "thread")
        self.id = text(thread, "id")
        if not self.id:
            why = error.message if error else "it returned no thread"
            yield from self._refused("opening the conversation", why)
            return
        self._settings.opened(answer)
        version = text(thread, "cliVersion") or None
        yield AgentReady(native_id=self.id, model=self._settings.model or None, version=version)
        if self.hooks:
            yield WireReply(self._peer.request("hooks/list", {"threadId": self.id}, _hooks_listed))
        if self._cancelled:
            yield from self._end(TurnEnded(reason="cancelled"))
        elif self._waiting:
            yield WireReply(self._start(self._waiting.pop(0)))

    def _start(self, input: Input) -> Table:
        params = {"threadId": self.id, "input": input, **self._settings.turn()}
        return self._peer.request("turn/start", params, self._started)

    def _started(self, result: Any, error: RpcError | None) -> Said:
        if error:
            yield from self._refused("the turn", error.message)
        elif isinstance(result, dict):
            self._named = text(table(result, "turn"), "id")

    def _steer(self, input: Input) -> Table:
        params = {"threadId": self.id, "expectedTurnId": self.turn, "input": input}

        def then(result: Any, error: RpcError | None) -> Said:
            if error and not self.working:  # too late for the turn: sent as a prompt
                yield from self.wake()
                yield WireReply(self._start(input))
            elif error:
                message = f"a message during the turn was rejected: {error.message}"
                yield Notice(level="warning", kind="session", text=message)

        return self._peer.request("turn/steer", params, then)

    def _refused(self, what: str, message: str) -> Said:
        """Fails the turn; without one there is nothing to report, and the first prompt retries."""
        if self.working:
            failure = failures.refusal(what, message)
            yield from self._end(TurnEnded(reason="failed", failure=failure))


def _hooks_listed(result: Any, error: RpcError | None) -> Said:
    if not is_trusted(result):
        yield Notice(level="error", kind="settings", text=_UNHOOKED)


def pass_over(result: Any, error: RpcError | None) -> Said:
    """Ignores the response to an interrupt or a note: the turn may be over."""
    yield from ()


def settings_update(thread: Thread, peer: RpcPeer, params: Table) -> Iterable[Table]:
    def then(result: Any, error: RpcError | None) -> Said:
        if error:
            yield Notice(level="error", kind="settings", text=error.message)

    if not thread.id:
        return []  # sent with the first turn
    return [peer.request("thread/settings/update", {"threadId": thread.id, **params}, then)]
