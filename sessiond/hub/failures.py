"""The meaning of PostgreSQL's and asyncpg's errors to a daemon. No text of theirs holds a password; a detail with a row's values is left out.

An error of the server ends the statement's transaction, so nothing was stored. Not so if the server or the link goes down: then nobody
knows, and a push becomes Indeterminate.
"""

from __future__ import annotations

import asyncio
import ssl

import asyncpg

from sessiond.errors import Conflict, InvalidParams, SessiondError, TooLarge, Unauthorized, Unavailable

OF_ASYNCPG = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Everything that a call of asyncpg raises when something goes wrong outside of this program."""
_MAY_NOT_ERASE = "may not erase in this store"
"""The end of what schema.sql says."""
_TO_THE_TRASH = (
    "a delete that is not permanent puts it into the trash; whoever runs the hub can give the right:"
    " `sessiond store members STORE --add ROLE=NAME --may-erase`"
)


class LinkLost(Unavailable):
    """The link went down while a statement was under way: it may have been carried out."""


def meaning(error: BaseException, where: str) -> SessiondError:
    """The error as one of ours. `where` names the hub, without a password."""
    if not isinstance(error, asyncpg.PostgresError):
        return _of_link(error, where)
    match error:
        case asyncpg.UniqueViolationError():
            return _of_names(error)
        case asyncpg.ObjectNotInPrerequisiteStateError():
            return Conflict(
                "another daemon has opened the hub under this replica's name",
                hint="was this machine's data folder copied from another one?",
                replica=True,
            )
        case asyncpg.InsufficientPrivilegeError() if str(error).endswith(_MAY_NOT_ERASE):
            return Unauthorized(f"the hub {where} refuses: {error}", hint=_TO_THE_TRASH, member=True)
        case asyncpg.InsufficientPrivilegeError():
            return Unauthorized(f"the hub {where} refuses: {error}", hint="ask whoever runs it to make you a member")
        case asyncpg.InvalidAuthorizationSpecificationError():
            return Unauthorized(f"the hub {where} refuses this role: {error}")
        case asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedTableError() | asyncpg.UndefinedFunctionError():
            return Unavailable(f"{where} has no hub, or an older one", hint="run `sessiond store create`")
        case asyncpg.InvalidCatalogNameError():
            return Unavailable(f"{where}: {error}")
        case asyncpg.ProgramLimitExceededError():
            return TooLarge(f"too large for the hub: {error}")
        case asyncpg.DataError() | asyncpg.IntegrityConstraintViolationError():
            return InvalidParams(f"the hub refuses: {error}")
    state = error.sqlstate or ""
    if state.startswith(("57P", "08")):
        return LinkLost(f"the hub {where} went down: {error}")
    return Unavailable(f"the hub {where} failed: {error}")


def _of_link(error: BaseException, where: str) -> SessiondError:
    if isinstance(error, ssl.SSLError):
        return Unavailable(f"no TLS with the hub {where}: {error.reason or error}")
    if isinstance(error, asyncio.TimeoutError):
        return LinkLost(f"the hub {where} does not answer")
    if isinstance(error, OSError):
        return LinkLost(f"the hub {where} cannot be reached: {error.strerror or error}")
    return LinkLost(f"the link to the hub {where} is gone: {error}")


def _of_names(error: asyncpg.UniqueViolationError) -> SessiondError:
    name = getattr(error, "constraint_name", None)
    if name == "operations_by_id":
        return Conflict("the hub's session has another operation with this id already")
    return InvalidParams(f"an operation's name was given twice ({name})")
