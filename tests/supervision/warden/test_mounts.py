"""Mounts in a keeper's namespace, with a real kernel: what a program can no longer do."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tillerman.core.agent import Exit
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.client.child_processes import ChildProcess
from tillerman.supervision.client.supervision_levels import Level
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.protocol.launch_warden import launch, spawn_early

PATH = {"PATH": os.environ["PATH"]}
SECRET, GOOD = "canary-5f2c", "as the user wrote it\n"


@pytest.fixture(autouse=True)
def _only_where_there_are_namespaces(refusals: dict[Level, str | None]) -> None:
    if reason := refusals[Level.NAMESPACE]:
        pytest.skip(reason)


@pytest.fixture
async def warden(tmp_path: Path, marker: str) -> AsyncIterator[WardenClient]:
    started = await WardenClient.start(
        level="namespace", records=tmp_path / "records", marker=marker
    )
    yield started
    await started.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    for path, text in {
        ".claude/settings.json": GOOD,
        ".mcp.json": GOOD,
        ".env": SECRET,
        "secrets/key": SECRET,
        ".gitignore": ".env\nsecrets/\n",
        "main.py": "pass\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    identity = "-c user.name=a -c user.email=a@b"
    script = f"git init -q -b main && git add .gitignore main.py && git {identity} commit -qm one"
    subprocess.run(["sh", "-c", script], cwd=root, check=True)
    return root


def plan(root: Path, **also: list[bytes]) -> list[tuple[bytes, ...]]:
    pinned = [b".git"]
    readonly = [b".git/hooks", b".claude", b".mcp.json", b".no-such-name"]
    hidden = [b".env", b"secrets"]
    return [(os.fsencode(root), pinned, readonly + also.get("readonly", []), hidden)]


async def shell(
    warden: WardenClient, root: Path, text: str, **how: object
) -> tuple[str, ChildProcess]:
    """All its output, after its end."""
    enforcement = {"mounts": {"plan": plan(root), **how}}
    child = await warden.spawn(
        ["sh", "-c", f"exec 2>&1; {text}"], cwd=root, env=PATH, enforcement=enforcement
    )
    return await read_all(child), child


# With limits for the command alone, its process is forked early too; else it is spawned later.
LIMITED = (((resource.RLIMIT_FSIZE, 1 << 30),), None, None, None, ())


async def commands(
    warden: WardenClient, root: Path, texts: Sequence[str], rules: object = None
) -> list[str]:
    """The output files of commands; all but the first are run by a prestarted keeper."""
    wrote = []
    for number, text in enumerate(texts):
        folder = root.with_name(f"output-{number}")
        folder.mkdir()
        job = await warden.run(
            ["sh", "-c", f"exec 2>&1; {text}"],
            cwd=root,
            env=PATH,
            name=folder.name,
            folder=folder,
            cap=1 << 20,
            rules=rules,
            enforcement={"mounts": {"plan": plan(root)}},
        )
        async with asyncio.timeout(30):
            await job.wait()
        wrote.append((folder / "stdout").read_text())
        await asyncio.to_thread(await_spare, warden.pid)
    return wrote


def await_spare(pid: int) -> None:
    """Waits until the command's keeper has ended, and the next one runs."""
    deadline = time.monotonic() + 20
    seen = ""
    while seen.count(" ") != 1 or seen != Path(f"/proc/{pid}/task/{pid}/children").read_text():
        assert time.monotonic() < deadline
        seen = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        time.sleep(0.05)


async def read_all(child: ChildProcess) -> str:
    os.set_blocking(child.stdout, True)
    text = b""
    async with asyncio.timeout(30):
        while part := await asyncio.to_thread(os.read, child.stdout, 65536):
            text += part
        await child.wait()
    child.close_pipes()
    return os.fsdecode(text)


def untouched(root: Path) -> bool:
    hooks = sorted(path.name for path in (root / ".git/hooks").iterdir())
    return (
        (root / ".claude/settings.json").read_text() == GOOD
        and (root / ".mcp.json").read_text() == GOOD
        and (root / ".env").read_text() == SECRET
        and (root / "secrets/key").read_text() == SECRET
        and all(name.endswith(".sample") for name in hooks)
    )


_HANDLE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(8 + 128)
ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
mount = ctypes.c_int()
libc.name_to_handle_at(-100, b".mcp.json", handle, ctypes.byref(mount), 0)
root = os.open("/", os.O_RDONLY)
number = libc.open_by_handle_at(root, handle, os.O_RDWR)
print("opened", number, os.strerror(ctypes.get_errno()))
if number >= 0: os.write(number, b"evil")
"""
_CHROOT = """
import os
os.mkdir("deep"); os.chroot("deep")
for _ in range(30): os.chdir("..")
os.chroot("."); open(os.environ["ROOT"] + "/.mcp.json", "w").write("evil")
"""
_CLONE_TREE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
number = libc.syscall(428, -100, b".", 1)
print("cloned", number, os.strerror(ctypes.get_errno()))
if number >= 0: print(open(f"/proc/self/fd/{number}/.env").read())
"""
_ATTACKS = {
    "redirect": "echo evil > .mcp.json; echo evil > .git/hooks/post-commit; cat .env secrets/key",
    "rename over": "echo evil > x; mv -f x .mcp.json; mv -f x .env; mv x .claude/settings.json",
    "remove": "rm -rf .mcp.json .claude .git/hooks .env secrets",
    "rename away": "mv .git .git2; mv .git/hooks h; mv .claude c; mv .env e; mv secrets s",
    "move the parent": 'cd ..; mv workspace w; cat w/.env; echo e > w/.mcp.json; mv w workspace',
    "hard link": "ln .env x; ln -f main.py .mcp.json; ln .mcp.json y; echo evil > y; cat x",
    "symbolic link": "ln -sf main.py .mcp.json; ln -s .env x; cat x; cat /proc/self/cwd/.env",
    "unmount": "umount .env; umount -l .git/hooks; cat .env; echo evil > .git/hooks/x",
    "remount": "mount -o remount,rw,bind .git/hooks; echo evil > .git/hooks/x",
    "bind elsewhere": "mkdir m; mount --bind / m; cat m$PWD/.env; mount --bind . m; cat m/.env",
    "new mount namespace": "unshare -m sh -c 'umount .env; cat .env'",
    "user namespace": (
        "unshare -Urm sh -c 'umount .env; umount -l .env; mount -o remount,rw,bind .git/hooks;"
        " mkdir m; mount --bind . m && cat m/.env; mount --rbind . m && umount m/.env; cat m/.env;"
        " echo evil > .git/hooks/x; echo evil > m/.git/hooks/x'"
    ),
    "overlay": (
        "mkdir m u w; unshare -Urm sh -c 'mount -t overlay o -o lowerdir=.,upperdir=u,workdir=w m"
        " && cat m/.env'"
    ),
    "another's namespace": "nsenter -t 1 -m cat .env; nsenter -t 1 -a cat .env",
    "the keeper's files": (
        "cat /proc/1/root$PWD/.env /proc/1/cwd/.env; for n in /proc/1/fd/*; do"
        " cat $n$PWD/.env $n/.env; done"
    ),
    "the keeper's memory": (
        "head -c 1 /proc/1/mem; gdb -p 1 -batch -ex 'call (int)umount(\".env\")'; cat .env"
    ),
    "file handle": f"{sys.executable} -c '{_HANDLE}'",
    "chroot": f"ROOT=$PWD {sys.executable} -c '{_CHROOT}'",
    "cloned tree": f"{sys.executable} -c '{_CLONE_TREE}'",
    "device node": "mknod d b 8 0; mknod c c 1 1; cat d c; chmod 777 .env; cat .env",
    "own namespace of pids": "unshare -Urpf --mount-proc sh -c 'cat .env; echo e > .mcp.json'",
    "sandbox of its own": (
        "bwrap --unshare-user --unshare-pid --bind / / --dev /dev --proc /proc"
        " sh -c 'cat .env; echo evil > .mcp.json; echo evil > .git/hooks/x'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", _ATTACKS)
async def test_no_way_around_the_mounts_works(
    attack: str, warden: WardenClient, workspace: Path
) -> None:
    reported, _ = await shell(warden, workspace, f"{_ATTACKS[attack]}; true")
    assert SECRET not in reported
    assert untouched(workspace)


@pytest.mark.parametrize("rules", [None, LIMITED], ids=["spawned", "forked"])
async def test_no_way_around_the_mounts_of_a_keeper_that_was_started_early(
    rules: object, warden: WardenClient, workspace: Path
) -> None:
    wrote = await commands(warden, workspace, ["true", *_ATTACKS.values()], rules)
    assert not [text for text in wrote if SECRET in text]
    assert untouched(workspace)


@pytest.mark.parametrize("start", ["with pipes", "spawned", "forked"])
async def test_the_program_keeps_other_capabilities_and_gives_up_six_sets(
    start: str, warden: WardenClient, workspace: Path
) -> None:
    text = "grep Cap /proc/self/status"
    if start == "with pipes":
        reported, _ = await shell(warden, workspace, text)
    else:
        rules = LIMITED if start == "forked" else None
        _, reported = await commands(warden, workspace, ["true", text], rules)
    sets = {line.split(":")[0]: int(line.split()[1], 16) for line in reported.splitlines()}
    dropped = sum(1 << number for number in (2, 16, 17, 19, 21, 22, 27, 39))
    assert {name: value & dropped for name, value in sets.items()} == dict.fromkeys(sets, 0)
    if os.geteuid() == 0:
        assert sets["CapEff"] & 0b11  # chown and dac_override: root's files stay root's


async def test_debuggers_and_the_agents_own_sandbox_still_work(
    warden: WardenClient, workspace: Path
) -> None:
    if not all(map(shutil.which, ("strace", "bwrap"))):
        pytest.skip("no strace or no bwrap")
    reported, _ = await shell(
        warden,
        workspace,
        "strace -f -o log sh -c 'echo traced'; bwrap --unshare-user --unshare-pid --unshare-net"
        " --ro-bind / / --dev /dev --proc /proc --bind $PWD $PWD --die-with-parent"
        " sh -c 'echo boxed > new; cat new'",
    )
    assert reported == "traced\nboxed\n"


async def test_nothing_of_ours_is_seen_by_git_and_ordinary_git_works(
    warden: WardenClient, workspace: Path
) -> None:
    git = "git -c user.name=a -c user.email=a@b"
    reported, _ = await shell(
        warden,
        workspace,
        f"git status --short; echo x > new.py; git add -A && {git} commit -qm two && git stash -q;"
        " git switch -qc other && git remote add o /nowhere && git config user.name Ann"
        " && git gc -q && git worktree add -q ../wt && git clone -q . ../clone"
        " && git status --short && git ls-tree -r --name-only HEAD",
    )
    assert reported.splitlines() == [
        *("?? .claude/", "?? .mcp.json"),
        *(".claude/settings.json", ".gitignore", ".mcp.json", "main.py", "new.py"),
    ]
    assert untouched(workspace)


async def test_what_is_renamed_over_from_outside_is_mounted_again(
    warden: WardenClient, workspace: Path
) -> None:
    child = await warden.spawn(
        ["sh", "-c", "while read line; do sh -c \"$line\" 2>&1; echo done; done"],
        cwd=workspace, env=PATH, enforcement={"mounts": {"plan": plan(workspace)}},
    )  # fmt: skip
    assert child.stdin is not None
    (workspace / "draft").write_text("the user's own edit\n")
    (workspace / "draft").rename(workspace / ".mcp.json")
    assert await warden.mount(plan(workspace)) == {}
    os.write(child.stdin, b"echo evil > .mcp.json\n")
    os.set_blocking(child.stdout, True)
    message = ""
    while "done" not in message:
        message += os.fsdecode(await asyncio.to_thread(os.read, child.stdout, 1000))
    assert "Read-only file system" in message
    assert (workspace / ".mcp.json").read_text() == "the user's own edit\n"
    await child.kill()
    assert await child.wait() == Exit(None, signal.SIGKILL)
    child.close_pipes()


async def test_a_link_is_reported_and_refused_where_mounts_are_required(
    warden: WardenClient, workspace: Path
) -> None:
    (workspace / ".mcp.json").unlink()
    (workspace / ".mcp.json").symlink_to("main.py")
    _, child = await shell(warden, workspace, "true")
    assert child.mount_failures == {str(workspace / ".mcp.json"): "it is a symbolic link"}
    with pytest.raises(SupervisionUnavailable, match=r"\.mcp\.json cannot be mounted"):
        await shell(warden, workspace, "true", required=True)


async def test_a_link_on_the_way_is_not_followed(warden: WardenClient, workspace: Path) -> None:
    elsewhere = workspace.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "settings.json").write_text("of somebody else\n")
    (workspace / "linked").symlink_to(elsewhere)
    wanted = plan(workspace, readonly=[b"linked/settings.json"])
    child = await warden.spawn(
        ["sh", "-c", f"echo changed > {elsewhere}/settings.json"],
        cwd=workspace, env=PATH, enforcement={"mounts": {"plan": wanted}},
    )  # fmt: skip
    assert (await read_all(child), list(child.mount_failures)) == (
        "",
        [str(workspace / "linked/settings.json")],
    )
    assert (elsewhere / "settings.json").read_text() == "changed\n"


async def test_a_prestarted_program_gets_protections_known_later(
    tmp_path: Path, marker: str, workspace: Path
) -> None:
    launched = launch(level="namespace", records=tmp_path / "records", marker=marker)
    argv = ["sh", "-c", "read line; echo evil > .mcp.json; cat .env"]
    early = spawn_early(
        launched, argv, cwd=workspace, env=PATH, enforcement={"mounts": {"plan": []}}
    )
    warden = await WardenClient.attach(early)
    child = await warden.spawn(
        argv, cwd=workspace, env=PATH, enforcement={"mounts": {"plan": plan(workspace)}}
    )
    assert child.stdin is not None
    await warden.mount([])  # the keeper has answered what came before
    os.write(child.stdin, b"go\n")
    assert await read_all(child) == ""
    assert untouched(workspace)
    await warden.close()


async def test_commands_with_output_files_are_held_to_it_too(
    warden: WardenClient, workspace: Path, tmp_path: Path
) -> None:
    """The first has a new keeper, the second uses the prestarted one."""
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        job = await warden.run(
            ["sh", "-c", "echo evil > .mcp.json; mount; umount .env; cat .env"],
            cwd=workspace, env=PATH, name=name, folder=folder, cap=1 << 20,
            enforcement={"mounts": {"plan": plan(workspace)}},
        )  # fmt: skip
        await job.wait()
        await asyncio.sleep(0.1)  # the spare is made meanwhile
        assert SECRET not in (folder / "stdout").read_text()
        assert "Read-only file system" in (folder / "stderr").read_text()
    assert untouched(workspace)


def test_without_the_system_calls_it_reports_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from tillerman.supervision.warden import mounts

    def no_call(*_: object) -> int:
        ctypes.set_errno(38)
        return -1

    monkeypatch.setattr(mounts, "_call", no_call)
    assert mounts.refusal() == "the kernel cannot clone mounts: Function not implemented"
