"""Secrets with unusual characters appear on no command line in any form."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tillerman.agents.commands.runner import CommandRunner, SecretInArguments


@pytest.mark.parametrize("dump", [str, json.dumps, lambda v: json.dumps(v, ensure_ascii=False)])
@pytest.mark.parametrize(
    "secret", ['with"quotes"', "back\\slash", "-----BEGIN KEY-----\nMIIE\n-----END", "pässwörd\t1"]
)
async def test_a_secret_is_found_on_a_command_line_however_it_is_written(
    tmp_path: Path, secret: str, dump: object
) -> None:
    word = f"{{env: {dump(secret)}}}"  # type: ignore[operator]
    async with CommandRunner(
        {"PATH": "/usr/bin:/bin"},
        agent="acme",
        cwd=tmp_path,
        records=tmp_path / "records",
        marker=f"errands-{os.urandom(4).hex()}",
        private=[("KEY", secret)],
    ) as run:
        with pytest.raises(SecretInArguments, match="the value of KEY"):
            await run(["/bin/true", word])
