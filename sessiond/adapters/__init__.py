"""Stores for the agents' own SDKs: each module implements the interface of one SDK on top of `sessiond.client`.

| module | interface | extra |
| --- | --- | --- |
| `openai_agents` | `Session` of the OpenAI Agents SDK | `sessiond[openai-agents]` |
| `claude_agent_sdk` | `SessionStore` of the Claude Agent SDK | `sessiond[claude-agent-sdk]` |
| `langchain` | `BaseChatMessageHistory` of langchain-core | `sessiond[langchain]` |

An adapter writes one message for each item of its SDK. The message has what people and other tools read (role, text, tool calls,
thinking), and in its metadata the item as the SDK gave it. See docs/adapters.md.
"""
