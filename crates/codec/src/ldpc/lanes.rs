//! The decoder's inner loops, written once for the registers of every kernel.

use super::decode::{PADDING, Schedule, State};
use crate::kernel::Kernel;

/// Registers of one kernel, as lanes of signed bytes.
///
/// # Safety
/// The methods may only be called where the kernel's instructions are available, with pointers to
/// `LANES` bytes. Implementations are `inline(always)`, so that they become part of an entry
/// function that enables those instructions.
pub(super) trait ByteLanes {
    /// Lanes; divides 64.
    const LANES: usize;
    type Register: Copy;

    /// Reads `LANES` bytes, at any alignment.
    unsafe fn load(from: *const i8) -> Self::Register;
    unsafe fn store(register: Self::Register, to: *mut i8);
    unsafe fn splat(value: i8) -> Self::Register;
    unsafe fn xor(a: Self::Register, b: Self::Register) -> Self::Register;
    /// `a - b`, saturating.
    unsafe fn subtract(a: Self::Register, b: Self::Register) -> Self::Register;
    /// `a + b`, saturating.
    unsafe fn add(a: Self::Register, b: Self::Register) -> Self::Register;
    /// Absolute value; that of -128 is 128 as an unsigned byte.
    unsafe fn magnitude(a: Self::Register) -> Self::Register;
    /// The smaller of two unsigned bytes.
    unsafe fn smaller(a: Self::Register, b: Self::Register) -> Self::Register;
    /// The larger of two unsigned bytes.
    unsafe fn larger(a: Self::Register, b: Self::Register) -> Self::Register;
    /// Three quarters of unsigned bytes below 128, rounded up.
    unsafe fn three_quarters(a: Self::Register) -> Self::Register;
    /// `then` where `a == b`, otherwise `or`.
    unsafe fn where_equal(a: Self::Register, b: Self::Register, then: Self::Register, or: Self::Register) -> Self::Register;
    /// `-a` where `sign` is negative, otherwise `a`.
    unsafe fn with_sign(a: Self::Register, sign: Self::Register) -> Self::Register;
    /// Whether any of the first `lanes` lanes is negative.
    unsafe fn any_negative(a: Self::Register, lanes: usize) -> bool;
}

/// Limits messages to 32, a quarter of what a ratio can hold. Otherwise a bit whose ratio has
/// saturated loses, with each message that it subtracts, what the other checks told it, and words
/// near the limit of the code end up with most bits inverted.
const MOST_BEFORE_SCALING: i8 = 42;

/// Runs one iteration over all layers.
pub(super) fn iterate(kernel: Kernel, schedule: &Schedule, state: &mut State) {
    assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
    assert!(state.fits(schedule), "a decoder's state of another code");
    // SAFETY: the kernel is available, so its instructions are, and the state fits the schedule.
    unsafe {
        match kernel {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx512Gfni => super::x86::iterate_avx512(schedule, state),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx2Gfni | Kernel::Avx2 => super::x86::iterate_avx2(schedule, state),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            Kernel::Neon => super::neon::iterate_neon(schedule, state),
            _ => iterate_with::<super::portable::Portable>(schedule, state),
        }
    }
}

/// Whether all checks hold for the signs of the current ratios.
pub(super) fn all_checks_hold(kernel: Kernel, schedule: &Schedule, state: &State) -> bool {
    assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
    assert!(state.fits(schedule), "a decoder's state of another code");
    // SAFETY: the kernel is available, so its instructions are, and the state fits the schedule.
    unsafe {
        match kernel {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx512Gfni => super::x86::check_avx512(schedule, state),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kernel::Avx2Gfni | Kernel::Avx2 => super::x86::check_avx2(schedule, state),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            Kernel::Neon => super::neon::check_neon(schedule, state),
            _ => check_with::<super::portable::Portable>(schedule, state),
        }
    }
}

/// # Safety
/// `L`'s instructions are available, and `state` fits `schedule`.
#[inline(always)]
pub(super) unsafe fn iterate_with<L: ByteLanes>(schedule: &Schedule, state: &mut State) {
    const { assert!(PADDING.is_multiple_of(L::LANES), "buffers are padded to whole registers") }
    let (z, padded) = (schedule.lifting, schedule.padded);
    let bits = state.bits.as_mut_ptr().cast::<i8>();
    let extrinsic = state.extrinsic.as_mut_ptr().cast::<i8>();
    let smallest_of = state.checks.as_mut_ptr().cast::<i8>();
    // SAFETY: `checks` has three times `padded` bytes.
    let (second_of, sign_of) = unsafe { (smallest_of.add(padded), smallest_of.add(2 * padded)) };
    let mut messages = state.messages.as_mut_ptr().cast::<i8>();
    // SAFETY: a stored column has room for two copies and a register; `messages` and `extrinsic`
    // have `padded` bytes per edge, `checks` three times `padded`, a multiple of a register's size.
    unsafe {
        for layer in &schedule.layers {
            // Reads everything before anything is written, because writing rotates the columns.
            let mut x = 0;
            while x < z {
                let mut smallest = L::splat(-1);
                let mut second = L::splat(-1);
                let mut sign = L::splat(0);
                let mut at = x;
                for edge in layer {
                    let known = L::subtract(L::load(bits.add(edge.column + edge.at_layer + x)), L::load(messages.add(at)));
                    L::store(known, extrinsic.add(at));
                    sign = L::xor(sign, known);
                    let magnitude = L::magnitude(known);
                    second = L::smaller(second, L::larger(smallest, magnitude));
                    smallest = L::smaller(smallest, magnitude);
                    at += padded;
                }
                L::store(smallest, smallest_of.add(x));
                L::store(second, second_of.add(x));
                L::store(sign, sign_of.add(x));
                x += L::LANES;
            }
            // From the end to the start: if Z isn't a multiple of the lanes, the surplus of the
            // last register falls on the second copy, which the first registers then overwrite.
            while x > 0 {
                x -= L::LANES;
                let smallest = L::load(smallest_of.add(x));
                let sign = L::load(sign_of.add(x));
                let most = L::splat(MOST_BEFORE_SCALING);
                let to_smallest = L::three_quarters(L::smaller(L::load(second_of.add(x)), most));
                let to_others = L::three_quarters(L::smaller(smallest, most));
                let mut at = x;
                for edge in layer {
                    let known = L::load(extrinsic.add(at));
                    let message = L::where_equal(L::magnitude(known), smallest, to_smallest, to_others);
                    let message = L::with_sign(message, L::xor(sign, known));
                    L::store(message, messages.add(at));
                    let ratio = L::add(known, message);
                    L::store(ratio, bits.add(edge.column + x));
                    L::store(ratio, bits.add(edge.column + z + x));
                    at += padded;
                }
            }
            messages = messages.add(layer.len() * padded);
        }
    }
}

/// # Safety
/// `L`'s instructions are available, and `state` fits `schedule`.
#[inline(always)]
pub(super) unsafe fn check_with<L: ByteLanes>(schedule: &Schedule, state: &State) -> bool {
    let bits = state.bits.as_ptr().cast::<i8>();
    // SAFETY: a stored column has room for two copies and a register.
    unsafe {
        for layer in &schedule.layers {
            let mut x = 0;
            while x < schedule.lifting {
                let mut sign = L::splat(0);
                for edge in layer {
                    sign = L::xor(sign, L::load(bits.add(edge.column + edge.between + x)));
                }
                if L::any_negative(sign, schedule.lifting - x) {
                    return false;
                }
                x += L::LANES;
            }
        }
    }
    true
}
