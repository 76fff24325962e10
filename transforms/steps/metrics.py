"""What an engine's screen shows of a build: its counters.

Beam drops what threads of ours count, so a step counts in its own thread. There is no counter per
class: engines show about a hundred.
"""

from apache_beam.metrics import Metrics

from shardfeed.storage import retry


def count(**counts: int) -> None:
    """Adds to the counters of these names.

    ``retries`` gets the requests that were tried again since the last call.
    """
    for name, number in {**counts, "retries": retry.take_retries()}.items():
        Metrics.counter("shardfeed", name).inc(number)
