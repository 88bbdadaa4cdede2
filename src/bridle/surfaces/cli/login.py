"""`bridle login` and `bridle logout`: an agent's own command, on the user's own terminal."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

from bridle.surfaces import signing
from bridle.surfaces.cli import opened
from bridle.surfaces.cli.output import say


def login(options: Namespace) -> int:
    return asyncio.run(_login(options))


def logout(options: Namespace) -> int:
    return asyncio.run(_logout(options))


async def _login(options: Namespace) -> int:
    management, _ = opened.management(options)
    words = management.login(options.agent)
    await signing.run(management, options.agent, words, sys.stderr)
    say(await signing.signed_in_now(management, options.agent))
    return 0


async def _logout(options: Namespace) -> int:
    management, _ = opened.management(options)
    words = management.logout(options.agent)
    await signing.run(management, options.agent, words, sys.stderr)
    say(await signing.signed_out_now(management, options.agent))
    return 0
