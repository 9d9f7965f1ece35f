"""Which tests a run takes: three tiers, by folder, in one table.

    unit   pure, or one process with fakes; needs nothing but the dev extra    `pytest`
    run    real daemons, the wire, kill -9, faults, one true run of each       `sh tests/run`
           client and of one agent; explorations with a few fixed seeds
    all    every client, agent, planted bug, package and Python;               `sh tests/run --all`
           explorations for as long as they are given

Each tier has the ones above it. Whoever names files, folders or tests gets all that is in them, of every tier.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class Tier(enum.IntEnum):
    UNIT = 1
    RUN = 2
    ALL = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Budget:
    """`wall_s`, `cpu_s`: what a tier may take on two cores, with what is installed already; in seconds, of the clock and of both
    processors together.
    """

    wall_s: float
    cpu_s: float


BUDGETS = {
    Tier.UNIT: Budget(90, 170),
    Tier.RUN: Budget(600, 1080),
    Tier.ALL: Budget(3600, 7200),
}
"""Without what `scripts/check` takes, which has a budget of its own there."""

# The longest beginning of a test's name that is here decides.
_U, _R, _A = Tier.UNIT, Tier.RUN, Tier.ALL
TABLE: dict[str, Tier] = {
    "tests": _R,
    "tests/accepted": _R,
    "tests/acp/test_doing.py": _A,
    "tests/acp/test_join.py": _A,
    "tests/acp/test_recorded.py": _A,
    "tests/acp/test_requests.py": _U,
    "tests/acp/test_sharing.py": _U,
    "tests/acp/test_spool.py": _U,
    "tests/adapters/test_adapter_docs.py": _A,
    "tests/adapters/test_adapter_imports.py": _A,
    "tests/adapters/test_adapter_lives.py": _A,
    "tests/adapters/test_adapter_resume.py": _A,
    "tests/adapters/test_ai_sdk.py": _A,
    "tests/adapters/test_openai_agents.py": _A,
    "tests/agent_host": _U,
    "tests/agent_host/test_actions.py::test_vs_code_itself_has_our_state": _A,
    "tests/agent_host/test_bad_windows.py": _A,
    "tests/agent_host/test_listening.py": _A,
    "tests/agent_host/test_listening.py::test_windows_find_it_from_the_start": _R,
    "tests/agent_host/test_vectors.py::test_vs_code_does_what_the_protocol_says": _A,
    "tests/agent_host/test_host.py": _A,
    "tests/agent_host/test_host.py::test_a_window_lists_opens_and_follows": _R,
    "tests/agent_host/test_host.py::test_a_window_that_was_away_is_whole_again": _R,
    "tests/agent_host/test_host.py::test_a_wrong_token_or_page_stays_out": _R,
    "tests/agent_host/test_writing.py": _A,
    "tests/agent_host/test_writing.py::test_a_typed_message_is_answered_by_whoever_is_attached": _R,
    "tests/agent_host/test_writing.py::test_the_right_to_write_is_the_tokens": _R,
    "tests/agents": _A,
    "tests/agents/test_agents.py::test_what_came_in_is_what_the_model_was_sent[claude]": _R,
    "tests/autostart/test_definitions.py": _A,
    "tests/bench": _A,
    "tests/cli/test_answer_command.py": _R,
    "tests/cli/test_demo_machines.py": _A,
    "tests/cli/test_export_command.py": _A,
    "tests/cli/test_export_command.py::test_one_goes_where_it_is_told": _R,
    "tests/cli/test_export_command.py::test_redaction_blanks_and_says_what": _R,
    "tests/cli/test_filters.py": _A,
    "tests/cli/test_hook.py": _R,
    "tests/cli/test_repair.py": _A,
    "tests/cli/test_search_command.py::test_when_there_are_colours": _A,
    "tests/cli/test_setup_agent_host.py": _A,
    "tests/cli/test_setup_agent_host.py::test_they_are_added_once": _R,
    "tests/cli/test_setup_command.py": _A,
    "tests/cli/test_stats_command.py": _A,
    "tests/clients": _A,
    "tests/clients/test_browser_activity.py": _R,
    "tests/clients/test_browser_page.py::test_streaming_is_live": _R,
    "tests/clients/test_browser_page.py::test_two_tabs_and_another_program": _R,
    "tests/clients/test_circle.py": _R,
    "tests/clients/test_emacs.py::test_live_with_another_client": _R,
    "tests/clients/test_lisp.py::test_live_sharing": _R,
    "tests/clients/test_neovim.py::test_shared_live_with_a_script": _R,
    "tests/clients/test_repl.py::test_agent_by_lines": _R,
    "tests/clients/test_repl.py::test_kill_while_idle": _R,
    "tests/clients/test_repl.py::test_live": _R,
    "tests/clients/test_repl.py::test_say_and_resume": _R,
    "tests/clients/test_vim.py::test_shared_live_with_a_script": _R,
    "tests/clients/test_vscode.py::test_in_the_extension_host[live]": _R,
    "tests/clients/test_vscode.py::test_types": _R,
    "tests/clients/test_words.py::test_exports[generated-html]": _R,
    "tests/clients/test_words.py::test_exports[generated-markdown]": _R,
    "tests/clients/test_words.py::test_exports[generated-org]": _R,
    "tests/clients/test_words.py::test_exports[generated-text]": _R,
    "tests/clients/test_words.py::test_the_terminal[generated]": _R,
    "tests/clients/test_words_page.py::test_what_was_said_is_shown": _R,
    "tests/daemon/test_damaged_journal.py::test_6_the_doctor_is_not_content_till_it_is_acknowledged[False]": _A,
    "tests/daemon/test_hostile.py": _A,
    "tests/daemon/test_questions.py": _A,
    "tests/daemon/test_semantic_mode.py": _A,
    "tests/daemon/test_usage_counts.py": _A,
    "tests/exporters": _U,
    "tests/exporters/test_org_export.py": _R,
    "tests/fairness": _A,
    "tests/formats": _U,
    "tests/formats/test_agent_q_codings.py": _R,
    "tests/formats/test_agent_q_emacs.py": _R,
    "tests/formats/test_amacs_in_emacs.py": _R,
    "tests/formats/test_cortex.py": _R,
    "tests/formats/test_lisp_roundtrip.py": _R,
    "tests/formats/test_roundtrip.py": _R,
    "tests/formats/test_sibyl_sbcl.py": _R,
    "tests/formats/test_theia.py": _R,
    "tests/hub/test_address.py": _U,
    "tests/hub/test_bodies.py": _U,
    "tests/hub/test_commands.py": _A,
    "tests/hub/test_pooler.py": _A,
    "tests/hub/test_roles.py": _A,
    "tests/hub/test_sealing.py": _A,
    "tests/hub/test_tls.py": _A,
    "tests/importers": _U,
    "tests/importers/test_databases_in_use.py": _R,
    "tests/importers/test_databases_that_grow.py": _R,
    "tests/importers/test_files_that_grow.py": _R,
    "tests/importers/test_reads_on.py::test_random_lives[pi]": _A,
    "tests/importers/test_reads_on.py::test_random_lives[qwen]": _A,
    "tests/importers/test_said_less.py": _R,
    "tests/importers/test_said_less.py::test_each_tool_changes_everything": _A,
    "tests/importers/test_taken_away.py": _R,
    "tests/index": _U,
    "tests/index/test_filter_tool_parent.py": _R,
    "tests/index/test_index_damage.py": _R,
    "tests/index/test_index_search.py": _R,
    "tests/index/test_index_writer.py": _R,
    "tests/index/test_narrowing.py": _R,
    "tests/index/test_preparer.py": _R,
    "tests/index/test_regex.py": _R,
    "tests/index/test_semantic.py": _A,
    "tests/index/test_sieve.py": _R,
    "tests/journal": _U,
    "tests/journal/test_crashes.py": _R,
    "tests/mcp/test_mcp_inspector.py": _A,
    "tests/mcp/test_mcp_private_races.py": _A,
    "tests/mcp/test_mcp_wire.py": _A,
    "tests/model": _U,
    "tests/order/test_heartbeat.py": _A,
    "tests/order/test_pairs.py::test_pairs_on_a_large_session": _A,
    "tests/order/test_pairs.py::test_pairs_on_a_loaded_session": _A,
    "tests/order/test_pairs.py::test_pairs_on_a_session_in_the_trash": _A,
    "tests/order/test_pairs.py::test_pairs_on_a_session_that_is_read_in_two_steps": _A,
    "tests/resume/test_resume_corpus.py": _A,
    "tests/resume/test_resume_refused.py": _A,
    "tests/resume/test_selection.py": _U,
    "tests/rpc": _U,
    "tests/scripts/test_release.py": _A,
    "tests/service": _U,
    "tests/service/test_follow_equals_import.py": _R,
    "tests/shared/test_clients.py": _A,
    "tests/shared/test_many_sessions.py": _A,
    "tests/shared/test_many_sessions.py::test_a_new_machine_lists_everything_before_it_has_any_of_it": _R,
    "tests/shared/test_page.py": _A,
    "tests/shared/test_page_states.py": _A,
    "tests/shared/test_streams.py": _A,
    "tests/site": _A,
    "tests/store": _U,
    "tests/store/test_crash.py": _R,
    "tests/store/test_edit_or_torn.py": _R,
    "tests/store/test_expiry.py": _R,
    "tests/store/test_git_merges.py": _R,
    "tests/store/test_making.py": _R,
    "tests/suite/test_judge.py": _A,
    "tests/suite/test_judge.py::test_a_broken_test_fails_the_run": _R,
    "tests/suite/test_judge.py::test_a_test_that_fails_every_other_time_is_printed": _R,
    "tests/suite/test_judge.py::test_one_more_fails_the_run": _R,
    "tests/suite/test_judge.py::test_the_command": _R,
    "tests/suite/test_tiers.py": _U,
    "tests/surroundings/test_descriptors.py": _A,
    "tests/surroundings/test_file_systems.py": _A,
    "tests/surroundings/test_locales.py": _A,
    "tests/surroundings/test_install.py": _A,
    "tests/surroundings/test_pythons.py": _A,
    # In `scripts/check`.
    "tests/test_docs.py": _A,
    "tests/test_house.py": _A,
    "tests/transports": _U,
}


def tier_of(test: str, table: dict[str, Tier] = TABLE) -> Tier:
    """`test`: the name of a test, a file or a folder, from the root of the project, with `/` and `::`."""
    return next(table[name] for name in _beginnings(test) if name in table)


def _beginnings(test: str) -> Iterator[str]:
    """A test, without its parameters, its class, its file, its folders."""
    yield test
    name, separator = test.partition("[")[0], "/"
    while separator:
        yield name
        name, separator, _ = name.rpartition("::" if "::" in name else "/")


def tiers_in(path: str, table: dict[str, Tier] = TABLE) -> set[Tier]:
    """The tiers of the tests of a file or below a folder. `path` may also be one test."""
    below = (tier for name, tier in table.items() if name.startswith((f"{path}/", f"{path}::")))
    return {tier_of(path, table), *below}


def lowest_in(path: str, table: dict[str, Tier] = TABLE) -> Tier:
    return min(tiers_in(path, table))
