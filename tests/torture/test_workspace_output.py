"""A command that writes 5 GB costs its server, its warden and its keeper no memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.supervision import kills
from tests.workspace.process_server import Server

WRITTEN = 5 << 30


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["head -c @n /dev/zero", "yes 'some line of text' | head -c @n"])
def test_five_gigabytes_of_output_take_no_memory(tmp_path: Path, source: str) -> None:
    server = Server(tmp_path, ["s"])
    server.ask("s", "run", "true", timeout=30)
    idle = _peak(server.process.pid)
    command = f"read go; {source.replace('@n', str(WRITTEN))}; read end"
    process = server.start("s", command, "async", stdin=True)
    keeper = kills._parent(process["pid"])
    helpers = {keeper: _peak(keeper), kills._parent(keeper): _peak(kills._parent(keeper))}
    server.ask("s", "write", process["id"], "go\n")
    seen = 0
    while seen < WRITTEN:
        now = server.ask("s", "changed", process["id"], seen, 60)
        assert now["stdout_bytes"] > seen
        seen = now["stdout_bytes"]
    assert seen == WRITTEN
    grown = {pid: _peak(pid) - before for pid, before in helpers.items()}
    server_grown = _peak(server.process.pid) - idle
    print(
        f"{source}: server +{server_grown >> 10} KB, helpers {[g >> 10 for g in grown.values()]} KB"
    )
    assert server_grown < 64 << 20
    assert max(grown.values()) < 8 << 20
    size = (tmp_path / "processes" / "s" / process["id"] / "stdout").stat().st_size
    assert now["stdout_kept"] <= size < now["stdout_kept"] + 200
    server.stop("close")


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) << 10
