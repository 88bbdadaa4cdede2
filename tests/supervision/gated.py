"""Runs programs whose execs are checked, as a session would, and reports their results.

In this process by `Gated`, or as another user: the same file, run as a script, reads requests as
one JSON list from standard input and prints the results.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tillerman.core.permission import Rule
from tillerman.supervision.client.child_processes import ChildProcess
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.exec_gate.settings import ExecRefused, GateState, Wanted, gate_settings

if TYPE_CHECKING:
    from tests.supervision import kills

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOADER = next(iter(sorted(Path("/lib64").glob("ld-linux*.so*"))), Path("/lib/ld-linux.so.2"))


# leaves the file $RAN
STUB = """
#include <fcntl.h>
#include <stdlib.h>
__attribute__((used)) static const char id[] = "@id";
int main(void) {
    char *path = getenv("RAN");
    return path && open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) >= 0 ? 0 : 3;
}
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str
    refused: list[str]


def deny(*commands: str, **more: Any) -> Rule:
    return Rule("no", "deny", commands=commands, **more)


def may_use(program: str) -> bool:
    """Root may use all; these do not work for other users, or not under "no new privileges"."""
    return os.geteuid() == 0 or program not in ("sudo", "unshare")


def build(path: Path, source: str, *options: str) -> Path:
    words = ["gcc", "-O1", *options, "-x", "c", "-", "-o", str(path)]
    subprocess.run(words, input=source, text=True, check=True, capture_output=True)
    return path


class Gated:
    """A warden whose programs are checked with these rules."""

    def __init__(
        self, warden: WardenClient, rules: Sequence[Rule], wanted: Wanted, path: str
    ) -> None:
        self.warden = warden
        self.path = path
        self.refused: list[ExecRefused] = []
        self.states: list[bool] = []
        settings = gate_settings(wanted, rules=rules, path=path)
        self.enforcement = {"exec": settings} if settings else {}
        warden.watch_execs(self._reported)

    def _reported(self, report: ExecRefused | GateState) -> None:
        if isinstance(report, ExecRefused):
            self.refused.append(report)
        else:
            self.states.append(report.enforced)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        records: Path,
        *rules: Rule,
        level: str = "auto",
        wanted: Wanted = "on",
        path: str = PATH,
    ) -> AsyncIterator[Gated]:
        warden = await WardenClient.start(level=level, records=records, marker=uuid.uuid4().hex)
        try:
            yield cls(warden, rules, wanted, path)
        finally:
            await warden.close()

    async def start(
        self, argv: Sequence[str], cwd: Path | str = "/", env: Mapping[str, str] = {}
    ) -> ChildProcess:
        return await self.warden.spawn(
            argv,
            cwd=cwd,
            env={"PATH": self.path, "HOME": str(cwd), **env},
            stdin=False,
            enforcement=self.enforcement,
        )

    async def run(
        self, argv: Sequence[str] | str, cwd: Path | str = "/", env: Mapping[str, str] = {}
    ) -> Ran:
        """Runs it to its end; a text is for `sh -c`."""
        words = ["/bin/sh", "-c", argv] if isinstance(argv, str) else argv
        seen = len(self.refused)
        child = await self.start(words, cwd, env)
        out, err = await asyncio.gather(_read(child.stdout), _read(child.stderr))
        async with asyncio.timeout(30):
            exit = await child.wait()
        code = -exit.signal if exit.signal else exit.code or 0
        return Ran(code, out, err, [one.command for one in self.refused[seen:]])

    def gate_pid(self) -> int:
        """The pid of the gate process, by its name."""
        for entry in Path("/proc").iterdir():
            try:
                text = (entry / "stat").read_text() if entry.name.isdigit() else ""
            except OSError:
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            if name == "tillerman-gate" and int(rest.split()[1]) == self.warden.pid:
                return int(entry.name)
        raise LookupError("there is no gate")


async def _read(number: int) -> str:
    text = b""
    os.set_blocking(number, True)
    async with asyncio.timeout(30):
        while part := await asyncio.to_thread(os.read, number, 65536):
            text += part
    os.close(number)
    return text.decode(errors="replace")


def run_as(
    stage: kills.Stage, folder: Path, rules: Sequence[Rule], texts: Sequence[str], **more: Any
) -> list[Any]:
    """Each text by `sh -c`, as the user of this stage: its `Ran`, or why it was not started."""
    script = stage.source.parent / "tests/supervision/gated.py"
    become = []
    if stage.user is not None:
        ids = (f"--reuid={stage.user}", f"--regid={stage.user}", "--clear-groups")
        become = ["setpriv", *ids]
    request = {
        "folder": str(folder),
        "rules": [[rule.name, rule.verdict, list(rule.commands)] for rule in rules],
        "texts": list(texts),
        **more,
    }
    done = subprocess.run(
        [*become, stage.python, "-P", str(script)],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        env={"PATH": PATH, "PYTHONPATH": str(stage.source), "HOME": str(folder)},
        check=True,
    )
    results: list[Any] = json.loads(done.stdout)
    return results


async def _serve(request: dict[str, Any]) -> list[Any]:
    folder = Path(request["folder"])
    rules = [Rule(name, verdict, commands=tuple(each)) for name, verdict, each in request["rules"]]
    results: list[Any] = []
    level, wanted = request.get("level", "auto"), request.get("wanted", "on")
    async with Gated.open(folder / "records", *rules, level=level, wanted=wanted) as gated:
        for text in request["texts"]:
            try:
                results.append(await gated.run(text, folder))
            except Exception as error:
                results.append([type(error).__name__, str(error)])
    return results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_serve(json.load(sys.stdin)))))
