"""What `sessiond doctor` says of a daemon that runs."""

from __future__ import annotations

import pytest

from sessiond import endpoint
from sessiond.client.daemon_types import HubStatus, Status, StoreStatus
from sessiond.doctor.running import examine_daemon


@pytest.mark.parametrize(("state", "told"), [("online", ["one session cannot be read"]), ("offline", [])])
def test_what_is_wrong_with_a_hub(state: str, told: list[str]) -> None:
    """One that is away is nothing to mend: a laptop is often away from it."""
    hub = HubStatus(state=state, problem="one session cannot be read")
    status = Status(stores=[StoreStatus(name="team", hub=hub)])
    where = endpoint.places({"HOME": "/", "SESSIOND_HOME": "/nowhere"})
    found = [one for one in examine_daemon(where, status) if one.what == "hub of the store team"]
    assert [one.problem for one in found] == told
