"""Counters of the service, in the text format of Prometheus."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping


class Metrics:
    def __init__(self) -> None:
        self.began = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()  # method, path, status
        self.deliveries = 0  # entries sent to followers
        self.streams = 0  # open now

    def text(self, gauges: Mapping[str, float], refused: Mapping[int, int]) -> str:
        return "\n".join(self._lines(gauges, refused)) + "\n"

    def _lines(self, gauges: Mapping[str, float], refused: Mapping[int, int]) -> Iterator[str]:
        yield "# TYPE tillerman_requests_total counter"
        for (method, path, status), count in sorted(self.requests.items()):
            labels = f'method="{method}",route="{path}",status="{status}"'
            yield f"tillerman_requests_total{{{labels}}} {count}"
        yield "# TYPE tillerman_refused_total counter"
        for status, count in sorted(refused.items()):
            yield f'tillerman_refused_total{{status="{status}"}} {count}'
        yield "# TYPE tillerman_entries_delivered_total counter"
        yield f"tillerman_entries_delivered_total {self.deliveries}"
        own = {
            "tillerman_streams": self.streams,
            "process_start_time_seconds": self.began,
            "process_resident_memory_bytes": _resident(),
        }
        for name, value in {**own, **gauges}.items():
            yield f"# TYPE {name} gauge"
            yield f"{name} {value:.15g}"


def _resident() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not on Linux
        return 0
