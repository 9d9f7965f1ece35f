"""`sessiond` and `python -m sessiond`. Editors wait for the first branch, so it avoids the imports of the second."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Without arguments, or with those that editors add: the relay. Otherwise the command line."""
    _fill_standard()
    arguments = sys.argv[1:]
    completing = "_SESSIOND_COMPLETE" in os.environ  # for completions a shell calls us without arguments
    added = all(argument == "--stdio" or argument.startswith("--clientProcessId=") for argument in arguments)
    if added and not completing:
        if not arguments and os.isatty(0) and os.isatty(1):  # a person; an editor has pipes
            return _welcome()
        from sessiond import relay

        return relay.main(arguments)
    if arguments[:2] == ["serve", "--ready-fd"] and len(arguments) == 3:  # a client starts the daemon and waits for it
        import gc

        gc.disable()  # imports create many objects and little garbage; `process` turns it on again
        from sessiond.daemon import process

        process.main({}, int(arguments[2]))
    from sessiond import cli
    from sessiond.cli import paths, streams

    streams.open_standard()
    return cli.main(paths.arguments(arguments))


def _welcome() -> int:
    from sessiond import cli
    from sessiond.cli import streams

    streams.open_standard()
    return cli.main(["welcome"])


def _fill_standard() -> None:
    """Open those of 0, 1 and 2 that are closed on /dev/null; otherwise the next file or socket would take their place."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


if __name__ == "__main__":
    sys.exit(main())
