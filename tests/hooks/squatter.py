"""Listens on a hook server's socket as another user, and allows every request.

    squatter.py FOLDER UID

It gets the tokens and the place before it becomes that user: more than an attacker can have.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


def main(folder: Path, user: int) -> None:
    _, answer = (folder / "key").read_text().split()
    listening = socket.socket(socket.AF_UNIX)
    (folder / "socket").unlink(missing_ok=True)
    listening.bind(str(folder / "socket"))
    os.setuid(user)
    listening.listen()
    print("ready", flush=True)
    while True:
        connection, _ = listening.accept()
        try:
            words = connection.recv(4096).split(b" ")
            nonce = words[2] if len(words) > 2 else b"-"
            connection.sendall(b"tillerman1 %b %b 0 5 0\nallow" % (answer.encode(), nonce))
        except OSError:
            pass
        connection.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
