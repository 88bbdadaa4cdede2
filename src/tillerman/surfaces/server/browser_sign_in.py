"""Signing in with a one-time link: a form that sends its code, and the cookie it is traded for.

Opening the link does not use it up, since mail programs and messengers open links too.
"""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tillerman.surfaces.server.dispatch import read_body
from tillerman.surfaces.server.guard import COOKIE, SIGN_IN, FailedAttempts
from tillerman.surfaces.server.service import Service
from tillerman.surfaces.server.tokens import BROWSER_DAYS

_FORM_BYTES = 4096
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
}
_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tillerman</title>
<h1>tillerman</h1>
<p>{text}</p>
<form method="post" action="{action}">
<input type="hidden" name="code" value="{code}">{button}
</form>
"""


async def show_form(service: Service, request: Request) -> Response:
    code = request.query_params.get("code", "")
    if not service.links.is_open(code):
        return _page("This link was used already, or is too old. Make a new one: "
                     "<code>tillerman serve link</code>", status=403)  # fmt: skip
    return _page("Sign in this browser?", code, button="<button>Sign in</button>")


async def trade(service: Service, failures: FailedAttempts, request: Request) -> Response:
    """Trades the code for a cookie."""
    form = parse_qs((await read_body(request, _FORM_BYTES)).decode("utf-8", "replace"))
    code = form.get("code", [""])[0]
    cookie = service.links.redeem(code)
    if cookie is None:
        if not await failures.slow():
            return _page("Too many attempts.", status=429)
        return _page("This link was used already, or is too old.", status=403)
    response = RedirectResponse("/", 303, headers=_HEADERS)
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=BROWSER_DAYS * 86_400,
        httponly=True,
        samesite="strict",
        secure=service.url.startswith("https:"),
        path="/",
    )
    return response


def _page(text: str, code: str = "", *, button: str = "", status: int = 200) -> Response:
    page = _PAGE.format(text=text, action=SIGN_IN, code=escape(code, quote=True), button=button)
    return HTMLResponse(page, status, headers=_HEADERS)
