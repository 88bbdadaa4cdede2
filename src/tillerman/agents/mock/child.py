"""The mock's program: a pretended coding agent over JSON lines. Stdlib only, quick to start.

What it says, one object a line; what happens inside a subagent has `parent`, the id of its call:

    ready     native_id, model             once, at the start
    text      id, text                     a piece of message `id`
    thought   id, text
    plan      steps                        all of them, each time: [{text, status}]
    call      id, tool, input              a tool call begins
    output    id, text                     what the call shows by now
    result    call_id, outcome, content    it ended: completed, failed, denied or cancelled
    ask       request_id, call_id, tool, input, reason, options
    question  request_id, questions
    settled   request_id, answer, by       it asks no longer
    tasks     tasks                        the background work that is under way
    woke                                   a turn that nobody prompted begins
    took_up                                words that were said within another turn begin theirs
    usage     input_tokens, output_tokens, cost_usd
    settings  model, mode
    notice    level, kind, text
    end       reason, failure, result      of the turn

What it hears:

    prompt     text, files                 within a turn: words to steer it
    answer     id, option, note, input, answers
    interrupt
    configure  model, mode

`scripts/README.md` tells how scripts are written.
"""

import os
import sys

if __name__ == "__main__":
    # As a package of its own, because `tillerman` itself would load more than the standard library.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    __import__("program.main_loop", fromlist=["main"]).main(sys.argv[1:])
