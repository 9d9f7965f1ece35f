"""Limits of what passes between an editor and an agent. Not in limits.py: an editor waits for its imports."""

KIB = 1024
MIB = 1024 * KIB

HELD_BYTES = 16 * MIB
"""How much of a message is held until its end is there; one that is longer passes unseen, so it is not changed either."""
REPLAY_BYTES = 32 * MIB
"""What a conversation may hold that is repeated to an editor; of a longer one, the oldest messages are left out."""
PENDING = 4096
"""Requests without a response that are remembered; the oldest are forgotten."""
WAITING_PROMPTS = 100
"""Prompts of a session that wait for the end of another client's turn; one more is refused."""
BEHIND_BYTES = 64 * MIB
"""What may wait for a client that has joined and does not read; with more, it is let go."""
CLIENTS = 32
"""Clients that may have joined one agent; one more is refused."""
