"""Where sessions live. `port.py` is what the service knows; the folder store keeps them in files behind the journal."""
