"""At a terminal: a prompt that stays at the bottom while messages from others scroll above it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import Callable

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import StdoutProxy
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sessiond.cli.output import one_line
from sessiond.client import SessiondError
from sessiond_repl.chat import Chat
from sessiond_repl.commands import Quit
from sessiond_repl.completion import Commands
from sessiond_repl.drafts import Drafts
from sessiond_repl.plain import farewell, take

PROMPT = "> "
WRITE_EVERY_S = 0.03
PATIENCE_S = 1.0
"""After this long without an answer, the user is told how to stop waiting."""
TAIL_CHARS = 1000
"""The end of a line that is still growing is shown above the prompt; the complete line once it has ended."""


class Terminal:
    """A Screen above the prompt."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.growing = ""
        self.repaint: Callable[[], object] = lambda: None

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    def head(self, text: str) -> None:
        self._print(text, "bold cyan")

    def text(self, text: str) -> None:
        self._print(text)

    def info(self, text: str) -> None:
        self._print(f"── {text}", "dim")

    def error(self, text: str) -> None:
        self._print(one_line(text), "red")

    def tail(self, text: str) -> None:
        self.growing = text
        self.repaint()

    def table(self, headings: list[str], rows: list[list[str]]) -> None:
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for nth, heading in enumerate(headings):
            drawn.add_column(heading, no_wrap=nth == 0, overflow="fold" if nth == 0 else "ellipsis")
        for row in rows:
            drawn.add_row(*(Text(("  " if cell.startswith("  ") else "") + one_line(cell)) for cell in row))
        self._console.print(drawn, width=shutil.get_terminal_size().columns)


async def converse(session_id: str | None, agent: str | None) -> int:
    """Run until /quit or Ctrl-D on an empty line."""
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(StdoutProxy(sleep_between_writes=WRITE_EVERY_S, raw=True))
        console = Console(file=proxy, force_terminal=True)  # type: ignore[arg-type]
        screen = Terminal(console)
        chat = Chat(screen, agent)
        await chat.begin(session_id)
        if agent is None:
            screen.info("no model answers: --agent CMD lets a command reply, and other tools can join · /help")
        prompt = _Prompt(chat, screen)
        try:
            await prompt.run()
        finally:
            await prompt.close()
            await chat.leave()
        farewell(chat)
    return 0


class _Prompt:
    def __init__(self, chat: Chat, screen: Terminal) -> None:
        self._chat = chat
        self._screen = screen
        self._drafts = Drafts(chat)
        self._doing: asyncio.Task[None] | None = None
        self._ending = False
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            prompt_continuation="  ",
            completer=Commands(chat),
            complete_while_typing=True,
            bottom_toolbar=self._toolbar,
            key_bindings=self._keys(),
        )
        self._session.default_buffer.on_text_changed += self._typed
        chat.repaint = screen.repaint = self._session.app.invalidate
        chat.arrived = self._arrived

    async def run(self) -> None:
        """Prompt, handle, prompt again. Text that could not be kept is put into the input again."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._ended)
        opened, text = None, ""
        while True:
            if opened is not self._chat.view:
                opened = self._chat.view
                # What could not be kept stands first, and nothing twice.
                text = "\n\n".join(dict.fromkeys(filter(None, (text, self._chat.homeless, self._chat.draft))))
                self._chat.homeless = ""
                self._drafts.opened()
                self._drafts.typed(text)
            if self._ending:
                return
            self._recall()
            try:
                typed = await self._session.prompt_async(default=text, handle_sigint=False)
                text = await self._do(typed)
                self._drafts.typed(text)
            except (Quit, EOFError):
                return

    async def _do(self, typed: str) -> str:
        """Returns the text for the next input."""
        self._doing = asyncio.create_task(take(self._chat, typed))
        try:
            if not (await asyncio.wait({self._doing}, timeout=PATIENCE_S))[0]:
                self._screen.info("waiting for the daemon; Ctrl-C takes the message back")
            await self._doing
        except SessiondError as error:
            self._chat.fail(error)
            return typed
        except asyncio.CancelledError:
            if not self._doing.cancelled():
                raise
            self._screen.error("interrupted")
            return typed
        finally:
            self._doing = None
        return ""

    async def close(self) -> None:
        await self._drafts.close()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)

    def _recall(self) -> None:
        """Fill the history: Up finds what was said in this session, in any tool."""
        history = InMemoryHistory(self._chat.history)
        self._session.history = self._session.default_buffer.history = history

    def _typed(self, buffer: Buffer) -> None:
        if not get_app().is_done:
            self._drafts.typed(buffer.text)

    def _arrived(self, text: str) -> bool:
        """A message that was given back is in the session after all: it leaves the input, unless it was changed there. Returns
        False if the input has just been entered, and is not being said yet.
        """
        app, buffer = self._session.app, self._session.default_buffer
        if self._doing is not None:
            return True
        if app.is_done or not app.is_running:
            return False
        if buffer.text in (text, f"/{text}"):
            buffer.reset()
            self._drafts.typed("")
            self._screen.info("the message was added after all")
        return True

    def _interrupted(self) -> None:
        """Ctrl-C while no prompt is shown."""
        if self._doing is not None and not self._chat.interrupt():
            self._doing.cancel()

    def _ended(self) -> None:
        """SIGTERM, or the terminal is gone."""
        self._ending = True
        if self._session.app.is_running:
            self._session.app.exit(exception=EOFError())
        elif self._doing is not None:
            self._doing.cancel()

    # What is shown

    def _message(self) -> StyleAndTextTuples:
        growing = self._screen.growing
        if not growing or get_app().is_done:
            return [("bold", PROMPT)]
        shown = growing if len(growing) <= TAIL_CHARS else "…" + growing[-TAIL_CHARS:]
        return [("", shown + "\n"), ("bold", PROMPT)]

    def _toolbar(self) -> str:
        info = self._chat.view.info
        name = one_line(info.name or info.session_id, 40)
        facts = [f"[{name}:{self._chat.view.count}]"]
        if self._chat.turn is not None:
            facts.append("the agent is writing; Ctrl-C stops it")
        if not self._chat.online:
            facts.append("no daemon; what you send waits for it")
        elif self._chat.sharing:
            facts.append(self._chat.sharing)
        return " " + "  ".join(facts)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter", filter=~completion_is_selected)
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("enter", filter=completion_is_selected)
        def choose(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None

        @keys.add("escape", "enter")
        def newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if self._chat.interrupt():
                return
            if event.current_buffer.text:
                event.current_buffer.reset()
                self._drafts.typed("")
            else:
                self._screen.info("/quit or Ctrl-D leaves")

        return keys
