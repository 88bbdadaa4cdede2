"""The service as a program: one per user, its state, detached turns, and its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.conftest import Bench, wait_until
from tests.surfaces.server.service_desk import Desk, lines_of

pytestmark = pytest.mark.timeout(180)

HELLO = json.dumps([{"say": "Hello there."}])
ASKS = json.dumps([{"say": "I write."}, {"write": "a.txt", "text": "x\n"}, {"say": "Done."}])
HANGS = json.dumps([{"say": "one two"}, {"hang": True}])


@pytest.fixture
def alone(bench: Bench) -> Iterator[Bench]:
    """A machine whose service, if a test starts one, ends with the test."""
    yield bench
    file = bench.home.parent / "tillerman/state/server/service.json"
    if file.exists():
        done = bench.run("serve", "--stop", "--force")
        assert done.returncode == 0, done.stderr


def test_its_files_are_private_and_it_tells_where_it_listens(desk: Desk) -> None:
    assert stat.S_IMODE(desk.folder.stat().st_mode) == 0o700
    for file in (desk.folder / "token", Path(desk.record["socket"])):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = desk.bench.run("serve", "--status", "--json")
    state = json.loads(shown.stdout)
    assert (shown.returncode, state["running"], state["url"]) == (0, True, desk.record["url"])
    again = desk.bench.run("serve", "--port", "0")
    assert again.returncode == 2
    assert "already running" in again.stderr


def test_nothing_listens_beyond_loopback(desk: Desk) -> None:
    sockets = Path(f"/proc/{desk.record['pid']}/fd")
    inodes = set()
    for one in sockets.iterdir():
        try:
            if found := re.match(r"socket:\[(\d+)\]", str(one.readlink())):
                inodes.add(found[1])
        except FileNotFoundError:
            continue
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == "0A":
                addresses.append(fields[1])
    assert addresses == [f"0100007F:{desk.port:04X}"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "reachable from other machines"),
        (("--host", "192.0.2.1"), "reachable from other machines"),
        (("--tls-cert", "x"), "given together"),
        (("--force",), "--force is for --stop"),
        (("--dry-run",), "--dry-run is for --install"),
        (("--stop",), "not running"),
    ],
)
def test_what_cannot_be_is_refused(bench: Bench, options: tuple[str, ...], words: str) -> None:
    done = bench.run("serve", *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_without_a_port_only_the_socket_of_the_user_answers(bench: Bench) -> None:
    desk = Desk(bench, "--socket").open()
    try:
        assert desk.record["url"] == ""
        assert json.loads(bench.run("serve", "--status", "--json").stdout)["url"] is None
        refused = bench.run("serve", "link")
        assert refused.returncode == 2
        assert "no port" in refused.stderr
    finally:
        desk.close()


def test_another_name_of_the_machine_and_tls_are_accepted_where_given(bench: Bench) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate = bench.home / "key.pem", bench.home / "cert.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=box.example", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    options = ("--port", "0", "--host", "0.0.0.0", "--allow-host", "box.example")
    desk = Desk(bench, *options, "--tls-cert", str(certificate), "--tls-key", str(key)).open()
    try:
        assert desk.record["url"] == f"https://box.example:{desk.port}"
        trusting = ssl.create_default_context(cafile=str(certificate))
        trusting.check_hostname = False  # it is called by its address
        for host, status in (("box.example", 200), ("127.0.0.1", 421), ("evil.example", 421)):
            line = http.client.HTTPSConnection("127.0.0.1", desk.port, context=trusting, timeout=20)
            headers = {"Host": f"{host}:{desk.port}", "Authorization": f"Bearer {desk.token}"}
            line.request("GET", "/api/v1/health", headers=headers)
            assert line.getresponse().status == status
            line.close()
        link = bench.run("serve", "link").stdout
        assert link.startswith(f"https://box.example:{desk.port}/in?code=")
    finally:
        desk.close()


def test_a_detached_turn_starts_the_service_and_outlives_its_terminal(alone: Bench) -> None:
    terminal = alone.terminal("run", "--detach", "-a", "mock", "--approve", "ask", ASKS)
    assert terminal.end() == 0
    session = re.findall(r"^([0-9a-f]{10})", terminal.text, re.MULTILINE)[-1]
    attached = alone.terminal("attach", session)
    attached.wait_for("[y] allow")
    attached.press("y")
    assert attached.end() == 0
    assert (alone.project / "a.txt").read_text() == "x\n"
    assert lines_of(alone, session)[-1]["event"]["type"] == "agent_exited"
    again = alone.run("run", "-c", HELLO)
    assert again.returncode == 0, again.stderr


def test_a_detached_turn_goes_on_in_an_earlier_session(alone: Bench) -> None:
    done = alone.run("run", "-a", "mock", "--approve", "auto", HELLO)
    assert done.returncode == 0, done.stderr
    first = alone.run("run", "--detach", "-c", json.dumps([{"say": "before: {before}"}]))
    assert first.returncode == 0, first.stderr
    session = first.stdout.strip()
    followed = alone.run("attach", session, "--json")
    assert followed.returncode == 0
    ends = [line for line in followed.stdout.splitlines() if '"turn_ended"' in line]
    assert len(ends) == 2
    row = json.loads(alone.run("run", "--detach", "--json", "-a", "mock", HELLO).stdout)
    assert row["id"] != session


def test_a_detached_turn_gets_the_variables_of_its_terminal(alone: Bench) -> None:
    assert alone.run("run", "--detach", "-a", "mock", HELLO).returncode == 0  # starts the service
    script = json.dumps([{"run": "echo $MY_WORD > word.txt"}])
    done = alone.run(
        *("run", "--detach", "-a", "mock", "--approve", "auto", "--env", "MY_WORD=mine", script)
    )
    assert done.returncode == 0, done.stderr
    assert alone.run("attach", done.stdout.strip()).returncode == 0
    assert (alone.project / "word.txt").read_text() == "mine\n"


def test_a_wrong_detached_run_says_why(alone: Bench) -> None:
    for words, code, told in (
        (("-a", "nobody"), 2, "unknown agent"),
        (("-a", "codex"), 3, "not installed"),
        (("-a", "mock", "--resume", "nothing"), 2, "no session matches"),
        (("-a", "mock", "--worktree=x"), 2, "--detach"),
    ):
        done = alone.run("run", "--detach", *words, "hello")
        assert (done.returncode, told in done.stderr) == (code, True), done.stderr


def test_a_working_service_is_stopped_only_by_force(alone: Bench) -> None:
    session = alone.run("run", "--detach", "-a", "mock", HANGS).stdout.strip()
    refused = alone.run("serve", "--stop")
    assert refused.returncode == 1
    assert "1 session is working" in refused.stderr
    assert alone.run("serve", "--stop", "--force").returncode == 0
    assert alone.run("serve", "--status").returncode == 1
    kinds = [one["event"]["type"] for one in lines_of(alone, session)]
    assert "turn_ended" in kinds


def descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found, left = set(), [pid]
    while left:
        for child in children.get(left.pop(), ()):
            found.add(child)
            left.append(child)
    return found


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def killed_once(bench: Bench, moment: float) -> None:
    """Kills the service at a moment of three turns, and looks for what it left."""
    desk = Desk(bench).open()
    script = [
        {"repeat": 30, "steps": [{"say": "one two three"}]},
        {"write": "asked.txt", "text": "x"},
    ]
    sessions = [desk.start(script, approve="ask") for _ in range(2)]
    seen: dict[str, list[dict[str, object]]] = {}
    deadline = time.monotonic() + moment
    for session in sessions:
        seen[session] = desk.get(f"/sessions/{session}/entries")
    time.sleep(max(0.0, deadline - time.monotonic()))
    for session in sessions:
        seen[session] = desk.get(f"/sessions/{session}/entries")
    processes = descendants(desk.record["pid"])
    desk.kill()
    wait_until(lambda: all(gone(pid) for pid in processes))
    listed = json.loads(bench.run("sessions", "list", "--json").stdout)
    assert set(sessions) <= {one["id"] for one in listed}
    for session in sessions:
        entries = lines_of(bench, session)
        assert entries[: len(seen[session])] == seen[session]  # nothing that was shown is lost
        ended = [one["event"] for one in entries if one["event"]["type"] == "turn_ended"]
        assert [one["reason"] for one in ended] == ["failed"]
        assert ended[0]["failure"]["kind"] == "harness_died"
        assert "--resume" in ended[0]["failure"]["hint"]
        asked = [one for one in entries if one["event"]["type"] == "permission_requested"]
        waiting = json.loads(bench.run("requests", "list", "--json").stdout)
        assert [one["session"] for one in waiting].count(session) == len(asked)
    desk.open()
    session = sessions[0]
    desk.prompt(session, [{"say": "on we go"}], linger=0)
    assert desk.ended(session, turns=2)[-1]["event"]["reason"] == "completed"
    desk.close()
    done = bench.run("run", "--resume", sessions[1], "--approve", "auto", HELLO)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("moment", [0.0, 0.15, 1.0])
def test_a_killed_service_leaves_sessions_requests_and_history(bench: Bench, moment: float) -> None:
    killed_once(bench, moment)


@pytest.mark.torture
@pytest.mark.parametrize("number", range(100))
def test_a_service_that_is_killed_at_any_moment(bench: Bench, number: int) -> None:
    killed_once(bench, number * 0.012)


def test_an_interrupt_ends_it(bench: Bench) -> None:
    desk = Desk(bench).open()
    os.kill(desk.record["pid"], signal.SIGINT)
    assert desk.process.wait(20) == 0
    assert not Path(desk.record["socket"]).exists()
    assert not (desk.folder / "service.json").exists()
    desk.close()


def test_a_session_in_the_folder_of_the_store_is_stored(desk: Desk) -> None:
    around = str(desk.bench.home.parent)
    started = []
    for _ in range(3):
        started.append(desk.start([{"say": "Hello."}, {"write": "a", "text": "a"}], cwd=around))
        desk.ended(started[-1])
        listed = json.loads(desk.bench.run("sessions", "list", "--json").stdout)
        assert [row["id"] for row in reversed(listed)] == started


@pytest.mark.parametrize("steps", [HELLO, json.dumps([{"say": "I wait."}, {"sleep": 600}])])
def test_attaching_is_quick(alone: Bench, steps: str) -> None:
    session = alone.run("run", "--detach", "-a", "mock", steps).stdout.strip()
    spent, computed = [], []
    for _ in range(5):
        began = time.monotonic()
        attached = subprocess.Popen(
            alone.command("attach", session, "--json"),
            cwd=alone.project,
            env=alone.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert attached.stdout
        assert attached.stdout.readline()
        spent.append(time.monotonic() - began)
        attached.kill()
        _, attached.returncode, usage = os.wait4(attached.pid, 0)
        attached.stdout.close()
        computed.append(usage.ru_utime + usage.ru_stime)
    print(f"attach: {min(spent):.3f} s, of which it computes {min(computed):.3f} s")
    assert min(computed) < 0.3
    assert min(spent) < 1.0  # 0.3 s where nothing else runs


def test_what_is_installed_is_shown_first(bench: Bench) -> None:
    unit = bench.home / ".config/systemd/user/tillerman.service"
    shown = bench.run("serve", "--install", "--dry-run")
    assert shown.returncode == 0
    assert str(unit) in shown.stdout
    assert "ExecStart=" in shown.stdout
    assert "systemctl --user enable --now tillerman.service" in shown.stdout
    assert not unit.exists()
