"""`bridle tui`, and `bridle` alone: the terminal interface."""

from __future__ import annotations

import gc
from argparse import Namespace

from bridle.core.errors import UsageError
from bridle.surfaces.cli.parsing import run_options
from bridle.surfaces.cli.views.std_streams import terminal


def open_screen(options: Namespace) -> int:
    if not terminal():
        raise UsageError(
            "the terminal interface needs a terminal",
            hint='in a script: bridle run "what to do"; and set TERM if it is one',
        )
    folder = run_options.working_folder(options)
    wishes = {"agent": options.agent, **run_options.limits(options)}
    from bridle.surfaces.tui.app import BridleApp

    gc.freeze()  # what is loaded stays; a screen makes garbage in circles for as long as it is open
    gc.set_threshold(2_000, 10, 10)
    app = BridleApp(folder, session=options.session, wishes=wishes)
    code = app.run()
    if app.failure:
        raise app.failure
    return app.return_code or code or 0
