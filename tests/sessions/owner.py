"""A process that owns a session, and prints its entries as lines.

python -m tests.sessions.owner FOLDER SCRIPT [APPROVE]
"""

import asyncio
import sys
from pathlib import Path

from tests.sessions.session_desk import Desk
from tillerman.core.events import encode


async def main(folder: str, script: str, approve: str = "ask") -> None:
    desk = Desk(Path(folder))
    session = await desk.start(script, approve=approve)
    print(session.id, flush=True)
    await session.prompt("go")
    async for page in session.pages_until_idle():
        sys.stdout.buffer.write(b"".join(encode(entry) + b"\n" for entry in page))
        sys.stdout.flush()
    await desk.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
