"""`sessiond` and `python -m sessiond`. Editors wait for the first branch, so the second one's imports stay out of it."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """No arguments, or those that editors add by themselves: the relay. Anything else: the command line."""
    _fill_standard()
    arguments = sys.argv[1:]
    completing = "_SESSIOND_COMPLETE" in os.environ  # a shell asks without arguments what could follow
    added = all(argument == "--stdio" or argument.startswith("--clientProcessId=") for argument in arguments)
    if added and not completing:
        from sessiond import relay

        return relay.main(arguments)
    if arguments[:2] == ["serve", "--ready-fd"] and len(arguments) == 3:  # a client starts the daemon and waits for it
        import gc

        gc.disable()  # imports make much and leave nothing behind; `process` turns it on again
        from sessiond.daemon import process

        process.main({}, int(arguments[2]))
    from sessiond import cli
    from sessiond.cli import paths, streams

    streams.open_standard()
    return cli.main(paths.arguments(arguments))


def _fill_standard() -> None:
    """Open what of 0, 1 and 2 is closed on /dev/null, or the next file or socket would be taken for it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one


if __name__ == "__main__":
    sys.exit(main())
