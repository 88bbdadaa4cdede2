"""`tillerman cloud listen`: receives webhooks about cloud agents, and wakes waiting sessions."""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import Namespace

import msgspec

from tillerman.core.cloud import CloudStatusChange
from tillerman.core.terminal_sanitizer import clean, json_safe
from tillerman.harness.cloud import cloud_agent
from tillerman.harness.webhook_inbox import WebhookInbox
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import write


def listen(options: Namespace) -> int:
    from tillerman.surfaces.server.service_client import need_server

    need_server()
    return asyncio.run(_listen(options))


async def _listen(options: Namespace) -> int:
    from tillerman.config import find_paths
    from tillerman.surfaces.server.cloud_webhooks import receiver
    from tillerman.surfaces.server.guard import HOOKS
    from tillerman.surfaces.server.listening import ListenSettings, open_port
    from tillerman.surfaces.server.serving import accepting

    management, config = open_harness.management(options)
    agent = cloud_agent(management, options.agent)
    inbox = WebhookInbox(config, find_paths(), management)
    inbox.check(agent)
    # What arrives is signed, and nothing secret is answered.
    settings = ListenSettings(host=options.host, port=options.port, plain=True)
    settings.check()

    def received(change: CloudStatusChange) -> None:
        if options.json:
            write(sys.stdout, json_safe(msgspec.json.encode(change)).decode() + "\n")
        else:
            write(sys.stdout, " ".join(clean(f"{change.agent} {change.status}").split()) + "\n")

    with open_port(settings) as listener:
        port = listener.getsockname()[1]
        async with accepting(receiver(inbox, received), listener, settings):
            write(sys.stderr, f"webhooks: {settings.url(port).rstrip('/')}{HOOKS}{agent}\n")
            await _told_to_stop()
    return 0


async def _told_to_stop() -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told.set)
    await told.wait()
