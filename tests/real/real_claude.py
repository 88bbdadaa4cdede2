"""Claude Code for tests: one pinned version, with its folders and network access."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RealClaude:
    """Claude Code at one version, with its home and project."""

    version: str
    program: Path
    home: Path
    project: Path

    agent = "claude"
    key = "ANTHROPIC_API_KEY"
    model = None

    def prepare(self, base_url: str) -> None:
        """Its home needs no preparation."""

    def environment(self, base_url: str, **more: str) -> dict[str, str]:
        """All its variables: none of this machine's, and network access to loopback only."""
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
