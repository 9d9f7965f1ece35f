"""How each agent is set up for the fake model, and how it is run: without a screen, one process for each prompt."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

_INSTALL = (Path(__file__).parent / "install").read_text()
_DEADLINE_S = 120


def versions() -> dict[str, str]:
    """Agent -> the version that `install` installs."""
    return dict(re.findall(r"^(\w+)=([\d.]+)$", _INSTALL, re.MULTILINE))


def cache() -> Path:
    """Where `install` puts the agents."""
    names = ("claude", "codex", "opencode", "pi", "qwen", "llm", "ccusage", "gemini")
    base = os.environ.get("SESSIOND_CACHE") or str(Path.home() / ".cache" / "sessiond-tests")
    return Path(base) / ("agents-" + "-".join(versions()[name] for name in names))


class Agent:
    """`tool`: the importer's name. `place`: where it keeps its sessions, below the home. `prepare(home, url)` writes its
    configuration. `first`, `again`, `resume`: its arguments for a new conversation, for going on with the last one, and for going on
    with the one whose id is in the place of `ID`.
    """

    def __init__(
        self, name: str, tool: str, place: str, prepare: Callable[[Path, str], dict[str, str]], first: str, again: str, resume: str = "",
    ) -> None:  # fmt: skip
        self.name = name
        self.tool = tool
        self.place = place
        self._prepare = prepare
        self._first = first.split()
        self._again = again.split()
        self._resume = resume.split()

    def __str__(self) -> str:
        return self.name

    @property
    def program(self) -> list[str]:
        folder = cache() / self.name
        if self.name == "llm":
            return [str(folder / "bin" / "llm")]
        return [str(folder / "node_modules" / ".bin" / self.name)]

    def prepare(self, home: Path, url: str) -> dict[str, str]:
        """Write its configuration; returns its environment."""
        path = os.pathsep.join([str(cache() / "node" / "node_modules" / ".bin"), os.environ["PATH"]])
        return {
            "PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", **self._prepare(home, url),
        }  # fmt: skip

    def run(self, env: dict[str, str], folder: Path, prompt: str, *, again: bool = False) -> str:
        """Send a prompt from `folder`; returns what the agent printed."""
        return self._send(env, folder, [*(self._again if again else self._first), prompt])

    def resume(self, env: dict[str, str], folder: Path, session_id: str, prompt: str) -> str:
        """Send a prompt to the session that has this id."""
        return self._send(env, folder, [*(session_id if one == "ID" else one for one in self._resume), prompt])

    def _send(self, env: dict[str, str], folder: Path, arguments: list[str]) -> str:
        command = [*self.program, *arguments]
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _claude(home: Path, url: str) -> dict[str, str]:
    quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "IS_SANDBOX")
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", **dict.fromkeys(quiet, "1")}


def _codex(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".codex" / "config.toml",
        f"""model = "fake-model"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
tool_output_token_limit = 2000000
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
[analytics]
enabled = false
""",
    )
    return {"FAKE_KEY": "none"}


def _pi(home: Path, url: str) -> dict[str, str]:
    model = {
        "id": "fake-model", "name": "Fake", "reasoning": False, "input": ["text", "image"], "contextWindow": 100_000, "maxTokens": 4000,
        "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
    }  # fmt: skip
    fake = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
    _write(home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"fake": fake}}))
    # Only when it is told to. It would keep the last 20,000 tokens otherwise, so that a short talk could not be compacted.
    settings = {"compaction": {"enabled": False, "keepRecentTokens": 1}}
    _write(home / ".pi" / "agent" / "settings.json", json.dumps(settings))
    return {"PI_OFFLINE": "1"}


def _qwen(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "memory": {"enableManagedAutoMemory": False},  # otherwise it asks its model once more each time
        "model": {
            "name": "fake-model",
            "generationConfig": {"modalities": {"image": True}, "contextWindowSize": 1_000_000},
        },
    }
    _write(home / ".qwen" / "settings.json", json.dumps(settings))
    return {
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": "fake-model",
        "QWEN_CODE_NO_RELAUNCH": "true",
    }


def _opencode(home: Path, url: str) -> dict[str, str]:
    fake = {
        "npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"fake-model": {
            "name": "Fake", "limit": {"context": 100_000, "output": 4000}, "attachment": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
        }},
    }  # fmt: skip
    settings = {
        "autoupdate": False, "share": "disabled", "model": "fake/fake-model", "small_model": "fake/fake-model",
        "permission": "allow", "enabled_providers": ["fake"], "provider": {"fake": fake},
    }  # fmt: skip
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    quiet = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in quiet}


def _gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "model": {"name": "gemini-2.5-flash"},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    quiet = {
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    loaded = {"NODE_OPTIONS": f"--require {Path(__file__).parent / 'clock.cjs'}"}
    return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url, **quiet, **loaded}


def clock(shown: float) -> dict[str, str]:
    """The environment of a process of Gemini CLI whose clock begins at `shown` (seconds) and goes slowly."""
    return {"AGENT_CLOCK_MS": str(round(shown * 1000))}


_FUNCTION = """
import subprocess
def bash(command: str) -> str:
    "Run a command."
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
"""


def _llm(home: Path, url: str) -> dict[str, str]:
    folder = home / ".config" / "io.datasette.llm"
    _write(
        folder / "extra-openai-models.yaml",
        f"- {{model_id: fake-model, model_name: fake-model, api_base: '{url}/v1', supports_tools: true}}\n",
    )
    _write(home / "functions.py", _FUNCTION)
    return {"OPENAI_API_KEY": "none"}


AGENTS = [
    Agent(
        "claude", "claude-code", ".claude/projects", _claude,
        "--model fake-model --allowedTools Bash -p", "--model fake-model --allowedTools Bash --continue -p",
        "--model fake-model --allowedTools Bash --resume ID -p",
    ),
    Agent(
        "codex", "codex", ".codex/sessions", _codex,
        "exec --skip-git-repo-check", "exec resume --last --skip-git-repo-check",
        "exec resume --skip-git-repo-check ID",
    ),
    Agent(
        "pi", "pi", ".pi/agent/sessions", _pi,
        "--provider fake --model fake-model -p", "--provider fake --model fake-model --continue -p",
        "--provider fake --model fake-model --session ID -p",
    ),
    Agent(
        "qwen", "qwen", ".qwen/projects", _qwen,
        "--auth-type openai -y -p", "--auth-type openai -y --continue -p", "--auth-type openai -y --resume ID -p",
    ),
    Agent(
        "opencode", "opencode", ".local/share/opencode/opencode.db", _opencode,
        "run", "run --continue", "run --session ID",
    ),
    Agent(
        "llm", "llm", ".config/io.datasette.llm/logs.db", _llm,
        "prompt -m fake-model --functions ../functions.py", "prompt -c --functions ../functions.py",
    ),
]  # fmt: skip
GEMINI = Agent(
    "gemini", "gemini-cli", ".gemini/tmp", _gemini,
    "--skip-trust -y -m gemini-2.5-flash -p", "--skip-trust -y -m gemini-2.5-flash --resume latest -p",
    "--skip-trust -y -m gemini-2.5-flash --resume ID -p",
)  # fmt: skip
"""Not among the others: a minute after it was resumed, it deletes the file that it was resumed from, unless its clock is ours."""
RESUMED = [*(one for one in AGENTS if one.name != "llm"), GEMINI]
"""Those that `sessiond resume` is tried with."""
