"""Coroutines that continue in the same turn of the loop as soon as they can."""

from __future__ import annotations

import asyncio
import random

import pytest

from sessiond.eager import EagerFuture, EagerTask, begin, spawn, turn


async def till_done(task: EagerTask) -> None:
    async with asyncio.timeout(20):
        while not task.done():
            await asyncio.sleep(0)


async def test_the_first_step_is_done_at_once_and_the_rest_by_a_task():
    """Everything before the first wait has happened when `begin` returns; after a wait for anything but an eager future the
    coroutine runs in an asyncio task.
    """
    seen = []
    gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work():
        seen.append("begun")
        seen.append(await gate)
        await asyncio.sleep(0)
        seen.append(asyncio.current_task() is not None)

    task = begin(work())
    assert seen == ["begun"]
    gate.set_result("word")
    await till_done(task)
    assert seen == ["begun", "word", True]


async def test_work_that_waits_for_nothing_is_over_at_once():
    """It is done when `begin` returns, and cannot be cancelled any more."""
    seen = []

    async def work():
        seen.append(1)

    task = begin(work())
    assert task.done()
    assert not task.cancel()
    assert seen == [1]


async def test_what_becomes_ready_in_a_turn_goes_on_at_its_end():
    """Without a round of the loop, in the order in which it became ready, and never inside of what settled the future."""
    seen = []
    gates = [EagerFuture() for _ in range(3)]

    async def work(number: int):
        seen.append(await gates[number])

    for number in range(3):
        begin(work(number))
    with turn:
        for number in (2, 0, 1):
            with turn:
                gates[number].set_result(number)
        assert seen == []
    assert seen == [2, 0, 1]


async def test_without_a_turn_it_goes_on_in_the_next_round():
    """Code that settles a future outside a turn is not interrupted."""
    seen = []
    gate: EagerFuture[int] = EagerFuture()

    async def work():
        seen.append(await gate)

    task = begin(work())
    gate.set_result(1)
    assert seen == []
    await till_done(task)
    assert seen == [1]


async def test_spawned_work_starts_at_the_end_of_the_turn():
    """It starts after the step that spawned it."""
    seen = []

    async def inner():
        seen.append("inner")

    async def outer():
        spawn(inner())
        seen.append("outer")

    with turn:
        begin(outer())
        assert seen == ["outer"]
    assert seen == ["outer", "inner"]


async def test_tasks_of_asyncio_may_await_an_eager_future_too():
    """It is a future like any other, for as many as like."""
    gate: EagerFuture[int] = EagerFuture()
    seen = []

    async def work():
        seen.append(await gate)

    waiting = [asyncio.create_task(work()) for _ in range(2)]
    eager = [begin(work()) for _ in range(2)]
    await asyncio.sleep(0)
    with turn:
        gate.set_result(7)
    await asyncio.gather(*waiting)
    for one in eager:
        await till_done(one)
    assert seen == [7, 7, 7, 7]


@pytest.mark.parametrize("kind", [EagerFuture, lambda: asyncio.get_running_loop().create_future()])
async def test_errors_and_cancellation_reach_the_work(kind):
    """It may catch either, wait again, and end as it likes."""
    seen = []
    first, second = kind(), kind()

    async def work():
        try:
            await first
        except ValueError as error:
            seen.append(str(error))
        try:
            await second
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("cancelled")
            raise

    task = begin(work())
    first.set_exception(ValueError("wrong"))
    while not seen:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert task.cancel()
    await till_done(task)
    assert seen == ["wrong", "cancelled"]
    assert second.cancelled()


@pytest.mark.parametrize("kind", [EagerFuture, lambda: asyncio.get_running_loop().create_future()])
async def test_a_cancellation_between_the_result_and_the_next_step_is_told(kind):
    """As in a task of asyncio's: the result is there, and the coroutine is cancelled nevertheless."""
    told = []
    gate = kind()

    async def work() -> None:
        try:
            await gate
        except asyncio.CancelledError:
            told.append("cancelled")

    task = begin(work())
    gate.set_result(None)
    task.cancel()
    await till_done(task)
    assert told == ["cancelled"]
    assert gate.result() is None


async def test_work_that_cancels_itself_is_told_at_its_next_wait():
    """A request may end its own connection, which drops its reads."""
    told = []
    gate: EagerFuture[None] = EagerFuture()
    tasks: list[EagerTask] = []

    async def work() -> None:
        await gate
        tasks[0].cancel()
        try:
            await EagerFuture()
        except asyncio.CancelledError:
            told.append("cancelled")

    tasks.append(begin(work()))
    with turn:
        gate.set_result(None)
    await till_done(tasks[0])
    assert told == ["cancelled"]


async def test_an_error_that_nobody_catches_goes_to_the_loop():
    """Nobody awaits an eager task, so the loop's handler is who learns of it."""
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    async def work() -> None:
        raise ValueError("wrong")

    assert begin(work()).done()
    assert [str(error) for error in told] == ["wrong"]


def test_what_a_closed_loop_left_ready_never_runs():
    """It no longer has an owner, and must not run in the next loop of the thread."""
    seen = []

    async def work() -> None:
        seen.append("ran")

    def leave_behind() -> None:
        spawn(work())
        loop.stop()

    loop = asyncio.new_event_loop()
    loop.call_soon(leave_behind)
    loop.run_forever()
    loop.close()

    async def next_loop() -> None:
        with turn:
            pass
        await asyncio.sleep(0)

    asyncio.run(next_loop())
    assert seen == []


@pytest.mark.parametrize("seed", range(200))
def test_random_work_behaves_as_under_tasks(seed):
    """Producers, consumers and cancellations at random: each coroutine sees the same as a task of asyncio's would."""

    def story(start, make) -> list[list[str]]:
        rng = random.Random(seed)
        seen: list[list[str]] = []

        async def run() -> None:
            futures = [make() for _ in range(6)]
            running = []

            async def work(mine: list[str], awaits: list[int]) -> None:
                for which in awaits:
                    try:
                        mine.append(str(await futures[which]))
                    except asyncio.CancelledError:
                        mine.append("cancelled")
                    except ValueError as error:
                        mine.append(str(error))

            for number in range(6):
                seen.append([])
                # Each future has one waiter: a cancellation of one must not be another one's.
                running.append(start(work(seen[-1], [number])))
            for _ in range(4):
                await asyncio.sleep(0)
            for which in rng.sample(range(6), 6):
                act = rng.randrange(3)
                if futures[which].done():
                    pass
                elif act == 0:
                    futures[which].set_result(which)
                elif act == 1:
                    futures[which].set_exception(ValueError(f"wrong {which}"))
                else:
                    running[which].cancel()
                if rng.random() < 0.5:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                if rng.random() < 0.3:
                    running[rng.randrange(6)].cancel()
            for _ in range(20):
                await asyncio.sleep(0)
            assert all(one.done() for one in running)

        asyncio.run(run())
        return seen

    def plain(work):
        return asyncio.get_running_loop().create_task(work)

    def future():
        return asyncio.get_running_loop().create_future()

    assert story(begin, EagerFuture) == story(plain, future)
