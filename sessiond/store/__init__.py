"""The places where sessions live. The service knows only `port.py`; the folder store keeps sessions in files behind the journal."""
