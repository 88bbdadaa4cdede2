"""The program behind `tillerman_acme`: it greets, requests to run one command, and exits."""

import json
import subprocess
import sys


def say(**message):
    print(json.dumps(message), flush=True)


model = sys.argv[2] if len(sys.argv) > 2 else "acme-1"
say(session="acme-session", model=model)
for line in sys.stdin:
    message = json.loads(line)
    if "user" in message:
        say(text=f"You said {message['user']!r}. ")
        say(may_i="1", command="echo acme > acme.txt")
    elif "decision" in message:
        if message["yes"]:
            subprocess.run("echo acme > acme.txt", shell=True, check=True)
        say(ran="1", ok=message["yes"])
        say(text="Goodbye.")
        say(done=True)
