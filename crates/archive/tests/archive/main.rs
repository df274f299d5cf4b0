//! What an archive promises, in one program: linking one for each file took longer than many of the
//! tests, and a gigabyte.

mod a_changing_file_is_never_stored_torn;
mod a_crash_at_any_point_loses_nothing_acknowledged;
mod a_failing_disk_loses_nothing_acknowledged;
mod a_flipped_bit_never_gives_a_wrong_byte;
mod a_killed_process_loses_nothing_acknowledged;
mod a_random_walk_loses_nothing_acknowledged;
mod a_rebuild_leaves_out_what_was_removed;
mod a_repair_that_fails_makes_nothing_worse;
mod an_intake_acknowledges_each_client;
mod an_opened_object_is_read_to_its_end;
mod archives_of_glass;
mod attributes_and_deletion_markers;
mod checked_content_is_compared_while_it_is_stored;
mod damage_within_the_promise;
mod databases_that_lose_their_names;
mod fixity_of_copies;
mod golden_glass;
mod golden_v1;
mod hostile_platters;
mod many_objects_at_once;
mod names_too_long_for_a_record;
mod neighbours_share_a_read;
mod objects_are_replaced_while_they_are_read;
mod old_copies_and_leftovers_cost_nothing;
mod round_trip;
mod second_reader;
mod sectors_that_cannot_be_read_are_not_lost;
mod sim;
#[cfg(feature = "remote-tests")]
mod stores_behind_a_network;
mod stores_without_room;
mod support;
mod tables_larger_than_what_they_list;
mod verifying_goes_on_beside_changes;
