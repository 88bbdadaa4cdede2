"""Program of the mock agent: simulates a coding agent over JSON lines. Stdlib only, starts fast.

Messages it sends, one object per line; inside a subagent they have `parent`, the id of its call:

    ready     native_id, model             once, at the start
    text      id, text                     a chunk of message `id`
    thought   id, text
    plan      steps                        all of them, each time: [{text, status}]
    call      id, tool, input              a tool call starts
    output    id, text                     the output of the call so far
    result    call_id, outcome, content    it ended: completed, failed, denied or cancelled
    ask       request_id, call_id, tool, input, reason, options
    question  request_id, questions
    settled   request_id, answer, by       the request is withdrawn
    tasks     tasks                        the background tasks that are running
    woke                                   a turn without a prompt starts
    took_up                                a prompt sent during another turn starts its own
    usage     input_tokens, output_tokens, cost_usd
    settings  model, mode
    notice    level, kind, text
    end       reason, failure, result      of the turn

Messages it receives:

    prompt     text, files                 within a turn: steers it
    answer     id, option, note, input, answers
    interrupt
    configure  model, mode

`scripts/README.md` describes how to write scripts.
"""

import os
import sys

if __name__ == "__main__":
    # As a separate package, because `tillerman` itself would load more than the standard library.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    __import__("program.main_loop", fromlist=["main"]).main(sys.argv[1:])
