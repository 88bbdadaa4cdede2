"""The options of `tillerman serve` and `tillerman attach`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import (
    command,
    count,
    group,
    json_option,
    name,
    one_session,
    port,
    positive,
)

SCOPES = ("read", "answer", "drive")


def serve(commands: Any) -> None:
    serve = command(commands, "serve", "serve:serve", "run sessions in a service, with an HTTP API")
    serve.usage = "tillerman serve [options] [link | token]"
    listen = serve.add_argument_group("listen")
    listen.add_argument(
        "--host", type=name, default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1"
    )
    listen.add_argument(
        "--port", type=port, metavar="PORT", help="default: 7345 if it is free; 0: any free port"
    )
    listen.add_argument(
        "--socket", action="store_true", help="only the Unix socket of this user, no port"
    )
    listen.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate for HTTPS")
    listen.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key")
    listen.add_argument(
        "--allow-host",
        type=name,
        action="append",
        default=[],
        metavar="NAME",
        help="another name of this machine; repeatable",
    )
    listen.add_argument(
        "--plain-http", action="store_true", help="beyond loopback without TLS: others can read it"
    )
    control = serve.add_argument_group("control")
    control.add_argument("--status", action="store_true", help="show the running service")
    control.add_argument("--stop", action="store_true", help="end the running service")
    control.add_argument(
        "--force", action="store_true", help="with --stop: even if sessions are working"
    )
    control.add_argument(
        "--install", action="store_true", help="start it whenever you log in (systemd, launchd)"
    )
    control.add_argument(
        "--dry-run", action="store_true", help="with --install: only show what it would do"
    )
    json_option(serve, "with --status: JSON output")
    parts = group(serve)
    link = command(parts, "link", "serve:link", "print a one-time link that signs in a browser")
    link.add_argument("--scope", choices=SCOPES, default="drive", help="default: drive")
    link.add_argument("--no-qr", action="store_true", help="without the QR code")
    token = command(parts, "token", "serve:token", "create, list or revoke tokens of the API")
    token.add_argument(
        "--scope",
        choices=SCOPES,
        help="create one: read follows, answer also answers requests, drive does everything",
    )
    token.add_argument("--name", default="", metavar="TEXT", help="what it is for")
    token.add_argument("--days", type=positive, metavar="N", help="until it expires")
    token.add_argument("--list", action="store_true", help="list tokens and browsers")
    token.add_argument("--revoke", metavar="ID", help="revoke a token, or sign out a browser")
    json_option(token)

    attach = one_session(
        commands, "attach", "sessions:follow", "follow a session live and answer its requests"
    )
    attach.add_argument(
        "--since", type=count, default=0, metavar="N", help="only entries after number N"
    )
    json_option(attach, "one entry per line; --json=summary: a condensed view", lines=True)
