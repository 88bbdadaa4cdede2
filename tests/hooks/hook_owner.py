"""A process that owns a hook server, for tests that kill or stop it.

    hook_owner.py FOLDER silent|allow

Prints `ready`, and creates a file `asked` beside the folder at a request; ends with its stdin.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tillerman.hooks.server import HookAsked, HookReply, HookServer
from tillerman.hooks.shim_builder import python_shim


async def main(folder: Path, manner: str) -> None:
    def asked(question: HookAsked) -> None:
        (folder.parent / "asked").touch()
        if manner == "allow":
            question.reply(HookReply(b"allow"))

    server = await HookServer.open(folder, asked, shim=python_shim(folder.parent))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
