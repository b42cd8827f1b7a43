"""A pytest plugin of `make cases`: which test shows which sentence of which case, and how they ended.

Decides which tests run beside those that are marked `cases`, and that a sentence whose note was changed, or
whose test is gone, fails. The sentences are read from the notes in the cases' folder: none of them is here.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

LOCKS, ENGINES, KEYS = "test_shared_locks", "test_shared_engines", "test_shared_keys"
SWAP = "test_llama_swap_cases"


@dataclass(frozen=True, slots=True)
class Later:
    """A sentence, or a part of one, about what does not exist here yet."""

    why: str


WINDOWS: Final = Later("windows and their deadman are of a later issue")
Row = tuple[str | Later, ...]
"""The tests that show one sentence, each as `module::test`."""

SHOWN: Final[Mapping[str, tuple[Row, ...]]] = {
    "BG-12": (
        (
            f"{ENGINES}::test_a_kill_between_two_boxes_frees_neither",
            "test_faults_crash::test_a_kill_after_the_intent_and_before_the_effect",
            "test_faults_crash::test_a_kill_after_the_effect_and_before_its_record",
            "test_faults_crash::test_a_kill_between_two_undos",
            "test_faults_crash::test_a_kill_after_an_undo_and_before_its_record",
        ),
        (
            f"{LOCKS}::test_an_owner_that_is_killed_loses_the_lease_in_time",
            "test_faults_waiters::test_a_waiter_that_is_killed",
        ),
        (
            f"{LOCKS}::test_an_exit_trap_spares_the_next_holder",
            f"{LOCKS}::test_nobody_releases_what_is_anothers",
            "test_faults_crash::test_a_release_that_is_repeated",
            "test_faults_holder::test_a_child_that_is_suspended_and_a_wrapper_that_lives",
        ),
        (
            "test_leases::test_an_engine_that_does_not_come_back_is_stuck_until_a_release_succeeds",
            "test_faults_health::test_an_engine_that_never_comes_back",
        ),
    ),
    "BG-23": (
        ("test_shared_names::test_ids_are_the_daemon_s",),
        (
            "test_shared_names::test_a_strange_id_is_nobody_s",
            "test_client_saved::test_an_id_from_outside_is_no_file_name",
            "test_lease_adapters::test_names_lead_nowhere_else",
        ),
        (
            "test_log_links::test_a_link_in_a_log_s_place_shows_nothing",
            "test_log_links::test_a_link_in_a_log_s_place_is_not_followed",
        ),
        (
            "test_shared_names::test_a_strange_id_is_nobody_s",
            "test_api_schedule_jobs::test_a_strange_id_over_http",
        ),
    ),
    "BG-27": (
        (
            f"{KEYS}::test_no_key_is_told_anywhere",
            f"{KEYS}::test_the_search_finds_each_form",
            "test_api_schedule_jobs::test_the_callers_own_key_is_told_nowhere",
            "test_api_schedule_jobs::test_a_wrong_key_is_not_told_back",
            Later("the dashboard is of a later issue"),
        ),
        (f"{KEYS}::test_no_key_is_told_anywhere",),
        (
            "test_config_clear_secrets::test_a_command_is_shown_without_its_secrets",
            "test_config_clear_secrets::test_what_reads_like_a_secret_in_a_command",
        ),
    ),
    "BG-31": (
        (
            "test_config_relations::test_a_relation_of_a_route_is_checked",
            Later("a running daemon does not read its config again yet"),
        ),
        (Later("peers are of a later issue"),),
        (
            f"{ENGINES}::test_an_allow_list_does_not_follow_an_alias",
            f"{ENGINES}::test_an_allow_list_is_what_it_was_at_the_grant",
        ),
    ),
    "JB-01": (
        (
            f"{LOCKS}::test_an_owner_that_is_killed_loses_the_lease_in_time",
            f"{LOCKS}::test_a_lease_outlives_the_shell_that_took_it",
        ),
        (
            f"{LOCKS}::test_nobody_releases_what_is_anothers",
            f"{LOCKS}::test_an_exit_trap_spares_the_next_holder",
        ),
        (f"{LOCKS}::test_work_under_leases_never_overlaps",),
        (
            f"{LOCKS}::test_without_a_schedule_nothing_runs",
            f"{LOCKS}::test_a_state_that_cannot_be_used_runs_nothing",
            "test_examples::test_a_guarded_command_without_hostler",
        ),
    ),
    "JB-03": (
        (
            f"{LOCKS}::test_a_lease_outlives_the_shell_that_took_it",
            f"{LOCKS}::test_an_owner_that_is_killed_loses_the_lease_in_time",
        ),
        (
            f"{LOCKS}::test_work_under_leases_never_overlaps",
            f"{LOCKS}::test_work_without_a_common_lease_overlaps",
        ),
        (f"{LOCKS}::test_a_pair_gets_its_turn_before_later_singles",),
    ),
    "JB-07": (
        (
            f"{ENGINES}::test_only_what_was_registered_is_ended",
            "test_faults_holder::test_a_holder_that_is_suspended_past_its_hard_end",
        ),
        (WINDOWS,),
        (
            "test_faults_time::test_a_wall_clock_that_jumps_ends_nothing",
            "test_faults_time::test_a_head_that_was_suspended_for_two_hours",
        ),
        (WINDOWS,),
    ),
    "JB-08": (
        ("test_leases::test_a_lease_is_taken_and_released_under_fire",),
        (
            "test_leases::test_a_lease_is_taken_and_released_under_fire",
            f"{ENGINES}::test_another_model_in_the_place_gets_no_traffic",
        ),
        (
            f"{LOCKS}::test_a_lease_outlives_the_shell_that_took_it",
            f"{LOCKS}::test_work_under_leases_never_overlaps",
        ),
    ),
    "JB-11": (
        (
            f"{LOCKS}::test_work_under_leases_never_overlaps",
            f"{LOCKS}::test_a_state_that_cannot_be_used_runs_nothing",
            "test_client_saved::test_a_file_that_others_can_read_counts_for_nothing",
            "test_daemon_lock::test_a_link_is_not_followed",
            "test_store_sqlite_file::test_a_file_that_cannot_be_used_is_kept_as_found",
        ),
    ),
    "LS-02": (
        (f"{SWAP}::test_an_old_profile_is_refused_with_its_set",),
        (
            f"{SWAP}::test_an_old_profile_is_refused_with_its_set",
            f"{SWAP}::test_the_offered_set_lets_both_run",
        ),
        (
            f"{SWAP}::test_an_old_profile_is_refused_with_its_set",
            f"{SWAP}::test_without_the_set_that_is_said",
        ),
        (f"{SWAP}::test_the_offered_set_lets_both_run",),
        (f"{SWAP}::test_the_offered_set_lets_both_run",),
    ),
    "LS-04": (
        (f"{SWAP}::test_notes_behind_arguments_are_warned_of",),
        (f"{SWAP}::test_notes_behind_arguments_are_warned_of",),
        (f"{SWAP}::test_paths_and_times_are_kept",),
        (f"{SWAP}::test_paths_and_times_are_kept",),
    ),
    "LS-06": (
        (f"{SWAP}::test_one_entry_one_need",),
        (f"{SWAP}::test_what_is_known_of_an_entry_survives",),
        (f"{SWAP}::test_a_file_becomes_a_config_that_is_right",),
    ),
    "LS-08": (
        (f"{SWAP}::test_windows_paths_are_refused",),
        (f"{SWAP}::test_windows_paths_are_refused",),
        (Later("Windows is not supported: the importer refuses it"),),
        (f"{SWAP}::test_windows_paths_are_refused",),
        (Later("of the note itself"),),
    ),
    "LS-09": (
        (f"{SWAP}::test_three_models_on_one_port",),
        (
            f"{SWAP}::test_three_models_on_one_port",
            "test_config_engines::test_two_on_one_port_exclude_each_other",
        ),
        ("test_driver_conformance::test_a_stranger_on_the_port_is_named_and_left_alone",),
        ("test_driver_conformance::test_a_started_engine_gets_ready_as_itself",),
        (f"{SWAP}::test_three_models_on_one_port",),
    ),
    "LS-10": (
        (
            f"{SWAP}::test_a_positional_port_of_a_relative_script",
            "test_import_cli::test_where_llama_swap_is_started_in",
        ),
        (
            "test_driver_conformance::test_a_stop_is_seen_to_have_worked",
            "test_driver_process::test_a_stop_ends_members_of_other_sessions",
        ),
        (f"{SWAP}::test_a_positional_port_of_a_relative_script",),
        (f"{SWAP}::test_a_positional_port_of_a_relative_script",),
    ),
    "LS-12": (
        (
            f"{SWAP}::test_a_wildcard_is_no_destination",
            "test_residency::test_an_idle_engine_is_unloaded_after_its_ttl",
            "test_watch::test_an_idle_engine_is_unloaded",
        ),
        (f"{SWAP}::test_a_wildcard_is_no_destination",),
    ),
    "LS-13": (
        (f"{SWAP}::test_unknown_keys_are_told_once",),
        (f"{SWAP}::test_unknown_keys_are_told_once",),
        (f"{SWAP}::test_a_stop_by_pattern_is_not_taken_over",),
        (
            f"{SWAP}::test_the_matrix_in_groups",
            Later("costs do not choose between sets: groups speak of pairs, and that is told"),
        ),
        (f"{SWAP}::test_the_matrix_in_groups",),
        (f"{SWAP}::test_the_matrix_in_groups",),
        (f"{SWAP}::test_the_matrix_in_groups",),
        (f"{SWAP}::test_a_long_file_is_quick",),
    ),
    "LS-15": (
        (f"{SWAP}::test_a_script_and_who_fills_it_in",),
        (
            f"{SWAP}::test_limits_are_a_queue_with_an_end",
            Later("the gateway keeps no bound of an engine yet"),
        ),
        (
            f"{SWAP}::test_limits_are_a_queue_with_an_end",
            Later("answers are passed on as they came; the report says so"),
        ),
        (f"{SWAP}::test_no_two_fit_by_numbers",),
    ),
}

_RIGHT: Final = re.compile(r"^Right behaviour[^:]*: (.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_END: Final = re.compile(r";\s+|\.\s+(?=[A-Z0-9])")
PROPERTY: Final = "cases"
WIDTH: Final = 66
"""Columns of a sentence."""
FAILED: Final = "FAILED"


def sentences(note: Path) -> list[str]:
    """The sentences under "Right behaviour" of a case's note."""
    found = _RIGHT.search(note.read_text(encoding="utf-8"))
    return [part.strip(" .\n") for part in _END.split(found[1])] if found else []


def name_of(node: str) -> str:
    """`module::test` of a node id, without its folder and its parameters."""
    path, _, test = node.partition("::")
    return f"{Path(path).stem}::{test.partition('[')[0]}"


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the printed table."""

    case: str
    sentence: str
    result: str
    tests: Sequence[str] = ()


@dataclass(eq=False)
class Table:
    """The plugin: what was collected, and how it ended."""

    ends: dict[str, set[str]] = field(default_factory=dict)
    naming: dict[str, set[str]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep what is marked `cases`, what the table names, and what names a case in its docstring."""
        wanted = {one for rows in SHOWN.values() for row in rows for one in row if isinstance(one, str)}
        kept: list[pytest.Item] = []
        rest: list[pytest.Item] = []
        for item in items:
            doc = str(getattr(getattr(item, "function", None), "__doc__", "") or "")
            cases = sorted(set(re.findall(r"\b(?:BG|JB|LS|PT)-\d\d\b", doc)))
            item.user_properties.append((PROPERTY, cases))
            marked = item.get_closest_marker("cases") is not None or bool(cases)
            (kept if marked or name_of(item.nodeid) in wanted else rest).append(item)
        config.hook.pytest_deselected(items=rest)
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended, whichever process ran it."""
        name = name_of(report.nodeid)
        if report.when == "call" or report.outcome != "passed":
            self.ends.setdefault(name, set()).add(
                "xfailed" if hasattr(report, "wasxfail") else report.outcome
            )
        for key, cases in report.user_properties:
            if key == PROPERTY and isinstance(cases, list):
                for case in cases:
                    self.naming.setdefault(str(case), set()).add(name)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Make the table; a sentence that is not shown fails the whole run."""
        if hasattr(session.config, "workerinput"):
            return
        folder = session.config.getoption("--cases") or os.environ.get("HOSTLER_CASES")
        self.lines = list(self.made(Path(str(folder)))) if folder else []
        if any(line.result.startswith(FAILED) for line in self.lines) and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def made(self, folder: Path) -> Iterator[Line]:
        """The rows, in the order of the cases."""
        for note in sorted(folder.glob("*/*.md")):
            case = note.stem
            if case not in SHOWN:
                tests = sorted(self.naming.get(case, ()))
                found = self.result(tests) if tests else "no test names it"
                yield Line(case, f"(whole case) {_title(note)}", found, tests)
                continue
            said, rows = sentences(note), SHOWN[case]
            if len(said) != len(rows):
                yield Line(
                    case, f"{len(said)} sentences, {len(rows)} in the table", f"{FAILED}: note changed"
                )
            for sentence, row in zip(said, rows, strict=False):
                tests = [one for one in row if isinstance(one, str)]
                later = [one.why for one in row if isinstance(one, Later)]
                result = self.result(tests) if tests else "later"
                yield Line(case, sentence, "; ".join([result, *later]), tests)

    def result(self, tests: Sequence[str]) -> str:
        """How these tests ended, the worst of them first."""
        gone = [test for test in tests if test not in self.ends]
        if gone:
            return f"{FAILED}: there is no {', '.join(gone)}"
        ends = set().union(*(self.ends[test] for test in tests))
        if "failed" in ends:
            return FAILED
        return "shown" if ends == {"passed"} else f"shown, but {', '.join(sorted(ends - {'passed'}))}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print it."""
        if not self.lines:
            return
        terminalreporter.section("cases: what was found right")
        for line in self.lines:
            text = textwrap.wrap(line.sentence, WIDTH) or [""]
            terminalreporter.write_line(f"{line.case:6}  {text[0]:{WIDTH}}  {line.result}")
            below = max(len(text) - 1, len(line.tests))
            for n in range(below):
                part = text[n + 1] if n + 1 < len(text) else ""
                test = line.tests[n] if n < len(line.tests) else ""
                terminalreporter.write_line(f"{'':6}  {part:{WIDTH}}    {test}".rstrip())


def _title(note: Path) -> str:
    return note.read_text(encoding="utf-8").partition("\n")[0].removeprefix(f"# {note.stem} ")


def pytest_configure(config: pytest.Config) -> None:
    """Begin."""
    config.pluginmanager.register(Table(), "cases-table")
