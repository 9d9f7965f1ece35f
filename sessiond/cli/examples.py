"""The examples under each command's `--help` and in its manual page.

A test parses every line as the command itself does, and runs those that can run anywhere.
"""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """`line` is typed at a shell; `says` is what it is for, as one clause without a full stop."""

    says: str
    line: str


_ID = "session-20260111-143022"

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "status": (
        Example("See what is running, and where its files are", "sessiond status"),
        Example("Get the socket's path in a script", "sessiond status --json | jq -r .socket"),
    ),
    "stop": (Example("Stop the daemon; the next client starts it again", "sessiond stop"),),
    "doctor": (
        Example("Check everything; nothing is changed", "sessiond doctor"),
        Example("Repair what can be repaired, keeping a copy", "sessiond stop && sessiond doctor --repair"),
    ),
    "serve": (Example("Run the daemon under a service manager, without an idle exit", "sessiond serve --idle-exit 0"),),
    "list": (
        Example("The newest sessions", "sessiond list"),
        Example("Those of this folder, with the tag `work`", "sessiond list --cwd . --tag work"),
        Example(
            "The ids of all sessions since the new year, for a script",
            "sessiond list --all --since 2026-01-01 | cut -f1",
        ),
        Example("What is in the trash", "sessiond list --deleted"),
    ),
    "show": (
        Example("The newest messages of a session", f"sessiond show {_ID}"),
        Example("Only the last two", f"sessiond show {_ID} --last 2"),
    ),
    "new": (
        Example("Make a session with a name and a tag", 'sessiond new --name "Lock order" --tag work'),
        Example("Keep its id in a variable", 'ID=$(sessiond new --name "Lock order")'),
    ),
    "append": (
        Example("Add what you say", f'sessiond append {_ID} "Which lock is taken first?"'),
        Example("Add what another program prints", f"date | sessiond append {_ID} --role assistant"),
    ),
    "answer": (
        Example("See what a session asks", f"sessiond answer {_ID}"),
        Example("Answer with one of the choices, by its id or label", f"sessiond answer {_ID} allow"),
    ),
    "tail": (
        Example("See what any tool says in a session, as it is said", f"sessiond tail {_ID}"),
        Example("Give each change to a script, one JSON document a line", f"sessiond tail {_ID} --json --last 0"),
    ),
    "search": (
        Example("Two words in one message", "sessiond search lock order"),
        Example("A phrase, in what models said", "sessiond search '\"lock order\"' role:assistant"),
        Example("A regular expression", "sessiond search --regex 'lock_[a-z]+'"),
        Example("Which sessions of this folder mention it", "sessiond search --cwd . --sessions deadlock"),
    ),
    "stats": (
        Example("Tokens by day", "sessiond stats"),
        Example("By model, since the new year", "sessiond stats --by model --since 2026-01-01"),
    ),
    "rename": (Example("Give a session a name", f'sessiond rename {_ID} "Lock order"'),),
    "tag": (
        Example("Add two tags", f"sessiond tag {_ID} work locks"),
        Example("Remove one", f"sessiond tag {_ID} --remove locks"),
    ),
    "archive": (
        Example("Leave a session out of lists and searches", f"sessiond archive {_ID}"),
        Example("Bring it back", f"sessiond archive {_ID} --undo"),
    ),
    "fork": (Example("Go back to message 2 and continue another way", f"sessiond fork {_ID} --at 2"),),
    "resume": (
        Example("Go on with a session in Codex; prints the command", f"sessiond resume {_ID} --in codex"),
        Example(
            "Go on in Claude Code at once, with the last 20 messages",
            f"sessiond resume {_ID} --in claude --last 20 --run",
        ),
        Example("See what a tool would not be told", f"sessiond resume {_ID} --in pi --dry-run"),
        Example("See which tools are installed", "sessiond resume --targets"),
    ),
    "rm": (Example("Move a session to the trash", f"sessiond rm {_ID}"),),
    "restore": (Example("Bring a session back from the trash", f"sessiond restore {_ID}"),),
    "export": (
        Example("Print a session as Markdown", f"sessiond export {_ID}"),
        Example(
            "Write a page to share, with keys and names blanked", f"sessiond export {_ID} -f html --redact -o talk.html"
        ),
        Example("Write all sessions of a tag, a file each", "sessiond export --tag work -o work"),
    ),
    "import": (
        Example("Find what the known tools keep on this machine, and ask", "sessiond import"),
        Example("See what would be imported", "sessiond import ~/.claude/projects --dry-run"),
        Example("Import it and check that nothing is missing", "sessiond import ~/.claude/projects --report"),
    ),
    "follow on": (
        Example("Keep what every known tool writes, from now on", "sessiond follow on"),
        Example("Only Claude Code and Codex", "sessiond follow on claude-code codex"),
    ),
    "follow off": (Example("Stop following", "sessiond follow off"),),
    "follow status": (Example("See which tools are followed", "sessiond follow status"),),
    "adopt": (
        Example("Share another system's folder, in its own format", "sessiond adopt ~/.emacs.d/agent-q-sessions"),
    ),
    "store create": (
        Example(
            "Make a shared store in a database that you own, for the role ada",
            "sessiond store create team --url postgresql://db.example/sessiond --member ada=Ada",
        ),
    ),
    "store members": (
        Example("See who may use it", "sessiond store members team --url postgresql://db.example/sessiond"),
    ),
    "store join": (
        Example("Use it on this machine", "sessiond store join team --url postgresql://ada@db.example/sessiond"),
    ),
    "store leave": (Example("Stop using it on this machine", "sessiond store leave team"),),
    "store status": (Example("See whether its hub can be reached", "sessiond store status team"),),
    "store verify": (Example("Compare everything on the hub with its digests", "sessiond store verify team"),),
    "store key new": (Example("Make the key of an encrypted store", "sessiond store key new ~/team.key"),),
    "store key show": (
        Example("Show it, to copy it to another machine", "sessiond store key show ~/team.key"),
        Example("Show it to a camera", "sessiond store key show ~/team.key --qr"),
    ),
    "store key rotate": (Example("Encrypt with a new key from now on", "sessiond store key rotate ~/team.key"),),
    "mv": (
        Example(
            "See what the other store's own tool would not show",
            f"sessiond mv {_ID} --store agent-q-sessions --dry-run",
        ),
    ),
    "backup": (
        Example("Copy everything into a new folder", "sessiond backup ~/backup-of-sessions"),
        Example("Check that copy", "sessiond backup --verify ~/backup-of-sessions"),
        Example("Write one encrypted file", "sessiond backup ~/new.sealed --encrypt --key-file ~/my.key"),
    ),
    "gc": (
        Example("See which empty sessions would go", "sessiond gc"),
        Example(
            "Move archived ones that are older than 90 days to the trash",
            "sessiond gc --archived --older-than 90 --yes",
        ),
    ),
    "setup": (
        Example("See which editors are here, and what each one needs", "sessiond setup"),
        Example("Add the lines to Vim's configuration", "sessiond setup vim --write"),
        Example("Give Claude Code the memory of all tools", "sessiond setup claude --mcp --write"),
    ),
    "service install": (Example("Start the daemon at every login", "sessiond service install"),),
    "service remove": (Example("Stop doing so", "sessiond service remove"),),
    "service status": (Example("See whether the service is installed and running", "sessiond service status"),),
    "web": (
        Example("Open all sessions as a page", "sessiond web"),
        Example("Print the page's address, for a machine without a browser", "sessiond web --print"),
    ),
    "mcp": (
        Example("Serve all sessions, for reading, as agents' configurations do", "sessiond mcp"),
        Example("Serve only the sessions of this folder, with keys blanked", "sessiond mcp --cwd . --redact"),
    ),
    "acp": (
        Example("Record what an editor and opencode say", "sessiond acp -- opencode acp"),
        Example(
            "Let sessiond repeat conversations, whatever the agent can", "sessiond acp --replay sessiond -- pi-acp"
        ),
        Example("Join a conversation that another editor has", "sessiond acp --join acp-ses_1f0c2b"),
        Example("Bring in what could not be recorded while the daemon was away", "sessiond acp --recover"),
    ),
    "completion": (
        Example("Complete commands in fish", "sessiond completion fish > ~/.config/fish/completions/sessiond.fish"),
    ),
    "repl": (
        Example("Continue a session in the terminal", f"sessiond repl --session-id {_ID}"),
        Example("Let a program reply", "sessiond repl --agent 'llm -m mini'"),
    ),
    "docs": (Example("Read the documentation in a browser", "sessiond docs"),),
    "help": (
        Example("See the topics", "sessiond help"),
        Example("Read about one", "sessiond help search"),
    ),
    "demo": (
        Example("Watch three clients and a kill -9", "sessiond demo"),
        Example("Watch two machines, a cut link and a kill -9", "sessiond demo --machines"),
    ),
}
"""Command (with its subcommand) -> examples, the simplest one first."""


def epilog(name: str) -> str | None:
    """The examples as click's epilog, with its mark for lines that stay as they are; None if there are none."""
    examples = EXAMPLES.get(name)
    if examples is None:
        return None
    lines = [line for one in examples for line in (f"  {one.says}:", f"    {one.line}")]
    return "\n".join(("\b", "Examples:", *lines))
