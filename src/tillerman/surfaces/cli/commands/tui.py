"""`tillerman tui`, and `tillerman` without arguments: opens the terminal interface."""

from __future__ import annotations

import gc
from argparse import Namespace

from tillerman.core.errors import UsageError
from tillerman.surfaces.cli.parsing import run_options
from tillerman.surfaces.cli.views.std_streams import terminal


def open_screen(options: Namespace) -> int:
    if not terminal():
        raise UsageError(
            "the terminal interface needs a terminal",
            hint='in a script: tillerman run "what to do"; if this is a terminal, set TERM',
        )
    folder = run_options.working_folder(options)
    requested = {"agent": options.agent, **run_options.limits(options)}
    from tillerman.surfaces.tui.app import TillermanApp

    gc.freeze()  # loaded modules are never garbage; a long-lived screen creates reference cycles
    gc.set_threshold(2_000, 10, 10)
    app = TillermanApp(folder, session=options.session, requested=requested)
    code = app.run()
    if app.failure:
        raise app.failure
    return app.return_code or code or 0
