"""`sessiond` and `python -m sessiond`. Editors wait for the first branch, so the second one's imports stay out of it."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """No arguments, or those that editors add by themselves: the relay. Anything else: the command line."""
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

    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
