"""MCP over HTTP: for clients with the token, on this machine, and not for web pages."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
from pathlib import Path

import pytest
from mcp import Client

from tests.mcp.http_desk import HELLO, SERVE, Door, client, opened, shut
from tests.mcp.mcp_desk import ERRANDS, PROCESS, Machine

pytestmark = pytest.mark.timeout(120)

WORDS = {
    401: b"the token is missing or wrong\n",
    403: b"not for web pages\n",
    421: b"this is not the host you asked for\n",
}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdks_client_works_with_the_token(door: Door, house: Machine, mode: str) -> None:
    async with client(door, mode) as made:
        process = ""
        for tool, arguments, expected in ERRANDS:
            given = {k: process if v == "*" else v for k, v in arguments.items()}
            async with asyncio.timeout(30):
                while True:
                    result = await made.call_tool(tool, given)
                    message = "".join(part.text for part in result.content if part.type == "text")
                    if expected in message or tool not in ("poll_process", "read_process_output"):
                        break
            assert expected in message and not result.is_error, message
            process = PROCESS.findall(message)[0] if tool == "execute_shell" else process
        listed = await made.list_resources()
        assert "tillerman://workspace" in [str(one.uri) for one in listed.resources]
    (house.project / "notes/a.txt").unlink()
    (house.project / "host.txt").unlink()


async def test_two_clients_at_once_share_the_files(door: Door) -> None:
    async with client(door) as one, client(door, "legacy") as other:
        waiting = asyncio.ensure_future(
            one.call_tool("execute_shell", {"command": "while ! test -e go; do sleep 0.05; done"})
        )
        written = await other.call_tool("write_file", {"path": "go", "content": ""})
        assert not written.is_error
        assert not (await waiting).is_error


async def test_without_the_token_the_sdks_client_does_not_get_in(door: Door) -> None:
    with pytest.raises(Exception):  # noqa: B017  # the SDK's own, of one kind or another
        async with Client(door.url):
            pass


METHODS = ("GET", "POST", "OPTIONS", "DELETE", "PUT", "PATCH", "HEAD", "TRACE", "PROPFIND")
PATHS = ("/mcp", "/mcp/", "/", "/sse", "/.well-known/oauth-protected-resource", "/docs", "//mcp")


def tokens(door: Door) -> dict[str, str | None]:
    right = door.token
    return {
        "none": None,
        "empty": "",
        "another": f"Bearer {'0' * 64}",
        "no scheme": right,
        "another scheme": f"Basic {right}",
        "lower case": f"bearer {right}",
        "shorter": f"Bearer {right[:-1]}",
        "longer": f"Bearer {right}0",
        "upper case": f"Bearer {right.upper()}",
        "more space": f"Bearer  {right}",
        "two": f"Bearer {right}, Bearer {right}",
        "no ASCII": "Bearer ÿ" + right[1:],
    }


def test_no_route_answers_without_the_token(door: Door) -> None:
    for kind, token in tokens(door).items():
        for method in METHODS:
            for path in PATHS if kind in ("none", "another") else PATHS[:1]:
                headers = door.headers(Authorization=token)
                status, reported, body = door.knock(method, path, headers)
                assert status == 401, (kind, method, path)
                assert body == (b"" if method == "HEAD" else WORDS[401])
                assert set(reported) <= {
                    "content-type", "content-length", "www-authenticate", "date", "connection"
                }  # fmt: skip


def test_a_token_given_twice_or_in_the_address_is_rejected(door: Door) -> None:
    twice = [*door.headers(), ("Authorization", f"Bearer {door.token}")]
    assert door.knock("POST", "/mcp", twice)[::2] == (401, WORDS[401])
    for path in (f"/mcp?token={door.token}", f"/mcp?access_token={door.token}"):
        status, _, body = door.knock("POST", path, door.headers(Authorization=None))
        assert (status, body) == (401, WORDS[401])
    status, _, _ = door.knock(
        "POST", "/mcp", door.headers(Authorization=None, Cookie=f"token={door.token}")
    )
    assert status == 401


@pytest.mark.parametrize("path", ["/mcp", "/", "/ws"])
@pytest.mark.parametrize("right", [True, False])
def test_no_websocket_is_opened(door: Door, path: str, right: bool) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    authorization = f"Bearer {door.token}" if right else None
    headers = door.headers(Authorization=authorization, **upgrade)
    status, _, body = door.knock("GET", path, headers, b"")
    assert status != 101
    if not right:
        assert (status, body) == (401, WORDS[401])


# -- by which name ---------------------------------------------------------------------------------


def hosts(port: int) -> list[str]:
    names = [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.localhost",
        "localhost.", "127.0.0.1.", "LOCALHOST", "Localhost", "0.0.0.0", "[::]", "[::1%25lo]",
        "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "::1", "127.1", "127.0.1", "127.0.0.2",
        "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.000.000.001", "localhost@evil",
        "evil@127.0.0.1", "127.0.0.1 evil.example", "127.0.0.1,evil.example", "127.0.0.1#",
        "127.0.0.1/", "127.0.0.1\\", "１２７.0.0.1".encode().decode("latin-1"), "ip6-localhost",
        "localhost.localdomain", "user:pass@localhost", "",
    ]  # fmt: skip
    with_port = [f"{name}:{port}" for name in names]
    return [
        *with_port,
        "127.0.0.1", "localhost", "[::1]", "127.0.0.1:", f"127.0.0.1:0{port}", "127.0.0.1:80",
        f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}0", f"http://127.0.0.1:{port}", f":{port}",
        f"127.0.0.1:{port}:{port}", f"127.0.0.1:{port}.evil.example", "",
    ]  # fmt: skip


def test_under_another_host_name_it_is_refused(door: Door) -> None:
    assert len(hosts(door.port)) >= 40
    for host in hosts(door.port):
        status, _, body = door.knock("POST", "/mcp", door.headers(Host=host), b"")
        assert (status, body) in [(421, WORDS[421]), (400, b"Invalid HTTP request received.")], host
    right = f"127.0.0.1:{door.port}"
    for headers in (
        door.headers(Host=None),
        [*door.headers(), ("Host", right)],
        [("Host", "evil.example"), *door.headers()],
    ):
        status, _, body = door.knock("POST", "/mcp", headers, b"")
        assert (status, body) in [(421, WORDS[421]), (400, b"Invalid HTTP request received.")]
    forwarded = door.headers(Host="evil.example", X_Forwarded_Host=right, Forwarded=f"host={right}")
    assert door.knock("POST", "/mcp", forwarded)[::2] == (421, WORDS[421])
    status, _, _ = door.knock("POST", f"http://{right}/mcp", door.headers(Host="evil.example"))
    assert status == 421


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_under_its_own_host_names_it_answers(door: Door, name: str) -> None:
    status, _, body = door.knock("POST", "/mcp", door.headers(Host=f"{name}:{door.port}"))
    assert status == 200 and b"protocolVersion" in body


# -- not for web pages -----------------------------------------------------------------------------


def test_a_web_page_is_refused_even_with_the_token(door: Door) -> None:
    port = door.port
    origins = [
        "https://evil.example", "null", "", "file://", f"http://127.0.0.1:{port}",
        f"http://localhost:{port}", "http://localhost", f"http://127.0.0.1:{port}@evil.example",
        f"http://localhost.evil.example:{port}", f"http://127.0.0.1:{port}.evil.example",
        "chrome-extension://abc", "vscode-webview://abc", "*",
    ]  # fmt: skip
    for origin in origins:
        for method in ("POST", "GET", "OPTIONS", "DELETE"):
            status, reported, body = door.knock(method, "/mcp", door.headers(Origin=origin))
            assert (status, body) == (403, WORDS[403]), (origin, method)
            assert not [name for name in reported if name.lower().startswith("access-control")]
    for site in ("cross-site", "same-site", "same-origin", "NONE", ""):
        status, _, body = door.knock("POST", "/mcp", door.headers(Sec_Fetch_Site=site))
        assert (status, body) == (403, WORDS[403]), site
    twice = [*door.headers(Sec_Fetch_Site="none"), ("Sec-Fetch-Site", "cross-site")]
    assert door.knock("POST", "/mcp", twice)[0] == 403
    status, _, _ = door.knock("POST", "/mcp", door.headers(Sec_Fetch_Site="none"))
    assert status == 200


def test_content_types_a_form_can_send_are_refused(door: Door) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        status, _, body = door.knock("POST", "/mcp", door.headers(Content_Type=kind))
        assert status in (400, 415), (kind, body)
        assert b"protocolVersion" not in body


def test_other_paths_are_not_found_even_with_the_token(door: Door) -> None:
    for path in PATHS[2:]:
        assert door.knock("GET", path, door.headers(), b"")[0] == 404, path


def test_broken_requests_are_answered_and_the_server_continues(door: Door) -> None:
    for data in (b"\0" * 100, b"GET\r\n\r\n", b"\x16\x03\x01" + b"x" * 200, b"A" * 100_000):
        with socket.create_connection(("127.0.0.1", door.port), 10) as line:
            line.sendall(data + b"\r\n\r\n")
            line.settimeout(10)
            reported = line.recv(4096)
            assert reported.startswith(b"HTTP/1.1 400") or reported == b""
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    ):
        status, _, reported = door.knock("POST", "/mcp", door.headers(), body)
        assert status in (400, 406), (body, reported)
        assert b"Traceback" not in reported
    assert door.knock("POST", "/mcp", door.headers())[0] == 200


def test_a_body_too_large_is_refused_before_it_is_read(door: Door) -> None:
    headers = door.headers()
    line = http.client.HTTPConnection("127.0.0.1", door.port, timeout=20)
    line.putrequest("POST", "/mcp", skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        line.putheader(name, value)
    line.putheader("Content-Length", str(10**12))
    line.endheaders()
    assert line.getresponse().status == 413
    line.close()


# -- where it listens ------------------------------------------------------------------------------


def test_it_listens_on_loopback_alone(door: Door) -> None:
    inodes = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for link in Path(f"/proc/{door.process.pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:")
    }
    listening = []
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{door.process.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and fields[9] in inodes:
                listening.append(fields[1])
    assert listening == [f"0100007F:{door.port:04X}"]


def test_the_token_is_readable_by_the_user_alone(door: Door) -> None:
    assert door.file.stat().st_mode & 0o777 == 0o600
    assert door.file.parent.stat().st_mode & 0o077 == 0
    assert re.fullmatch(r"[0-9a-f]{64}", door.token)
    arguments = Path(f"/proc/{door.process.pid}/cmdline").read_bytes()
    assert door.token.encode() not in arguments


def test_a_port_in_use_is_reported(door: Door, house: Machine) -> None:
    done = house.run("mcp", "serve", "--http", str(door.port))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot listen on port {door.port}" in done.stderr and "Traceback" not in done.stderr


def test_a_token_that_others_can_read_is_refused_and_a_missing_one_created(
    machine: Machine,
) -> None:
    door = opened(machine.start(*SERVE, stdin=False))
    shut(door)
    again = opened(machine.start(*SERVE, stdin=False))
    assert again.token == door.token
    shut(again)
    door.file.chmod(0o640)
    refused = machine.run("mcp", "serve", "--http", "0")
    assert refused.returncode == 2 and str(door.file) in refused.stderr
    assert door.token not in refused.stderr
    door.file.chmod(0o600)
    door.file.write_text("short\n")
    assert machine.run("mcp", "serve", "--http", "0").returncode == 2
    door.file.unlink()
    (machine.folder / "others").write_text("0" * 64)
    door.file.symlink_to(machine.folder / "others")
    (machine.folder / "others").chmod(0o644)
    assert machine.run("mcp", "serve", "--http", "0").returncode == 2
    door.file.unlink()
    new = opened(machine.start(*SERVE, stdin=False))
    assert new.token != door.token and new.file.stat().st_mode & 0o777 == 0o600
    shut(new)


def test_a_body_at_any_depth_is_answered_and_the_server_continues(door: Door) -> None:
    _, reported, _ = door.knock("POST", "/mcp", door.headers(), HELLO)
    headers = door.headers(Mcp_Session_Id=reported["mcp-session-id"])
    for depth in (60, 65, 500, 900, 1_000, 1_100, 100_000):
        inner = b"[" * depth + b"]" * depth
        body = (
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":'
            b'{"name":"read_file","arguments":{"path":"x","more":%s}}}' % inner
        )
        status, _, answer = door.knock("POST", "/mcp", headers, body)
        assert status in (200, 400) and answer and b"bug" not in answer, (depth, status, answer)
    ping = b'{"jsonrpc":"2.0","id":8,"method":"ping"}'
    assert door.knock("POST", "/mcp", headers, ping)[0] == 200
