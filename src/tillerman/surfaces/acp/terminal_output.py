"""Output of a command for editors that draw a terminal: the `_meta` members they agreed on."""

from __future__ import annotations

from tillerman.core.json_fields import Table


class TerminalOutput:
    """Our events repeat the whole output or its end; the editor's terminal wants what is new."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._shown = ""

    @property
    def content(self) -> Table:
        return {"type": "terminal", "terminalId": self._id}

    def begin(self, cwd: str) -> Table:
        return {"terminal_info": {"terminal_id": self._id, "cwd": cwd}}

    def more(self, output: str, *, final: bool) -> Table:
        if output.startswith(self._shown):
            data = output[len(self._shown) :]
        else:
            data = f"\n{output}" if final else ""
        if not data:
            return {}
        self._shown += data
        return {"terminal_output": {"terminal_id": self._id, "data": data}}

    def end(self, outcome: str) -> Table:
        code = {"completed": 0, "failed": 1}.get(outcome)
        return {"terminal_exit": {"terminal_id": self._id, "exit_code": code, "signal": None}}
