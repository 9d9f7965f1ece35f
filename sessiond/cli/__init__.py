"""The command line: one small module per command, each importing what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from sessiond.cli.output import ENDED, one_line, reason
from sessiond.cli.streams import OutputFailed
from sessiond.client.failures import AnswerLost, NotText
from sessiond.endpoint import APP, NoHome
from sessiond.errors import DaemonUnreachable, SessiondError
from sessiond.reach import Unreachable

EX_FAILED, EX_USAGE, EX_UNAVAILABLE, EX_INTERRUPTED = 1, 2, 69, 130


def main(arguments: Sequence[str]) -> int:
    """Run a command. Returns the exit code: 0 done, 1 request failed, 2 usage error, 69 no daemon, 130 interrupted."""
    from sessiond.cli.group import cli

    try:
        result = cli.main(args=[*arguments], prog_name=APP, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a command
        print(error.format_message(), file=sys.stderr)
        return EX_USAGE
    except click.UsageError as error:
        asked = error.ctx.command_path if error.ctx is not None else APP
        return complain(error.format_message(), f"{asked} --help", EX_USAGE)
    except click.Abort:
        return EX_INTERRUPTED
    except click.ClickException as error:
        return complain(error.format_message(), None, EX_FAILED)
    except (Unreachable, NoHome) as error:
        return complain(str(error), None, EX_UNAVAILABLE)
    except SessiondError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except OutputFailed as error:
        return EX_FAILED if error.unread else complain(str(error), None, EX_FAILED)
    except UnicodeEncodeError as error:
        hint = "use a UTF-8 locale, for example LC_ALL=C.UTF-8"
        return complain(f"the locale's encoding ({error.encoding}) cannot represent a file name", hint, EX_FAILED)
    except OSError as error:
        return complain(reason(error), None, EX_FAILED)
    return result if isinstance(result, int) else 0


def _failed(error: SessiondError) -> int:
    """Say why a request failed. The exit code."""
    if isinstance(error, AnswerLost):
        return complain(ENDED, None, EX_FAILED)
    if isinstance(error, NotText):
        return complain("an argument is not valid UTF-8", "check the terminal's encoding", EX_FAILED)
    from sessiond.cli.next_steps import next_step

    if isinstance(error, DaemonUnreachable):  # the message of most says what to do
        return complain(error.message, error.hint, EX_UNAVAILABLE)
    own = type(error) is SessiondError  # of a command itself, or of a kind that only a later daemon knows
    return complain(_typed(error), error.hint if own else next_step(error.kind, error.hint), EX_FAILED)


def _typed(error: SessiondError) -> str:
    """The message without the names that the wire has for what was typed."""
    field = error.data.get("field")
    return error.message.removeprefix(f"{field}: ") if field in ("mode", "query") else error.message


def complain(message: str, hint: str | None, code: int) -> int:
    """One line on stderr: what happened, and what to do about it."""
    joint = " " if message.endswith((".", "?", "!")) else "; "
    text = one_line(f"{message}{joint}{hint}" if hint else message)
    print(f"{APP}: {text}", file=sys.stderr)
    return code
