"""Claude Code for tests: one pinned version, and all that it may touch and reach."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RealClaude:
    """Claude Code at one version, and the home and project it may touch."""

    version: str
    program: Path
    home: Path
    project: Path

    agent = "claude"
    key = "ANTHROPIC_API_KEY"
    model = None

    def prepare(self, base_url: str) -> None:
        """Nothing has to be in its home."""

    def environment(self, base_url: str, **more: str) -> dict[str, str]:
        """All the variables it gets: none of this machine's, and no way out but loopback."""
        nowhere = "http://127.0.0.1:9"
        return {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "sk-fake",
            "ANTHROPIC_BASE_URL": base_url,
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1",
        } | more
