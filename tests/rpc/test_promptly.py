"""Work that begins before the next round of the loop."""

from __future__ import annotations

import asyncio

import pytest

from sessiond.rpc.promptly import begin


async def test_the_first_step_is_done_at_once_and_the_rest_by_a_task():
    """What stands before the first wait has happened when `begin` returns; results and further waits go on as in any task."""
    seen = []
    gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work():
        seen.append("begun")
        seen.append(await gate)
        await asyncio.sleep(0)
        seen.append(asyncio.current_task() is task)

    task = begin(work())
    assert seen == ["begun"]
    gate.set_result("word")
    await task
    assert seen == ["begun", "word", True]


async def test_work_that_waits_for_nothing_needs_no_task():
    """It is through when `begin` returns."""
    seen = []

    async def work():
        seen.append(1)

    assert begin(work()) is None
    assert seen == [1]


async def test_a_wait_that_is_over_before_the_task_begins_counts():
    """The future may be done before the task has taken it over."""
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work():
        await gate

    task = begin(work())
    gate.set_result(None)
    await task


async def test_errors_and_cancellation_reach_the_work():
    """It may catch either, wait once more, and end as it likes."""
    seen = []
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work():
        try:
            await gate
        except ValueError as error:
            seen.append(str(error))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("cancelled")
            raise

    task = begin(work())
    gate.set_exception(ValueError("wrong"))
    while not seen:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["wrong", "cancelled"]


async def test_work_that_is_cancelled_before_its_task_has_run_learns_of_it():
    """Work that has begun and is cancelled in the same round of the loop is told, and can still answer."""
    told = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            told.append("cancelled")

    task = begin(work())
    assert task is not None
    task.cancel()
    await task
    assert told == ["cancelled"]
