"""The hub of a shared store: orders what several daemons do to the same sessions.

Nothing is imported here: asyncpg and cryptography are there only with the extra `sessiond[postgres]`.
"""
