"""Signs in to and out of an agent with its native command, on the user's terminal."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import TextIO

from tillerman.core.errors import CANCELLED, AgentError
from tillerman.harness.agent_admin import DESKTOP, AgentAdmin
from tillerman.surfaces.exit_codes import NOT_READY
from tillerman.surfaces.rendering.agent_reports import signed_in


class SignInFailed(AgentError):
    exit_code = NOT_READY


async def run(management: AgentAdmin, agent: str, words: Sequence[str], reported: TextIO) -> None:
    """Runs the command attached to the terminal. `KeyboardInterrupt`: the user cancelled it."""
    driver, output = management.agent(agent), shown(management, agent, words)
    left = False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal left
        left = True

    before = signal.signal(signal.SIGINT, leave)  # Ctrl-C is for the agent's command
    try:
        print(f"running `{output}`; it may open your browser", file=reported, flush=True)
        environment = management.environment(driver, DESKTOP)
        running = await asyncio.create_subprocess_exec(*words, env=environment)
        if left:  # SIGINT came before the process started
            with suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGINT)  # `send_signal` may reap it before `wait`
        code = await running.wait()
    except OSError as error:
        raise AgentError(
            agent,
            f"{words[0]} cannot be run: {error.strerror}",
            hint="check its permissions, or install it again",
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)
    if code in (-signal.SIGINT, CANCELLED):
        raise KeyboardInterrupt
    if code < 0:
        raise AgentError(
            agent,
            f"`{output}` was terminated by signal {-code}",
            hint="try again, or run it in another terminal",
        )
    if code:
        raise AgentError(agent, f"`{output}` exited with {code}", hint=driver.info.sign_in)


async def signed_in_now(management: AgentAdmin, agent: str) -> str:
    """Checks the account after a sign-in and describes it in a sentence."""
    report = await management.report(agent)
    if report.account and not report.account.signed_in:
        raise SignInFailed(agent, f"{agent} is still not signed in", hint=report.account.hint)
    return (
        f"{agent} is signed in {signed_in(report)}".rstrip() if report.account else f"{agent}: done"
    )


async def signed_out_now(management: AgentAdmin, agent: str) -> str:
    report = await management.report(agent)
    if report.account and report.account.signed_in:
        hint = "unset the variable" if report.account.method == "variable" else ""
        raise AgentError(agent, f"{agent} is still signed in {signed_in(report)}", hint=hint)
    return f"{agent} is signed out"


def shown(management: AgentAdmin, agent: str, words: Sequence[str]) -> str:
    return shlex.join([management.agent(agent).info.binary or words[0], *words[1:]])
