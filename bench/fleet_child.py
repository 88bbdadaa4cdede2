"""Agent process of bench.fleet, in the mock's protocol: `fleet_child.py GATE EVENTS A_SECOND`.

It starts when the lock on the file GATE is released. Each chunk of text is the monotonic clock in
nanoseconds, read just before it is written.
"""

import fcntl
import os
import sys
import time

gate, events, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.write(1, b'{"type":"ready","native_id":"fleet","model":"fleet"}\n')
os.read(0, 1 << 16)  # the prompt
fcntl.flock(os.open(gate, os.O_RDONLY), fcntl.LOCK_SH)
begin = time.monotonic()
for number in range(events):
    if (early := begin + number / rate - time.monotonic()) > 0:
        time.sleep(early)
    os.write(1, b'{"type":"text","id":"m1.1","text":"%d "}\n' % time.monotonic_ns())
time.sleep(0.5)  # the cost of a turn's end is measured elsewhere
os.write(1, b'{"type":"end","reason":"completed"}\n')
os.read(0, 1 << 16)  # the end
