"""The conversation's own thread: how it is opened, its turns, and the words that wait for them."""

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

_UNHOOKED = "Codex does not run our hook: only what it asks about by itself can be decided here"


class Thread:
    """It is asked for together with the greeting, which the app-server takes in one go.

    What is prompted before it is open waits for it; if it did not open, the next prompt asks for
    it again. Words within a turn wait until it has begun: before, Codex refuses them, and also to
    interrupt it. `end` tells the end of a turn.
    """

    def __init__(self, spec: SessionSpec, peer: RpcPeer, settings: CodexSettings, end: End) -> None:
        self.hooks: Table = {}  # of its config
        self.id = ""
        self.turn = ""  # the id of the open one, once it has begun
        self.working = False  # a turn is open
        self.greeted = False
        self._spec = spec
        self._peer = peer
        self._settings = settings
        self._end = end
        self._opening = False
        self._cancelled = False
        self._named = ""  # the turn that was promised
        self._over = ""  # the turn before
        self._waiting: list[Input] = []

    # -- host to agent -----------------------------------------------------------------------

    def greet(self) -> list[Table]:
        return [
            self._peer.request("initialize", greeting(), self._met),
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
        """The agent works: a turn is open, or opens by itself."""
        if not self.working:
            self.working = True
            yield TurnStarted(origin="agent")

    def runs(self, turn: str) -> Said:
        """The turn has begun, which its answer does not say yet: what waited for it goes out."""
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
        """`running`: threads with commands that have not ended."""
        ours = self.turn or self._named
        if not self.working or (turn and (turn == self._over or ours not in ("", turn))):
            return
        if end.reason != "cancelled" or not running:
            yield from self._end(end)
            return
        left = set(running)

        # An interrupt leaves running commands alone; the turn is not over while they work.
        def cleaned(thread: str) -> Then:
            def then(result: Any, error: RpcError | None) -> Said:
                left.discard(thread)
                if not left and self.working:
                    yield from self._end(end)

            return then

        for thread in running:
            yield WireReply(self.clean(thread, cleaned(thread)))

    def rest(self) -> None:
        """The turn is over."""
        self.working = self._cancelled = False
        self._over = self.turn or self._named or self._over
        self.turn = self._named = ""
        self._waiting.clear()

    # -- answers to what was sent ------------------------------------------------------------

    def _open(self) -> Table:
        self._opening = True
        method, params = opening(self._spec, self.hooks)
        return self._peer.request(method, params, self._opened)

    def _met(self, result: Any, error: RpcError | None) -> Said:
        self.greeted = error is None
        yield from ()

    def _opened(self, result: Any, error: RpcError | None) -> Said:
        self._opening = False
        answer = result if isinstance(result, dict) else {}
        thread = table(answer, "thread")
        self.id = text(thread, "id")
        if not self.id:
            why = error.message if error else "it named no thread"
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
            if error and not self.working:  # it came too late, and is a prompt after all
                yield from self.wake()
                yield WireReply(self._start(input))
            elif error:
                said = f"words within the turn were refused: {error.message}"
                yield Notice(level="warning", kind="session", text=said)

        return self._peer.request("turn/steer", params, then)

    def _refused(self, what: str, message: str) -> Said:
        """Before anybody prompts there is nobody to tell: the first prompt will ask again."""
        if self.working:
            failure = failures.refusal(what, message)
            yield from self._end(TurnEnded(reason="failed", failure=failure))


def _hooks_listed(result: Any, error: RpcError | None) -> Said:
    if not is_trusted(result):
        yield Notice(level="error", kind="settings", text=_UNHOOKED)


def pass_over(result: Any, error: RpcError | None) -> Said:
    """Of an interrupt, and of a note: the turn they were for may be over."""
    yield from ()


def settings_update(thread: Thread, peer: RpcPeer, params: Table) -> Iterable[Table]:
    def then(result: Any, error: RpcError | None) -> Said:
        if error:
            yield Notice(level="error", kind="settings", text=error.message)

    if not thread.id:
        return []  # the first turn tells them
    return [peer.request("thread/settings/update", {"threadId": thread.id, **params}, then)]
