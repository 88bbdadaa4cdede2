"""The process beside `mcp_floor` that forks its commands: only the modules that it needs."""

from __future__ import annotations

import os
import select
import socket
import sys

FILES = ("stdout", "stderr")


def run(command: str, folder: str) -> int:
    """Runs it to its end; returns its status."""
    pipes = [os.pipe(), os.pipe()]
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number, (_, write) in enumerate(pipes, 1):
            os.dup2(write, number)
        os.execve("/bin/sh", ["sh", "-c", command], {"PATH": os.defpath})
    ready = select.poll()
    files = {}
    for name, (read, write) in zip(FILES, pipes, strict=True):
        os.close(write)
        files[read] = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        ready.register(read, select.POLLIN)
    while files:
        for read, _ in ready.poll():
            if data := os.read(read, 65536):
                os.write(files[read], data)
            else:
                ready.unregister(read)
                os.close(read)
                os.close(files.pop(read))
    return os.waitpid(pid, 0)[1]


def serve_commands(end: socket.socket, folder: str) -> None:
    while command := end.recv(65536):
        end.sendall(str(run(command.decode(), folder)).encode())


if __name__ == "__main__":
    serve_commands(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
