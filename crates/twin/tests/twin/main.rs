//! Whole runs of the twin, in one program: linking one for each file took minutes, and half a
//! gigabyte.

mod asked_when_it_matters;
mod borders;
mod censored;
mod checks_from_outside;
mod clairvoyant_policies;
mod never_above_partitioned;
mod no_shuttle_gets_stuck;
mod paper;
mod planted_violations;
mod queueing_of_the_whole_library;
mod queueing_theory;
mod replaying;
mod same_seed_same_bytes;
mod scenarios;
mod support;
mod timelines;
mod traces;
