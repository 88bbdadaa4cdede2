"""Which level is used where: probed, and never lowered without a report."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.supervision import kills
from tillerman.core.agent import Exit
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.client.supervision_levels import Level
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.linux.cgroup import Cgroup, NoCgroup, own_folder
from tillerman.supervision.protocol.launch_warden import command, launch

ROOT = os.geteuid() == 0

# Says, as JSON, which level a warden took and why, or how it was refused.
ASK = """
import asyncio, json, sys
from pathlib import Path
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.client.supervision_levels import probe

async def main(level, records):
    try:
        warden = await WardenClient.start(level=level, records=Path(records), marker="asked")
        child = await warden.spawn(["sh", "-c", "exit 3"], cwd="/", env={"PATH": "/usr/bin:/bin"})
        end = await child.wait()
        print(json.dumps([warden.level, list(warden.notes), end.code]))
        await warden.close()
    except SupervisionUnavailable as error:
        print(json.dumps(["refused", error.message, error.hint]))

asyncio.run(main(*sys.argv[1:]))
"""


def ask(stage: kills.Stage, level: str, *around: str) -> list[object]:
    """The level that a harness on that stage gets, started by the command `around`."""
    with kills.scratch(stage) as records:
        ran = subprocess.run(
            [*around, stage.python, "-c", ASK, level, str(records)],
            env={"PYTHONPATH": str(stage.source), "PATH": os.environ["PATH"]},
            user=stage.user,
            group=stage.user,
            extra_groups=None if stage.user is None else [],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            timeout=20,
        )
        assert list(records.iterdir()) == []
    messages: list[object] = json.loads(ran.stdout)
    return messages


async def test_auto_picks_the_highest_working_level(
    refusals: dict[Level, str | None], tmp_path: Path, marker: str
) -> None:
    warden = await WardenClient.start(records=tmp_path, marker=marker)
    expected = next(level for level, reason in refusals.items() if reason is None)
    refused = list(refusals)[: list(refusals).index(expected)]
    assert warden.level is expected
    assert [note.partition(":")[0] for note in warden.notes] == refused
    await warden.close()


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_root_gets_a_namespace(refusals: dict[Level, str | None]) -> None:
    if reason := refusals[Level.NAMESPACE]:
        pytest.skip(reason)
    assert ask(kills.HERE, "auto") == ["namespace", [], 3]


def test_an_ordinary_user_gets_no_namespace_in_which_ssh_would_refuse(
    ordinary_user: kills.Stage,
) -> None:
    level, notes, code = ask(ordinary_user, "auto")
    assert (level, code) == ("subreaper", 3) or (level, code) == ("cgroup", 3)
    assert isinstance(notes, list)
    assert notes[0].startswith("namespace: ")


def test_an_ordinary_user_can_request_a_namespace(ordinary_user: kills.Stage) -> None:
    if subprocess.run(["unshare", "-U", "true"], check=False).returncode:
        pytest.skip("no user namespaces here")
    level, notes, code = ask(ordinary_user, "namespace")
    assert (level, code) == ("namespace", 3)
    assert "ssh and sudo would refuse" in str(notes)


def test_an_unavailable_level_is_refused_and_auto_picks_the_next(
    ordinary_user: kills.Stage,
) -> None:
    without = (
        *("unshare", "--user", "--map-root-user", "sh", "-c"),
        'echo 0 > /proc/sys/user/max_pid_namespaces; exec "$@"',
        "sh",
    )
    if subprocess.run([*without, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespace to close the door in")
    refused, message, hint = ask(ordinary_user, "namespace", *without)
    assert refused == "refused"
    assert str(message).startswith("supervision level namespace is not available here: clone")
    assert 'set supervision = "auto"' in str(hint)
    level, notes, code = ask(ordinary_user, "auto", *without)
    assert (level != "namespace", code) == (True, 3)
    assert isinstance(notes, list)
    assert notes[0].startswith("namespace: clone")


@pytest.fixture
def delegated(ordinary_user: kills.Stage) -> Iterator[Cgroup]:
    """A control group that the ordinary user may divide, as systemd gives to a user's scope."""
    try:
        group = Cgroup.create(f"tillerman-test-{os.getpid()}")
    except (NoCgroup, OSError) as error:
        pytest.skip(f"no control group to give away: {error}")
    assert ordinary_user.user is not None
    for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(f"{group.folder}/{name}", ordinary_user.user, ordinary_user.user)
    yield group
    group.kill(5)
    group.remove()


@pytest.mark.skipif(not ROOT, reason="needs root to delegate")
def test_an_ordinary_user_in_a_delegated_group_gets_cgroup(
    ordinary_user: kills.Stage, delegated: Cgroup
) -> None:
    inside = (
        "sh",
        "-c",
        f'exec 3> {delegated.folder}/cgroup.procs; echo 0 >&3; exec 3>&-; exec "$@"',
    )
    # a shell of root's moves itself in, then becomes the user
    become = ("setpriv", f"--reuid={ordinary_user.user}", f"--regid={ordinary_user.user}")
    with kills.scratch(ordinary_user) as records:
        ran = subprocess.run(
            [
                *inside,
                "sh",
                *become,
                "--clear-groups",
                ordinary_user.python,
                "-c",
                ASK,
                "auto",
                records,
            ],
            env={"PYTHONPATH": str(ordinary_user.source), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
        )
    level, notes, code = json.loads(ran.stdout)
    assert (level, code, len(notes)) == ("cgroup", 3, 1)
    assert [path for path in Path(delegated.folder).iterdir() if path.is_dir()] == []


def test_an_unknown_level_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'strict' is not a supervision level: auto, namespace"):
        launch(level="strict", records=tmp_path, marker="m")
    with pytest.raises(ValueError, match="is not a marker"):
        launch(records=tmp_path, marker="../m")
    assert list(tmp_path.iterdir()) == []


async def test_an_unwritable_folder_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SupervisionUnavailable, match=r"the warden has ended.*Not a directory"):
        await WardenClient.start(records=tmp_path / "file", marker="m")


async def test_a_marker_in_use_is_refused(tmp_path: Path) -> None:
    first = await WardenClient.start(records=tmp_path, marker="same")
    with pytest.raises(SupervisionUnavailable, match="another warden holds this marker's lease"):
        await WardenClient.start(records=tmp_path, marker="same")
    await first.close()


BWRAP = ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--unshare-user"]


async def test_a_sandbox_of_the_program_works_as_it_did_outside(warden: WardenClient) -> None:
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    command = [*BWRAP, "sh", "-c", "exit 9"]
    outside = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    if outside.returncode != 9:
        pytest.skip(f"bubblewrap does not work here: {outside.stderr!r}")
    child = await warden.spawn(command, cwd="/", env={"PATH": os.environ["PATH"]}, stdin=False)
    async with asyncio.timeout(10):
        assert await child.wait() == Exit(9, None)


def test_the_warden_process_loads_little() -> None:
    """Its start delays every first answer."""
    show = "import sys; print(*sys.modules)"
    boot = command("warden.warden")
    boot[4] = boot[4].replace("main(*sys.argv[1:])", show)
    loaded = subprocess.run(boot, capture_output=True, text=True, check=True).stdout.split()
    heavy = {"asyncio", "contextlib", "enum", "json", "pathlib", "re", "signal", "socket", "typing"}
    assert "tillerman.supervision.warden.warden" in loaded
    assert heavy.intersection(loaded) == set()
    assert [name for name in loaded if name.startswith("tillerman.core")] == []


def test_the_own_cgroup_is_a_folder_with_members() -> None:
    try:
        folder = own_folder()
    except NoCgroup as error:
        pytest.skip(str(error))
    with suppress(PermissionError):
        assert os.getpid() in Cgroup(folder).members()


@pytest.mark.skipif(not ROOT, reason="needs a control group of its own")
def test_a_kill_during_the_probing_of_a_level_leaves_nothing_behind() -> None:
    try:
        Cgroup.create("tillerman-tried").remove()
    except (NoCgroup, OSError):
        pytest.skip("no control groups here")
    tried = (
        "from tillerman.supervision.warden.supervision_level import choose\n"
        "while True: choose('cgroup')"
    )
    for _ in range(2):
        prober = subprocess.Popen([sys.executable, "-c", tried], start_new_session=True)
        child = _only_child(prober.pid)
        prober.kill()
        prober.wait()
        end = time.monotonic() + 5
        while Path(f"/proc/{child}").exists():
            assert time.monotonic() < end, "the canary outlives whoever sent it"
            time.sleep(0.01)
        Cgroup(f"{own_folder()}/tillerman-canary-{prober.pid}").remove()


def _only_child(pid: int) -> int:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if found := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            return int(found[0])
    raise AssertionError("it never tried")
