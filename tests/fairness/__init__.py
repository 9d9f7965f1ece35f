"""Whether anybody waits for somebody else's work: one heavy client, one light one, and a table of how long the light one waits.

    python -m tests.fairness [--only LOAD ...] [--smoke] [--write docs/performance.md]

A load (`loads.py`) is one client that asks for something as large as it can be. The light client (`light.py`) is a process of its own. It
says hello, appends to a session of its own, reads that and lists, one call after the other with a short pause between, from before the load
begins until it is over. What counts is its slowest call: whoever holds the loop, a thread that all need, or the disk, shows there.
`nothing` is the same without a load: what the machine itself does to the light client at that time.

A load is a generator. Up to its first `yield`, which says what the heavy client is about to do, it prepares; what comes after is what the
light client is measured beside. What it yields then is said in the row (how long something took, how much it was).

Nothing here is a test. A shared machine delays anybody at any time, so compare a row with `nothing` in the same run. What must not become
worse is held by counts, in `test_counts.py` beside this file.
"""
