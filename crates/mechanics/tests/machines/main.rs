//! Black-box tests of the emulated machines: times, impossible commands, faults, energy, meetings.

mod energy;
mod faults;
mod impossible;
mod meetings;
mod rig;
mod times;
