//! The command line from outside: what is typed, what is printed, what is on the disk afterwards, and the exit status.

mod catalogue;
mod damage;
mod deleting;
mod demo;
mod getting;
mod inspecting;
mod journals;
mod keys;
mod names;
mod putting;
mod removing;
mod settings;
mod stores;
mod support;
mod twin;
mod usage;
