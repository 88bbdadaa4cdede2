"""Checks a prompt before it is sent: by the program's callback and the user's check command.

Some agents have a hook for this, which does not fire everywhere; this check applies to all agents.
"""

from __future__ import annotations

from pathlib import Path

from tillerman.core.agent import Prompt
from tillerman.core.errors import PromptRefused
from tillerman.core.session_options import as_prompt
from tillerman.sessions.agent.connection import AgentConnection
from tillerman.sessions.program_callbacks import ProgramCallbacks
from tillerman.sessions.runner.user_command import run

LONGEST = 60.0  # seconds


class PromptCheck:
    def __init__(
        self, command: str, callbacks: ProgramCallbacks, cwd: Path, connection: AgentConnection
    ) -> None:
        self._command = command
        self._callbacks = callbacks
        self._cwd = cwd
        self._connection = connection

    async def check(self, prompt: Prompt) -> Prompt:
        """The prompt to send; raises `PromptRefused` unless the command runs and succeeds."""
        prompt = as_prompt(await self._callbacks.prompt(prompt.text), prompt.files)
        if not self._command:
            return prompt
        input = prompt.text.encode("utf-8", "replace")
        try:
            host = self._connection.host
            ran = await run(host, self._command, cwd=self._cwd, limit=LONGEST, input=input)
        except TimeoutError:
            raise PromptRefused(self._command, f"it exceeded {LONGEST:g} s") from None
        except OSError as error:
            raise PromptRefused(self._command, f"it could not be run: {error}") from None
        if not ran.exit.clean:
            raise PromptRefused(self._command, ran.said or ran.how)
        return prompt
