"""Whether a client waits for another client's work: one heavy client, one light one, and a table of how long the light one
waits.

    python -m tests.fairness [--only LOAD ...] [--smoke] [--write docs/performance.md]

A load (`loads.py`) is one client that requests something as large as possible. The light client (`light.py`) is a separate
process. It says hello, appends to its own session, reads that and lists, one call after another with a short pause between,
from before the load begins until it is over. Its slowest call counts: it shows whether something holds the loop, a thread
that all need, or the disk. `nothing` is the same without a load: what the machine itself does to the light client at that
time.

A load is a generator. Up to its first `yield`, which says what the heavy client is about to do, it prepares; the light
client is measured during the rest. What the generator yields then is in the row (how long something took, how much it was).

Nothing here is a test. A shared machine delays any client at any time, so compare a row with `nothing` in the same run.
`test_counts.py` next to this file checks by counts what must not become worse.
"""
