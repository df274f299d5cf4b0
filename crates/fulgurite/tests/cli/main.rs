//! Tests of the program from outside: arguments, output, files on disk afterwards, and exit
//! statuses.

mod absent;
mod attaching;
mod catalogue;
mod damage;
mod decoding;
mod deleting;
mod demo;
mod getting;
mod glass;
mod inspecting;
mod journals;
mod keys;
mod names;
mod putting;
mod rebuilding;
mod removing;
mod serving;
mod settings;
mod staging;
mod stores;
mod support;
mod twin;
mod unwritable;
mod usage;
mod walking;
