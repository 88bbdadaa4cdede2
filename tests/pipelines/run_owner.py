"""A process that runs a run; with a file of a spec it starts the run, else it goes on with it.

`python -m tests.pipelines.run_owner FOLDER RUN [SPEC] [--no-markers]`
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

import tillerman
from tillerman.pipelines.engine import Engine
from tillerman.pipelines.run_state import RunSpec


async def main(folder: str, run: str, spec: str = "", *, markers: bool = True) -> int:
    async with tillerman.open(cwd=folder) as harness:
        engine = Engine(harness.paths)
        await engine.open(harness, markers=markers)
        try:
            if spec:
                await engine.start(run, msgspec.json.decode(Path(spec).read_bytes(), type=RunSpec))
            else:
                assert await engine.adopt(run), "another process has it"
            ended = await engine.wait(run)
            print(ended.status, ended.error, flush=True)
            return 0 if ended.status == "completed" else 1
        finally:
            await engine.close()


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--no-markers"]
    sys.exit(asyncio.run(main(*words, markers="--no-markers" not in sys.argv)))
