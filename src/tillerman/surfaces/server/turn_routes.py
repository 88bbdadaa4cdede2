"""Routes of turns: prompt, steer, queue, cancel, configure; results and diffs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tillerman.core.errors import UsageError
from tillerman.core.events import Diff
from tillerman.core.transcript.blocks import Turn, calls_of
from tillerman.core.transcript.transcript import Transcript
from tillerman.core.transcript.turn_result import Result, result
from tillerman.sessions.export.patch import patch
from tillerman.store.session_row import SessionRow
from tillerman.surfaces.server import bodies
from tillerman.surfaces.server.error_responses import HttpError
from tillerman.surfaces.server.route import LARGE_BODY, Call, Route
from tillerman.surfaces.server.session_routes import row_of, shown, transcript


async def prompt(call: Call[None, bodies.PromptBody]) -> bodies.PromptSent:
    body, service = call.body, call.service
    row = row_of(service, call.path["session"])
    files = [one.file() for one in body.files]
    since = service.harness.sessions.log.last_seq(row.id)
    await service.owned.prompt(row, body.text, files, body.when_busy, body.given(), body.linger)
    return bodies.PromptSent(row.id, since)


async def cancel(call: Call[None, None]) -> None:
    row = row_of(call.service, call.path["session"])
    await call.service.harness.attach(row.id).cancel()


async def configure(call: Call[None, bodies.ChangeSettings]) -> None:
    row, body = row_of(call.service, call.path["session"]), call.body
    if body.model is body.mode is body.approve is None:
        raise UsageError("no setting is given", hint="model, mode or approve")
    await call.service.harness.attach(row.id).configure(
        model=body.model, mode=body.mode, approve=body.approve
    )


async def hand_off(call: Call[None, bodies.HandOff]) -> SessionRow:
    row, body = row_of(call.service, call.path["session"]), call.body
    await call.service.owned.hand_off(row, body.agent, body.given(), body.linger, body.prompt)
    return shown(row_of(call.service, row.id))


async def turn(call: Call[None, None]) -> Result:
    row = row_of(call.service, call.path["session"])
    return await asyncio.to_thread(lambda: result(*_turn(call, row)))


async def diffs(call: Call[None, None]) -> bodies.TurnDiffs:
    row = row_of(call.service, call.path["session"])

    def made() -> bodies.TurnDiffs:
        _, turn = _turn(call, row)
        return bodies.TurnDiffs(
            session=row.id,
            turn=turn.number,
            files=turn.files,
            files_left_out=turn.files_left_out,
            diffs=tuple(_diffs(turn)),
        )

    return await asyncio.to_thread(made)


def _turn(call: Call[None, None], row: SessionRow) -> tuple[Transcript, Turn]:
    found = transcript(call.service, row)
    number = call.path["turn"]
    for turn in found.turns:
        if turn.number == number:
            return found, turn
    raise HttpError(
        404,
        "turn_not_found",
        f"session {row.id} has no turn {number}",
        hint=f"turns are numbered from 1; it has {row.turns}",
    )


def _diffs(turn: Turn) -> Iterator[bodies.TurnDiff]:
    for call in calls_of(turn.blocks):
        if call.state == "completed":
            for part in call.content:
                if isinstance(part, Diff):
                    yield bodies.TurnDiff(call.call_id, part.path, "\n".join(patch(part)))


ROUTES = (
    Route(
        "POST",
        "/sessions/{session}/turns",
        "drive",
        "Prompt a session, whichever process runs it; if none does, the service resumes it",
        prompt,
        body=bodies.PromptBody,
        response=bodies.PromptSent,
        status=202,
        body_limit=LARGE_BODY,
    ),
    Route(
        "POST",
        "/sessions/{session}/cancel",
        "drive",
        "Cancel the running turn, and drop queued prompts",
        cancel,
        status=204,
    ),
    Route(
        "PATCH",
        "/sessions/{session}/settings",
        "drive",
        "Change model, mode or approval of a running session",
        configure,
        body=bodies.ChangeSettings,
        status=204,
    ),
    Route(
        "POST",
        "/sessions/{session}/handoff",
        "drive",
        "Continue a session with another agent",
        hand_off,
        body=bodies.HandOff,
        response=SessionRow,
    ),
    Route(
        "GET",
        "/sessions/{session}/turns/{turn:number}",
        "read",
        "The result of a turn",
        turn,
        response=Result,
    ),
    Route(
        "GET",
        "/sessions/{session}/turns/{turn:number}/diffs",
        "read",
        "What a turn changed",
        diffs,
        response=bodies.TurnDiffs,
    ),
)
