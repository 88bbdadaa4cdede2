"""For every two features of the workspace server there is a test that uses both."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from tests.mcp import test_pairs_isolation as isolation
from tests.mcp import test_pairs_names as names
from tests.mcp import test_pairs_processes as processes
from tests.mcp import test_pairs_redaction as redaction

FEATURES = (
    "redaction", "isolation", "protected names", "background processes", "restarts",
    "HTTP clients", "archives", "large files", "approval that waits",
)  # fmt: skip

Test = Callable[..., Any]
PAIRS: dict[tuple[str, str], Test] = {
    ("redaction", "isolation"): redaction.test_a_secret_that_an_isolated_command_prints_is_redacted,
    ("redaction", "protected names"): (
        redaction.test_a_protected_file_is_restored_with_its_secret_and_the_report_has_none
    ),
    ("redaction", "background processes"): (
        redaction.test_a_secret_that_a_background_process_writes_in_two_parts_is_redacted
    ),
    ("redaction", "restarts"): (
        redaction.test_a_secret_of_a_process_that_is_found_again_stays_redacted
    ),
    ("redaction", "HTTP clients"): (redaction.test_a_secret_is_redacted_for_every_client_over_http),
    ("redaction", "archives"): (
        redaction.test_a_secret_in_an_archive_is_written_and_packed_as_it_is_and_shown_redacted
    ),
    ("redaction", "large files"): (
        redaction.test_a_secret_where_a_large_output_is_cut_is_not_shown_in_part
    ),
    ("redaction", "approval that waits"): (
        redaction.test_a_secret_in_a_command_that_waits_for_approval_is_not_shown_to_anybody
    ),
    ("isolation", "protected names"): (
        isolation.test_a_protected_name_is_as_it_was_after_an_isolated_command
    ),
    ("isolation", "background processes"): (
        isolation.test_an_isolated_background_process_ends_with_all_that_it_started
    ),
    ("isolation", "restarts"): (
        isolation.test_an_isolated_process_is_found_again_and_its_home_is_removed_at_the_end
    ),
    ("isolation", "HTTP clients"): (
        isolation.test_an_isolated_command_of_one_client_has_no_files_of_anothers_home
    ),
    ("isolation", "archives"): (
        isolation.test_what_is_unpacked_is_visible_to_an_isolated_command_and_what_it_makes_can_be_packed
    ),
    ("isolation", "large files"): isolation.test_a_large_file_of_an_isolated_command_is_complete,
    ("isolation", "approval that waits"): (
        isolation.test_a_command_that_waited_for_approval_runs_at_its_level_and_leaves_nothing_before
    ),
    ("protected names", "background processes"): (
        names.test_a_background_process_that_writes_protected_names_again_and_again_is_undone
    ),
    ("protected names", "restarts"): (
        names.test_what_a_process_wrote_while_there_was_no_server_is_undone_by_the_next
    ),
    ("protected names", "HTTP clients"): (
        names.test_protected_names_that_two_clients_write_at_once_are_undone
    ),
    ("protected names", "archives"): (
        names.test_an_archive_with_protected_names_is_refused_and_nothing_of_it_is_unpacked
    ),
    ("protected names", "large files"): (
        names.test_a_protected_file_too_large_to_copy_is_unchanged_or_reported
    ),
    ("protected names", "approval that waits"): (
        names.test_a_command_that_was_approved_does_not_keep_a_protected_name_either
    ),
    ("background processes", "restarts"): (
        processes.test_a_background_process_that_is_found_again_still_reads_its_input
    ),
    ("background processes", "HTTP clients"): (
        processes.test_background_processes_of_two_clients_do_not_mix_their_output
    ),
    ("background processes", "archives"): (
        processes.test_a_folder_that_a_background_process_writes_can_be_packed
    ),
    ("background processes", "large files"): (
        processes.test_a_large_output_of_a_background_process_can_be_read_whole_by_pages
    ),
    ("background processes", "approval that waits"): (
        processes.test_while_an_approval_waits_processes_go_on_and_other_calls_are_answered
    ),
    ("restarts", "HTTP clients"): (
        processes.test_after_a_restart_a_client_learns_that_its_http_session_has_ended
    ),
    ("restarts", "archives"): (
        processes.test_a_server_killed_while_it_unpacks_leaves_only_whole_files
    ),
    ("restarts", "large files"): (
        processes.test_a_server_that_is_killed_while_it_writes_a_large_file_leaves_the_old_or_the_new
    ),
    ("restarts", "approval that waits"): (
        processes.test_a_call_that_waited_when_its_server_was_killed_has_no_effect
    ),
    ("HTTP clients", "archives"): (
        processes.test_two_clients_that_unpack_at_once_have_all_files_whole
    ),
    ("HTTP clients", "large files"): (
        processes.test_a_large_file_is_written_over_http_and_one_too_large_affects_no_other_client
    ),
    ("HTTP clients", "approval that waits"): (
        processes.test_a_client_whose_call_waits_does_not_hold_up_another
    ),
    ("archives", "large files"): (
        processes.test_a_large_file_comes_out_of_an_archive_and_goes_into_one_whole
    ),
    ("archives", "approval that waits"): (
        processes.test_an_archive_that_waits_for_approval_is_unpacked_only_when_it_is_allowed
    ),
    ("large files", "approval that waits"): (
        processes.test_a_large_write_that_waits_is_written_whole_when_it_is_allowed
    ),
}


def test_every_two_features_have_a_test_of_their_own() -> None:
    assert set(PAIRS) == set(combinations(FEATURES, 2))
    assert len(set(PAIRS.values())) == len(PAIRS)


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_the_test_of_a_pair_runs_with_the_usual_tests(pair: tuple[str, str]) -> None:
    test = PAIRS[pair]
    assert test.__name__.startswith("test_") and test.__module__.rpartition(".")[2] in (
        "test_pairs_isolation", "test_pairs_names", "test_pairs_processes", "test_pairs_redaction",
    )  # fmt: skip
    marks = {mark.name for mark in getattr(test, "pytestmark", ())}
    assert not marks & {"torture", "real", "skip", "xfail"}
