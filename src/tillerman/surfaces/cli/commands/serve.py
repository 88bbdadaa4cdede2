"""`tillerman serve`: the session service, its state, links and tokens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from tillerman.core.errors import SessionBusy, UsageError
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, width, write
from tillerman.surfaces.rendering.ansi_style import Style

NOT_RUNNING = "the service is not running"


def serve(options: Namespace) -> int:
    if options.status:
        return _status(options)
    if options.stop:
        return _stop(options)
    if options.install:
        return _install(options)
    for given, needed in (("force", "stop"), ("dry_run", "install")):
        if getattr(options, given):
            option = given.replace("_", "-")
            raise UsageError(
                f"--{option} is for --{needed}", hint=f"tillerman serve --{needed} --{option}"
            )
    from tillerman.surfaces.server.service_client import need_server

    need_server()
    return asyncio.run(_serve(options))


async def _serve(options: Namespace) -> int:
    from tillerman.surfaces.cli import open_harness
    from tillerman.surfaces.page.routes import page_routes
    from tillerman.surfaces.server.listening import ListenSettings
    from tillerman.surfaces.server.serving import serving

    settings = ListenSettings(
        host=options.host,
        port=options.port,
        socket_only=options.socket,
        certificate=options.tls_cert,
        key=options.tls_key,
        plain=options.plain_http,
        names=options.allow_host,
    )
    settings.check()
    async with (
        open_harness.harness(options, Path.home()) as harness,
        serving(harness, settings, page_routes) as record,
    ):
        _say(f"service in process {record.pid}: {record.url or record.socket}")
        _say(f"token in {harness.paths.state / 'server' / 'token'}")
        if record.url:
            _say("`tillerman serve link` prints a link that signs in a browser")
        await _told_to_stop()
    return 0


async def _told_to_stop() -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def stop() -> None:
        if told.is_set():
            os._exit(130)  # the wardens end the agents after our exit
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    await told.wait()


# -- control ---------------------------------------------------------------------------------------


def _status(options: Namespace) -> int:
    from tillerman.surfaces.server.service_client import ServiceClient

    client = ServiceClient.find(_paths())
    if client is None:
        if options.json:
            emit_json({"running": False})
        else:
            emit(NOT_RUNNING)
        return 1
    health: dict[str, Any] = client.call("GET", "/health")
    where = {"url": client.record.url or None, "socket": client.record.socket}
    if options.json:
        emit_json({"running": True} | health | where)
        return 0
    emit(
        f"running in process {health['pid']} since {health['started_at']}",
        f"  {client.record.url or 'no port'}, {client.record.socket}",
        f"  {health['sessions']} sessions, {health['working']} working; "
        f"{health['streams']} streams, {health['warm_agents']} warm agents",
    )
    return 0


def _stop(options: Namespace) -> int:
    from tillerman.surfaces.server import service_record
    from tillerman.surfaces.server.service_client import ServiceClient

    client = ServiceClient.find(_paths())
    if client is None:
        raise UsageError(NOT_RUNNING, hint="`tillerman serve` starts it")
    if not options.force and (working := client.call("GET", "/health")["working"]):
        are = "session is" if working == 1 else "sessions are"
        raise SessionBusy(f"{working} {are} working", hint="--stop --force ends their turns")
    service_record.stop(_paths())
    emit("stopped")
    return 0


def _install(options: Namespace) -> int:
    from tillerman.surfaces.server.service_client import need_server
    from tillerman.surfaces.server.service_install import install, planned

    need_server()
    plan = planned(sys.platform, Path.home(), os.environ)
    if options.dry_run:
        emit(f"writes {plan.file}:", "", *plan.text.splitlines(), "", "runs:")
        emit(*(f"  {' '.join(command)}" for command in plan.commands))
        return 0
    install(plan)
    emit(f"installed {plan.file}", "the service runs now, and after each login")
    return 0


# -- links and tokens ------------------------------------------------------------------------------


def link(options: Namespace) -> int:
    from tillerman.surfaces.server.service_client import ServiceClient

    client = ServiceClient.find(_paths())
    if client is None:
        raise UsageError(NOT_RUNNING, hint="`tillerman serve` starts it")
    made = client.call("POST", "/links", {"scope": options.scope})
    emit(made["url"])
    if not options.no_qr and sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            import segno

            segno.make(made["url"], micro=False).terminal(sys.stdout, compact=True)
    minutes = round(made["seconds"] / 60)
    write(sys.stderr, f"signs in one browser, scope {made['scope']}, within {minutes} minutes\n")
    return 0


def token(options: Namespace) -> int:
    from tillerman.surfaces.server.service_record import folder_of
    from tillerman.surfaces.server.tokens import TokenStore

    asked = [options.scope is not None, options.list, options.revoke is not None]
    if sum(asked) != 1:
        raise UsageError(
            "give one of --scope, --list or --revoke", hint="tillerman serve token --scope read"
        )
    tokens = TokenStore(folder_of(_paths()))
    if options.list:
        return _list(options, tokens.valid())
    if options.revoke is not None:
        tokens.revoke(options.revoke)
        emit(f"revoked {options.revoke}")
        return 0
    stored, secret = tokens.create(options.scope, name=options.name, days=options.days)
    if options.json:
        emit_json({"token": secret, "id": stored.id, "scope": stored.scope})
    else:
        emit(secret)
        write(sys.stderr, f"token {stored.id}, scope {stored.scope}; it is not shown again\n")
    return 0


def _list(options: Namespace, tokens: list[Any]) -> int:
    shown = ("id", "kind", "scope", "name", "created_at", "expires_at")
    if options.json:
        emit_json([{key: getattr(one, key) for key in shown} for one in tokens])
    elif not tokens:
        emit("no tokens besides the first")
    else:
        rows = [[getattr(one, key) or "" for key in shown] for one in tokens]
        head = ("ID", "KIND", "SCOPE", "NAME", "CREATED", "EXPIRES")
        emit(table(rows, head, Style(colored(options, sys.stdout)), width()))
    return 0


def _paths() -> Any:
    from tillerman.config import find_paths

    return find_paths()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
