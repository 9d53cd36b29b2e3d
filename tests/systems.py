"""The systems of the tests: the modules and tests that each system leaves out, and the parts that each must have."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

System = Literal["linux", "macos", "windows", "wine"]


def _system() -> System:
    if sys.platform == "win32":
        import ctypes

        # Only Wine's ntdll has this function; https://gitlab.winehq.org/wine/wine/-/wikis/Developer-FAQ
        return "wine" if hasattr(ctypes.WinDLL("ntdll"), "wine_get_version") else "windows"
    return "macos" if sys.platform == "darwin" else "linux"


SYSTEM = _system()
"""The system of this run. Only tests may distinguish Wine from Windows."""

REQUIRED: Mapping[System, Collection[str] | None] = {
    "linux": None,
    "macos": frozenset(("OpenSSH's client", "OpenSSH's server", "zsh")),
    "windows": frozenset(("ConPTY", "Git for Windows", "PowerShell", "Windows PowerShell")),
    "wine": frozenset(("PowerShell", "WinPTY")),
}
"""The required parts, by their names in calls of `conftest.missing`: without such a part a test fails if ``ANYSHELL_REQUIRE`` is
``all``; ``None`` stands for every part. A test that lacks another part is skipped: that part does not exist for the system,
and Wine has neither ConPTY nor the programs that Microsoft ships only with Windows."""

LEFT_OUT_ON_WINDOWS: Mapping[str, str] = {
    "test_cli_endings": "signals, process groups and controlling terminals of POSIX",
    "test_cli_fleet": "OpenSSH's server; signals and terminals of POSIX",
    "test_cli_jobs": "detached jobs are of POSIX hosts",
    "test_cli_mcp": "signals of POSIX, and scripts of its shells",
    "test_mcp_conformance": "a program of POSIX's npm drives it, and its commands are texts of a POSIX shell",
    "test_mcp_robust": "its commands are texts of a POSIX shell, and its processes as POSIX has them",
    "test_mcp_http": "its commands are texts of a POSIX shell, as those of test_mcp",
    "test_mcp": "its commands are texts of a POSIX shell",
    "test_cli_posix": "signals, descriptors and terminals of POSIX",
    "test_cli_pty": "a person's terminal as POSIX has it; tmux looks at it",
    "test_cli_console": "a person's terminal as POSIX has it; tmux looks at it",
    "test_console": "its commands are texts of a POSIX shell; textual's drawing has not been seen under Wine",
    "test_tool_console": "its commands are texts of a POSIX shell, as those of test_console",
    "test_cli_record": "its commands are texts of a POSIX shell, and tmux looks at a terminal",
    "test_cli_ssh": "OpenSSH's server, and terminals of POSIX to be asked on",
    "test_cli_status": "terminals, signals and job control of POSIX; test_status has what is the same everywhere",
    "test_detached": "detached jobs are of POSIX hosts",
    "test_effects": "its commands are texts of a POSIX shell, and its files those of POSIX",
    "test_examples": "their commands are texts of a POSIX shell",
    "test_usage": "its commands are texts of a POSIX shell; test_windows has what Windows tells",
    "test_endings": "its commands are texts of a POSIX shell; test_windows has the endings there",
    "test_in_jobs": "its commands are texts of a POSIX shell; test_windows has jobs there",
    "test_in_reach": "bubblewrap is a program of Linux",
    "test_reach": "bubblewrap and Landlock, of Linux",
    "test_reach_landlock": "Landlock, of Linux",
    "test_reach_ssh": "bubblewrap is a program of Linux, and OpenSSH's server is asked",
    "test_trial": "overlays and bubblewrap, of Linux",
    "test_trial_ssh": "overlays and bubblewrap, of Linux",
    "test_tool_trial": "overlays and bubblewrap, of Linux",
    "test_tool_widening": "bubblewrap, of Linux",
    "test_cli_trial": "overlays and bubblewrap, of Linux",
    "test_checkpoints": "its commands are texts of a POSIX shell, and its files have names and kinds of POSIX",
    "test_reach_network": "bubblewrap, of Linux",
    "test_in_sessions": "a session's shell is bash, zsh or sh",
    "test_silence": "its commands are texts of a POSIX shell",
    "test_situations": "OpenSSH's server, and commands that are texts of a POSIX shell",
    "test_sync": "its commands are texts of a POSIX shell",
    "test_whole_output": "its commands are texts of a POSIX shell",
    "test_words": "its commands are texts of POSIX shells; test_powershell has the quoting of the other",
    "test_blocking": "its commands are texts of a POSIX shell",
    "test_redirects": "its commands are texts of a POSIX shell",
    "test_ports": "the programs on that page are of POSIX, the original ones too",
    "test_first_mistakes": "its commands are texts of a POSIX shell",
    "test_mistakes": "its commands are texts of a POSIX shell",
    "test_terminals": "its commands are texts of a POSIX shell; test_windows_terminals has those of Windows",
    "test_acp": "its commands are texts of a POSIX shell, in terminals that /bin/sh starts",
    "test_adapter_anthropic": "its commands are texts of a POSIX shell",
    "test_adapter_harbor": "its commands are texts of a POSIX shell",
    "test_adapter_inspect_ai": "its commands are texts of a POSIX shell, as those of Inspect's own checks are",
    "test_adapter_kaos": "its commands are texts of a POSIX shell",
    "test_adapter_langchain": "its commands are texts of a POSIX shell",
    "test_adapter_openai_agents": "its commands are texts of a POSIX shell",
    "test_adapter_pydantic_ai": "its commands are texts of a POSIX shell, as those of Pydantic AI's own suite are",
    "test_adapter_smolagents": "its commands are texts of a POSIX shell",
    "test_adapter_strands": "its commands are texts of a POSIX shell",
    "test_adapter_swerex": "its commands are texts of a POSIX shell",
    "test_adapters": "its commands are texts of a POSIX shell",
    "test_addresses": "its commands are texts of a POSIX shell; test_ssh_windows has addresses there",
    "test_audit": "its commands are texts of a POSIX shell",
    "test_ray": "signals of POSIX, and commands that are texts of its shells",
    "test_rpc": "its commands are texts of a POSIX shell",
    "test_redaction": "its commands are texts of a POSIX shell",
    "test_tool_minimize": "its commands are texts of a POSIX shell",
    "test_tool_views": "its commands are texts of a POSIX shell",
    "test_tool_policy": "its commands are texts of a POSIX shell",
    "test_tool_git": "shells of POSIX say what a host has",
    "test_tool_powershell": "its programs are scripts of POSIX, and PowerShell under Wine",
    "test_policy_real": "its commands are texts of a POSIX shell, run by bash",
    "test_recordings": "its commands are texts of a POSIX shell; test_windows has a recording there",
    "test_terminal": "its commands are texts of a POSIX shell; test_windows_terminals drives PowerShell",
    "test_tool_terminals": "its commands are texts of a POSIX shell; test_windows_terminals has the tool as well",
    "test_linux_net": "a net of Linux's, whose place a job of Windows' has there",
    "test_local": "the local backend's POSIX half: groups, marks, descriptors, /proc",
    "test_local_terminals": "terminals as a POSIX kernel has them",
    "test_login": "login shells of POSIX",
    "test_player": "Chromium and asciinema's player, driven from Linux; it is the files that matter, not who wrote them",
    "test_policy_parsers": "bash with programs of POSIX runs lines there, to be compared",
    "test_prefix": "sudo, env, nice and the like",
    "test_replay": "a person's terminal as POSIX has it; tmux looks at it. test_replay_at_once has what is the same everywhere",
    "test_session_fork": "its shells are bash and zsh",
    "test_session_owner": "private directories, pipes and signals of POSIX",
    "test_snapshot": "the set-up of bash and zsh",
    "test_ssh": "OpenSSH's server and login shells of POSIX",
    "test_ssh_blind": "OpenSSH's server, and what a POSIX host shows of its processes",
    "test_ssh_connecting": "OpenSSH's server, client and agent",
    "test_ssh_hostile": "a server that lies as a POSIX host; the client is the same everywhere",
    "test_ssh_files": "OpenSSH's server and login shells of POSIX",
    "test_ssh_losing": "OpenSSH's server, and network namespaces",
    "test_ssh_windows": "Windows as a host that is reached by SSH from Linux",
    "test_ssh_watcher": "login shells of POSIX",
    "test_terminal_programs": "less, vim, sudo and other programs of POSIX terminals",
    "test_tree": "sessions and groups of POSIX; a job of Windows has its members from the kernel",
    "test_trees": "trees as /proc of Linux shows them",
    "test_wine": "Wine seen from Linux",
}
"""Each test module that is not run on Windows, with the reason. Single tests have a mark for that."""

COMPUTED = frozenset(
    f"test_{name}"
    for name in (
        "architecture", "asciicast", "bench", "builder", "decode", "descriptions", "docs", "emulator", "exported_members",
        "filter", "from_windows", "keys", "kitty", "logs", "map", "minimize", "package", "pages",
        "parameter_mistakes", "policy", "policy_corpus", "policy_grants",
        "policy_interception", "policy_parse", "policy_powershell", "policy_rules", "prose", "cli_policy", "rendering", "resolve", "rewrite", "screen_sets", "search", "session", "session_texts", "shells", "signals",
        "styled", "syntax", "systems", "terminal_output", "terminal_secrets", "transcript",
    )
)  # fmt: skip
"""Test modules of pure code without system calls, or modules of which only such tests run on Windows. These modules run on Linux, and on
Windows itself; under Wine, where each test costs at least a tenth of a second, they are left out."""

UNDER_WINE: Mapping[str, Mapping[str, str]] = {
    "test_artifacts": {
        "test_the_default_directory_follows_the_variable": "directories of Windows",
        "test_the_default_directory_is_the_users_state_directory": "directories of Windows",
        "test_relative_directory_is_resolved_at_creation": "directories of Windows",
        "test_processes_can_write_and_prune_one_directory_concurrently": "files that others have open",
        "test_pruning_spares_unfinished_artifact_of_another_process": "files that others have open",
        "test_unfinished_artifact_of_a_dead_process_is_pruned_after_a_day": "processes",
    },
    "test_cli": {
        "test_a_call_takes_its_parameters_from_stdin": "a call of a tool that runs PowerShell, and its stdin",
        "test_a_call_without_a_terminal_is_not_approved": "whether there is a console",
        "test_closed_reader_causes_no_traceback": "how a write to a broken pipe fails",
        "test_doctor_gives_advice_for_each_finding": "what the doctor asks of Windows",
    },
    "test_cli_run": {
        "test_several_arguments_are_taken_literally": "command lines",
        "test_cwd_and_variables_reach_the_command_with_separate_stderr": (
            "directories, variables, and whether two handles are of one file"
        ),
        "test_channels_in_one_file_keep_their_order": "whether two handles are of one file",
        "test_bytes_pass_unchanged_in_both_directions": "bytes, in pipes and in files",
        "test_output_comes_while_the_command_runs": "pipes",
        "test_closed_reader_stops_a_printing_command": "how a write to a broken pipe fails",
        "test_timeout_applies_while_the_output_is_not_read": "a write that waits",
        "test_silent_stdin_does_not_block": "a read that waits",
        "test_timeout_is_reported_and_exits_with_124": "how a tree is ended",
        "test_process_left_behind_can_be_kept": "processes, and the words that stop one",
    },
    "test_log": {
        "test_short_output_has_no_file_unless_kept": "files that are open",
        "test_discarded_log_leaves_no_file": "files that are open",
    },
    "test_selection": {
        "test_pruning_spares_artifacts_in_use_by_another_process": "files that others have open",
    },
    "test_tool": {
        "test_truncation_of_long_lines_alone_is_reported": "PowerShell",
    },
}
"""The tests of these modules that run under Wine, with the feature of the system that each uses. The other tests are independent of
the system: they run on Linux, and on Windows itself, where a program does not take seconds to start."""

ONE_WINE = frozenset(
    (
        *("test_backends", "test_bench", "test_docs", "test_policy_powershell", "test_powershell"),
        *("test_ssh_windows", "test_tool_powershell", "test_wine"),
    )
)
"""Test modules that start PowerShell under Wine on Linux. One worker runs them all, so that one Wine serves them."""

LONGEST = tuple(
    f"test_{name}"
    for name in (
        "session", "reach_ssh", "floods", "ssh", "terminals", "ssh_blind", "trees", "ssh_losing", "endings", "cli_fleet",
        "mcp_robust", "cli_console", "in_sessions", "in_reach", "trial", "cli_jobs", "policy_real", "cli_posix", "cli_mcp",
        "detached", "ssh_connecting", "local_terminals", "tool_git", "in_jobs", "reach", "trial_ssh", "cli_run", "cli_ssh",
        "terminal_programs", "transfer", "silence", "cli_status", "reach_network", "situations", "player", "package",
    )
)  # fmt: skip
"""Long test modules, the longest first: workers begin with `ONE_WINE` and these modules, so that no worker runs one of them after
the others have finished. The number of tests says little: five take two minutes in one module, 400 two seconds in another."""

NOT_QUICK: Mapping[str, str] = {
    "test_bench": "measures, for minutes",
    "test_cli_console": "tmux",
    "test_cli_cp": "SSH",
    "test_cli_fleet": "SSH",
    "test_cli_pty": "tmux",
    "test_cli_record": "tmux",
    "test_cli_ssh": "SSH",
    "test_detached": "SSH",
    "test_docs::test_code_of_a_page_works_as_shown": "a program for each block of each page, and Wine",
    "test_examples::test_windows_script_works": "Wine",
    "test_fleet": "SSH",
    "test_floods": "gigabytes",
    "test_in_jobs": "test_endings has the same of plain commands",
    "test_in_reach": "test_endings has the same of plain commands",
    "test_in_sessions": "test_endings has the same of plain commands",
    "test_linux_net": "SSH",
    "test_mcp_robust": "a thousand calls, and fifty clients",
    "test_package": "builds and installs the package",
    "test_player": "Chromium",
    "test_policy_powershell::test_cmdlet_profiles_match_real_cmdlets": "Wine",
    "test_policy_powershell::test_real_parser_matches_recorded_answers": "Wine",
    "test_powershell": "Wine",
    "test_ray": "a cluster of Ray, and a thousand environments",
    "test_reach_landlock": "SSH",
    "test_reach_ssh": "SSH",
    "test_replay": "tmux",
    "test_situations": "SSH",
    "test_ssh": "SSH",
    "test_ssh_blind": "SSH",
    "test_ssh_connecting": "SSH",
    "test_ssh_files": "SSH",
    "test_ssh_hostile": "SSH",
    "test_ssh_losing": "SSH",
    "test_ssh_watcher": "SSH",
    "test_ssh_windows": "SSH and Wine",
    "test_terminal_programs": "vim, less, sudo and other programs",
    "test_tool_powershell::test_tool_with_a_policy_has_powershell_parse_its_texts": "Wine",
    "test_trees": "sudo, su and unshare",
    "test_trial_ssh": "SSH",
    "test_wine": "Wine",
}
"""Each test module or single test that `--quick` leaves out, with its requirement. Of other modules, tests over SSH are left out."""

POSIX_TEXTS: Mapping[str, Collection[str]] = {
    "test_docs": ("test_code_of_a_page_works_as_shown",),
    "test_signals": ("test_one_call_may_have_limits_of_its_own",),
    "test_environment": (
        "env",
        "test_awaited_environment_refuses_streams",
        "test_directory_of_an_environment_is_resolved_and_must_exist",
        "test_an_unknown_shell_is_refused",
        "test_text_of_any_size_behaves_as_with_dash_c",
        "test_interactive_option_keeps_variables_of_the_host",
        "test_output_limits_of_the_environment_apply",
        "test_unexpected_store_error_is_raised_without_a_hang",
        "test_closed_environment_starts_no_command",
        "test_repeated_commands_end_with_the_environment",
        "test_background_after_bounds_the_wait_for_one_command",
    ),
    "test_jobs": (
        "env",
        "here",
        "test_a_port_of_the_host_is_waited_for",
        "test_forbidden_port_check_is_reported",
        "test_unentered_environment_has_no_jobs",
        "test_job_over_the_limit_is_refused_with_advice",
        "test_a_malformed_bound_is_refused",
        "test_complete_output_is_kept_once",
        "test_output_over_the_artifact_limit_is_counted",
        "test_output_without_an_artifact_keeps_only_its_end",
        "test_long_command_becomes_a_job_with_its_own_deadline",
        "test_later_output_of_a_backgrounded_command_follows_the_earlier",
        "test_command_that_ends_in_time_is_not_a_job",
        "test_cancelled_wait_for_a_command_stops_the_command",
        "test_command_is_awaited_if_the_job_limit_is_reached",
        "test_a_closed_environment_starts_no_job",
        "test_ended_event_loop_stops_every_job",
    ),
    "test_rewrite": (
        "test_a_rewritten_command_does_the_same",
        "test_a_command_is_left_alone_in_doubt[cd ../../../../../../../../../proc/self && pwd -P]",
        "test_other_variables_are_kept",
    ),
    "test_session": (
        "test_forged_return_of_the_shell_leaves_timeout_and_stop",
        "env",
        "local",
        "bash",
        "far",
        "test_arrays_and_options_of_bash_and_zsh_last",
        "test_leaving_the_environment_leaves_nothing",
        "test_twenty_sessions_live_at_once_over_ssh",
        "test_single_lines_act_like_one_script",
        "test_command_bound_to_its_shell_does_not_run_in_another",
        "test_stop_reaches_processes_in_the_pid_namespace_of_a_prefix",
        "test_output_before_the_shell_starts_is_ignored",
        "test_status_is_not_taken_from_a_readonly_variable",
        "test_shell_that_ends_at_once_is_reported",
        "test_forged_messages_without_the_shells_numbers_change_nothing",
        "test_unfinished_text_of_zsh_ends_with_its_own_lines",
        "test_repeated_interrupts_keep_a_busy_shell",
        "test_debug_trap_of_zsh_prints_nothing_among_the_variables",
        "test_disabled_builtin_does_not_break_the_next_command",
        "test_zsh_that_skips_its_lines_after_an_interrupt_is_asked_again",
        "test_late_question_to_zsh_does_not_interrupt_the_next_command",
        "test_a_shell_that_cannot_be_killed_is_abandoned_and_named",
        "test_generated_lines_exclude_lines_that_end_a_bash_script",
    ),
    "test_terminal_lines": ("test_driven_terminal_gives_its_lines_and_foreground",),
    "test_calls": ("env", "here"),
    "test_tool": (
        "env",
        "test_truncation_says_which_lines_are_shown",
        "test_output_cut_within_one_line_does_not_mention_zero_lines",
        "test_script_after_a_leading_cd_can_return",
        "test_no_leading_cd_is_taken_off_for_zsh",
        "test_leading_cd_to_home_is_left_to_the_shell",
        "test_inaccessible_real_directory_is_left_to_the_shell",
        "test_model_sets_any_variable_without_guards",
        "test_truncated_output_names_the_whole_output",
        "test_unkept_output_is_reported",
        "test_environment_that_was_not_entered_gives_no_updates",
    ),
    "test_tool_jobs": (
        "env",
        "here",
        "test_too_many_jobs_are_a_result_that_names_the_way_out",
        "test_long_command_becomes_a_job_and_keeps_its_deadline",
        "test_without_jobs_long_command_is_awaited",
        "test_large_output_is_shown_in_pieces_that_name_the_next_piece",
        "test_approver_of_input_sees_how_the_job_was_started",
        "test_a_kept_output_is_shown_by_the_name_of_its_file_too",
        "test_discarded_output_of_a_job_is_not_promised",
    ),
    "test_tool_sessions": (
        "env",
        "here",
        "test_question_is_reported_despite_the_message_of_a_stopped_shell",
        "test_closed_tool_only_reports_that_state",
        "test_session_needs_an_entered_environment",
    ),
    "test_variables": (
        "repository",
        "test_less_called_by_name_ends_without_a_key",
        "test_ssh_does_not_ask_for_a_passphrase",
        "test_no_variable_of_the_host_brings_a_person_or_colour_back",
    ),
}
"""The tests of these modules that are left out on Windows because their commands are texts of a POSIX shell: by their
names, or by the names of their fixtures. Separate modules test the same with texts of PowerShell
(test_windows, test_session_windows, test_windows_terminals, test_cli_run)."""
