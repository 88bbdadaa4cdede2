"""Watchers get session notifications through pipes: at once, without polling, and without
blocking."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

from tillerman.sessions.remote.session_notifications import SessionNotifications, notify


async def received(notifications: SessionNotifications, count: int) -> list[str | None]:
    reported: list[str | None] = []
    async with asyncio.timeout(10):
        async for session in notifications:
            reported.append(session)
            if len(reported) == count:
                break
    return reported


async def test_every_watcher_is_notified_of_every_session_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "watchers"
    with SessionNotifications(folder) as first, SessionNotifications(folder) as second:
        for name in ("one", "two", "three"):
            notify(folder, name)
        assert await received(first, 3) == ["one", "two", "three"]
        assert await received(second, 3) == ["one", "two", "three"]
    assert list(folder.iterdir()) == []


async def test_without_watchers_nothing_is_created(tmp_path: Path) -> None:
    notify(tmp_path / "watchers", "one")
    assert list(tmp_path.iterdir()) == []


def test_the_pipe_of_a_killed_watcher_is_removed(tmp_path: Path) -> None:
    code = (
        "import signal, sys; from pathlib import Path\n"
        "from tillerman.sessions.remote.session_notifications import SessionNotifications\n"
        "import asyncio\n"
        "async def main():\n"
        "    with SessionNotifications(Path(sys.argv[1])):\n"
        "        print('ready', flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    folder = tmp_path / "watchers"
    watcher = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE)
    assert watcher.stdout
    assert watcher.stdout.readline() == b"ready\n"
    notify(folder, "one")
    assert len(list(folder.iterdir())) == 1
    watcher.send_signal(signal.SIGKILL)
    watcher.communicate()
    notify(folder, "two")
    assert list(folder.iterdir()) == []


async def test_a_sleeping_watcher_blocks_no_session_and_then_reads_everything(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "watchers"
    with SessionNotifications(folder) as notifications:
        began = time.monotonic()
        for number in range(20_000):
            notify(folder, f"session-{number:06}")
        assert time.monotonic() - began < 10
        reported = await received(notifications, 1_000)
        assert reported[0] == "session-000000"
        assert None in reported


async def test_a_file_that_is_not_a_pipe_is_left(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("keep")
    folder = tmp_path / "watchers"
    with SessionNotifications(folder) as notifications:
        (folder / "file").write_text("keep")
        (folder / "link").symlink_to(outside)
        (folder / "folder").mkdir()
        notify(folder, "one")
        assert await received(notifications, 1) == ["one"]
    assert (outside.read_text(), (folder / "file").read_text()) == ("keep", "keep")
