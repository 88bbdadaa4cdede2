"""`tillerman login` and `tillerman logout`: run the agent's native sign-in command."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

from tillerman.surfaces import sign_in
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import emit


def login(options: Namespace) -> int:
    return asyncio.run(_login(options))


def logout(options: Namespace) -> int:
    return asyncio.run(_logout(options))


async def _login(options: Namespace) -> int:
    management, _ = open_harness.management(options)
    words = management.login(options.agent)
    await sign_in.run(management, options.agent, words, sys.stderr)
    emit(await sign_in.signed_in_now(management, options.agent))
    return 0


async def _logout(options: Namespace) -> int:
    management, _ = open_harness.management(options)
    words = management.logout(options.agent)
    await sign_in.run(management, options.agent, words, sys.stderr)
    emit(await sign_in.signed_out_now(management, options.agent))
    return 0
