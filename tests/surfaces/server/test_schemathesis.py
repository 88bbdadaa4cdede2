"""Requests that are generated from the OpenAPI document, right and wrong ones: none ends in a 5xx.

`make test-api` installs schemathesis in an environment of its own.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.surfaces.server.service_desk import API, Desk

PROGRAM = CHECKOUT / ".venv/schemathesis/bin/schemathesis"
EXAMPLES = os.environ.get("TILLERMAN_API_EXAMPLES", "20")  # for each operation


@pytest.mark.timeout(900)
@pytest.mark.skipif(not PROGRAM.exists(), reason="`make test-api` installs schemathesis")
def test_no_generated_request_is_an_error_of_the_service(desk: Desk, tmp_path: Path) -> None:
    session = desk.start([{"write": "a.txt", "text": "x"}, {"say": "Done."}])
    desk.ended(session)
    ran = subprocess.run(
        [
            *(str(PROGRAM), "run", f"{desk.record['url']}{API}/openapi.json", "--no-color"),
            *("-H", f"Authorization: Bearer {desk.token}", "--checks", "not_a_server_error"),
            *("--exclude-path-regex", "/events$", "--max-examples", EXAMPLES, "--seed", "18"),
        ],
        cwd=tmp_path,
        env={**desk.bench.environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    print(ran.stdout[-600:])
    assert desk.call("GET", "/health").status == 200
