"""Hook shim in Python: forwards a CLI's hook call to the harness, and blocks on any error.

    python -I -S shim_client.py FOLDER AGENT EVENT DEADLINE_S

Sends the CLI's payload from stdin to the server in FOLDER, prints its answer and exits with its
code. Any error is printed on stderr and exits with 2. An EVENT with a `-` before it only observes:
errors are then silent, and exit with 0.

It runs on every tool call, so it imports only what the interpreter has already loaded, and
`_socket`. `shim.c` is the same program.
"""

import _socket
import _thread
import sys
import time

try:
    import posix as os
except ImportError:
    import os  # type: ignore[no-redef]

PAYLOAD_CAP = 16 * 1024 * 1024
REPLY_CAP = 32 * 1024 * 1024 + 1024
PIECE = 256 * 1024


class ShimError(Exception):
    pass


def main(words: list[str]) -> None:
    begin = time.monotonic()
    if len(words) != 4:
        os._exit(problem("usage: FOLDER AGENT EVENT DEADLINE_S", observing=False))
    folder, agent, event, seconds = words
    observing = event.startswith("-")
    try:
        for number in (0, 1, 2):
            os.fstat(number)  # must be open: otherwise the socket could get its number and output
        limit = float(seconds)
        if not 0 < limit <= 86400:
            raise ShimError(f"invalid deadline: {seconds}")
        _thread.start_new_thread(watch, (limit, observing))
        payload = read_stdin()
        ask, answer = enter(folder)
        nonce = os.urandom(16).hex()
        left = int((begin + limit - time.monotonic()) * 1000)
        head = f"tillerman1 {ask} {nonce} {agent} {event} {max(left, 1)} {len(payload)}\n"
        connection, port = (
            open_connection()
        )  # open until we exit: the server detects our exit by it
        received = exchange(connection, port, head.encode() + payload)
        code, out, error = read_answer(received, answer, nonce)
        if time.monotonic() >= begin + limit:
            raise ShimError(f"no answer within {limit} s")
        write(1, out)
        write(2, error)
    except OSError as why:
        code = problem(f"tillerman could not be reached: {why}", observing=observing)
    except BaseException as why:  # a traceback would exit with 1, which does not block
        code = problem(str(why) or type(why).__name__, observing=observing)
    os._exit(code)


def watch(seconds: float, observing: bool) -> None:
    """Sleeps by the monotonic clock, then ends the process in any state."""
    time.sleep(seconds)
    os._exit(problem(f"no answer within {seconds} s", observing=observing))


def problem(reason: str, *, observing: bool) -> int:
    """Prints the reason and returns the exit code that blocks; 0 without output if observing."""
    if observing:
        return 0
    try:  # noqa: SIM105  contextlib is slow to import
        write(2, f"tillerman: {reason}\n".encode(errors="replace"))
    except OSError:
        pass  # stderr is closed; the exit code still blocks
    return 2


def read_stdin() -> bytes:
    pieces, size = [], 0
    while piece := os.read(0, PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > PAYLOAD_CAP:
            raise ShimError("the hook's input is too long")
    return b"".join(pieces)


def enter(folder: str) -> tuple[str, str]:
    """Enters the folder after checking that only the user has access; returns its tokens."""
    if hasattr(os, "getuid"):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        check_owner(number, folder)
        os.fchdir(number)
        number = os.open("key", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        check_owner(number, "the key")
    else:
        os.chdir(folder)
        number = os.open("key", os.O_RDONLY)
    tokens = os.read(number, 256).decode("ascii").split(" ")
    if len(tokens) != 2 or len(tokens[0]) != 64 or len(tokens[1]) != 65 or tokens[1][64] != "\n":
        raise ShimError("the key is damaged")
    return tokens[0], tokens[1][:64]


def check_owner(number: int, name: str) -> None:
    found = os.fstat(number)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ShimError(f"{name} is accessible to other users")


def open_connection() -> tuple[_socket.socket, int]:
    """Connects to the server's socket or, if there is none, to its loopback port over HTTP."""
    try:
        return connect_here(), 0
    except FileNotFoundError:
        port = int(os.read(os.open("port", os.O_RDONLY), 16))
    connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    connection.connect(("127.0.0.1", port))
    return connection, port


def connect_here() -> _socket.socket:
    if not hasattr(_socket, "AF_UNIX"):
        raise FileNotFoundError
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect("socket")
    if sys.platform == "darwin":
        credentials = connection.getsockopt(0, 1, 8)  # SOL_LOCAL, LOCAL_PEERCRED: version, uid
    else:
        credentials = connection.getsockopt(
            _socket.SOL_SOCKET, _socket.SO_PEERCRED, 12
        )  # pid, uid, gid
    if int.from_bytes(credentials[4:8], sys.byteorder) != os.geteuid():
        raise ShimError("another program listens in place of the server")
    return connection


def exchange(connection: _socket.socket, port: int, question: bytes) -> bytes:
    if port:
        head = f"POST /hook HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(question)}"
        question = head.encode() + b"\r\n\r\n" + question
    connection.sendall(question)
    pieces, size = [], 0
    while piece := connection.recv(PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > REPLY_CAP:
            raise ShimError("the answer is too long")
    received = b"".join(pieces)
    return received.partition(b"\r\n\r\n")[2] if port else received


def read_answer(received: bytes, token: str, nonce: str) -> tuple[int, bytes, bytes]:
    head, end, rest = received.partition(b"\n")
    words = head.split(b" ")
    if not end or words[:3] != [b"tillerman1", token.encode(), nonce.encode()]:
        raise ShimError(
            "the answer is not from tillerman" if received else "tillerman gave no answer"
        )
    if len(words) != 6 or not all(word.isdigit() and len(word) < 10 for word in words[3:]):
        raise ShimError("the answer is damaged")
    code, out, error = (int(word) for word in words[3:])
    if code > 255 or len(rest) != out + error:
        raise ShimError("the answer is damaged")
    return code, rest[:out], rest[out:]


def write(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]


if __name__ == "__main__":
    main(sys.argv[1:])
