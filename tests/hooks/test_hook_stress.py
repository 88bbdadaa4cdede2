"""Many shims at once: no request is lost or answered twice, and each shim gets its own answer."""

from __future__ import annotations

import asyncio
import random
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.hooks.hook_desk import Open
from tillerman.hooks.server import HookAsked, HookReply
from tillerman.hooks.shim_builder import Shim

SHIMS = 50


class Desk:
    """Answers in any order, some at once, some later, and tries to answer each twice."""

    def __init__(self) -> None:
        self.payloads: Counter[bytes] = Counter()
        self.ids: set[str] = set()
        self.first: Counter[bool] = Counter()
        self.second: Counter[bool] = Counter()
        self._chance = random.Random(50)
        self._waiting: list[HookAsked] = []

    def receive(self, asked: HookAsked) -> None:
        self.payloads[asked.payload] += 1
        self.ids.add(asked.id)
        self._waiting.append(asked)
        delay = self._chance.choice([0, 0, 0.001, 0.005, 0.02])
        asyncio.get_running_loop().call_later(delay, self._answer_any)

    def _answer_any(self) -> None:
        asked = self._waiting.pop(self._chance.randrange(len(self._waiting)))
        code = 2 if asked.payload.endswith(b"7") else 0
        reply = HookReply(b"heard " + asked.payload + b"\n", asked.payload + b"\n", code)
        self.first[asked.reply(reply)] += 1
        self.second[asked.reply(HookReply(b"twice\n"))] += 1


def lane(shim: Shim, folder: Path, number: int, count: int, reported: Path) -> list[str]:
    """One shim after the other, each with its own text; their output and exit codes."""
    ask = shlex.join([*shim.words, str(folder), "cursor", "preToolUse", "120"])
    script = f"""
i=0
while [ $i -lt {count} ]; do
  printf '%s' "{number}-$i" | {ask} 2>>{reported}.err
  echo "exit $?"
  i=$((i + 1))
done >{reported}
"""
    return ["/bin/sh", "-c", script]


async def stress(opened: Open, shim: Shim, folder: Path, count: int) -> None:
    desk = Desk()
    overdue: list[int | None] = []
    server = await opened(desk.receive, overdue=overdue.append)
    lanes = [
        await asyncio.create_subprocess_exec(
            *lane(shim, server.folder, number, count, folder / f"lane-{number}"),
            stdin=subprocess.DEVNULL,
        )
        for number in range(SHIMS)
    ]
    async with asyncio.timeout(900):
        assert set(await asyncio.gather(*(each.wait() for each in lanes))) == {0}
    total = SHIMS * count
    names = [f"{number}-{at}" for number in range(SHIMS) for at in range(count)]
    assert desk.payloads == Counter(name.encode() for name in names)
    assert len(desk.ids) == total
    assert (desk.first, desk.second) == (Counter({True: total}), Counter({False: total}))
    for number in range(SHIMS):
        mine = [f"{number}-{at}" for at in range(count)]
        ended = [f"heard {name}\nexit {2 if name[-1] == '7' else 0}\n" for name in mine]
        assert (folder / f"lane-{number}").read_text() == "".join(ended)
        assert (folder / f"lane-{number}.err").read_text() == "".join(f"{name}\n" for name in mine)
    assert overdue == []


async def test_fifty_shims_at_once_each_get_their_own_answers(
    opened: Open, shim: Shim, tmp_path: Path
) -> None:
    await stress(opened, shim, tmp_path, 4 if shim.kind == "compiled" else 1)


@pytest.mark.torture
async def test_ten_thousand_requests_from_fifty_shims_at_once(
    opened: Open, shim: Shim, tmp_path: Path
) -> None:
    await stress(opened, shim, tmp_path, 200)
