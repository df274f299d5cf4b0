//! The emulated machines, seen from outside: what commands take, what can't be commanded, what fails, what it costs, who meets.

mod energy;
mod faults;
mod impossible;
mod meetings;
mod rig;
mod times;
