"""The agents of a session: the first that can be used starts, the others stand by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bridle.agents.support import refuse_open_gate
from bridle.core.errors import BridleError, NotUsable
from bridle.core.events import Notice
from bridle.sessions.relay import Relay
from bridle.sessions.terms import Order, Rules

if TYPE_CHECKING:
    from bridle.availability import Availability


class Team:
    """`order` makes what an agent of that name would run."""

    def __init__(
        self,
        names: Sequence[str],
        order: Callable[[str], Order],
        availability: Callable[[], Availability],
    ) -> None:
        self._names = names
        self._order = order
        self._availability = availability

    async def first(self, rules: Rules) -> tuple[Order, Relay]:
        """Of one agent alone nothing is asked: its own start tells what is wrong."""
        if len(self._names) == 1:
            return self._order(self._names[0]), Relay(rules)
        self._availability().look(self._names)
        passed_over: list[BridleError] = []
        for place, name in enumerate(self._names):
            try:
                made = await self._called(name)
            except BridleError as error:
                passed_over.append(error)
                continue
            notices = tuple(_passed_over(error, made) for error in passed_over)
            terms = replace(made.terms, notices=(*notices, *made.terms.notices))
            return made._replace(terms=terms), self.standing_by(self._names[place + 1 :], rules)
        raise _nobody(passed_over)

    def standing_by(self, names: Sequence[str], rules: Rules) -> Relay:
        return Relay(rules, names, self._called)

    async def _called(self, name: str) -> Order:
        made = self._order(name)
        await self._availability().check(name)
        refuse_open_gate(made.agent.info, made.spec)
        return made


def _passed_over(error: BridleError, made: Order) -> Notice:
    text = f"{error.message}: {made.agent.info.name} is used instead"
    return Notice(level="warning", kind="fallback", text=text)


def _nobody(errors: Sequence[BridleError]) -> BridleError:
    """The first one's error, since that agent was wanted most, with what is wrong with the rest."""
    first, *rest = errors
    message = "; ".join([first.message, *(error.message for error in rest)])
    error = NotUsable(getattr(first, "agent", ""), message, hint=first.hint)
    error.exit_code = first.exit_code
    return error
