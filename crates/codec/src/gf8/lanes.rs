//! The tile loop of [`combine`](super::combine), written once over the registers of every kernel.

use crate::kernel::prefetch;

/// Registers of one kernel.
///
/// # Safety
/// The methods may be called only where the kernel's instructions are available. Implementations mark them
/// `inline(always)`, so that they become part of an entry function which enables those instructions.
pub(super) trait ByteLanes {
    /// Bytes one register holds; divides 64.
    const BYTES: usize;
    /// A source register, made ready for products.
    type Source: Copy;
    type Sum: Copy;
    /// A coefficient, made ready for products.
    type Factor: Copy;

    /// Reads `BYTES` bytes, at any alignment.
    unsafe fn source(from: *const u8) -> Self::Source;
    unsafe fn zero() -> Self::Sum;
    unsafe fn load(from: *const u8) -> Self::Sum;
    unsafe fn store(sum: Self::Sum, to: *mut u8);
    unsafe fn factor(coefficient: u8) -> Self::Factor;
    unsafe fn add_product(sum: Self::Sum, source: Self::Source, factor: Self::Factor) -> Self::Sum;
}

/// One column tile of a [`combine`](super::combine).
pub(super) struct Tile<'a> {
    /// `rows * sources.len()`, row-major.
    pub(super) coefficients: &'a [u8],
    pub(super) sources: &'a [&'a [u8]],
    /// Where the tile begins in each source.
    pub(super) from: usize,
    /// Bytes of the tile.
    pub(super) width: usize,
    /// `rows` sums of `pitch` bytes; replaced.
    pub(super) sums: &'a mut [u8],
    pub(super) pitch: usize,
    pub(super) rows: usize,
}

/// Sources and sums taken together: 16 coefficients, which all fit the registers beside 4 sources and 4 sums.
const GROUP: usize = 4;

/// # Safety
/// `L`'s instructions are available, every source has `from + width` bytes, `sums` has `rows * pitch` bytes, and
/// `pitch` is at least `width` rounded up to 64.
#[inline(always)]
pub(super) unsafe fn run<L: ByteLanes>(tile: Tile<'_>) {
    let columns = tile.sources.len();
    if columns == 0 {
        tile.sums.fill(0);
        return;
    }
    debug_assert!(tile.sums.len() >= tile.rows * tile.pitch && tile.pitch >= tile.width.next_multiple_of(64));
    let sums = tile.sums.as_mut_ptr();
    let whole = tile.width / L::BYTES * L::BYTES;
    for first in (0..columns).step_by(GROUP) {
        let group = &tile.sources[first..columns.min(first + GROUP)];
        let mut pointers = [std::ptr::null(); GROUP];
        let mut tails = [[0u8; 64]; GROUP];
        let mut tail_pointers = [std::ptr::null(); GROUP];
        for (i, source) in group.iter().enumerate() {
            pointers[i] = source[tile.from..].as_ptr();
            tails[i][..tile.width - whole].copy_from_slice(&source[tile.from + whole..tile.from + tile.width]);
            tail_pointers[i] = tails[i].as_ptr();
        }
        // The group after this one is asked for while this one is worked on: hundreds of streams are more than the
        // hardware follows.
        let mut ahead = [pointers[0]; GROUP];
        for (i, next) in ahead.iter_mut().enumerate() {
            if let Some(source) = tile.sources.get(first + GROUP + i) {
                *next = source[tile.from..].as_ptr();
            }
        }
        for row in (0..tile.rows).step_by(GROUP) {
            let rows = GROUP.min(tile.rows - row);
            let mut factors = [[0u8; GROUP]; GROUP];
            for (r, factors) in factors.iter_mut().enumerate().take(rows) {
                let start = (row + r) * columns + first;
                factors[..group.len()].copy_from_slice(&tile.coefficients[start..start + group.len()]);
            }
            let block = Block { factors, sources: pointers, ahead, fresh: first == 0, fetch: row == 0 };
            let tail = Block { sources: tail_pointers, fetch: false, ..block };
            // SAFETY: rows `row..row + rows` of `sums` have `pitch` bytes from here on; the sources have `whole`
            // bytes from their pointers and the padded tails have 64, which is no less than one register.
            unsafe {
                let to = sums.add(row * tile.pitch);
                blocks::<L>(rows, group.len(), &block, to, tile.pitch, whole);
                if whole < tile.width {
                    blocks::<L>(rows, group.len(), &tail, to.add(whole), tile.pitch, L::BYTES);
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Block {
    factors: [[u8; GROUP]; GROUP],
    sources: [*const u8; GROUP],
    ahead: [*const u8; GROUP],
    /// The sums start from zero instead of from what they hold.
    fresh: bool,
    fetch: bool,
}

#[inline(always)]
unsafe fn blocks<L: ByteLanes>(rows: usize, columns: usize, b: &Block, to: *mut u8, pitch: usize, bytes: usize) {
    // SAFETY: the caller's promise, passed on with the counts made constant.
    unsafe {
        match rows {
            1 => block_rows::<L, 1>(columns, b, to, pitch, bytes),
            2 => block_rows::<L, 2>(columns, b, to, pitch, bytes),
            3 => block_rows::<L, 3>(columns, b, to, pitch, bytes),
            _ => block_rows::<L, 4>(columns, b, to, pitch, bytes),
        }
    }
}

#[inline(always)]
unsafe fn block_rows<L: ByteLanes, const R: usize>(columns: usize, b: &Block, to: *mut u8, pitch: usize, bytes: usize) {
    // SAFETY: the caller's promise, passed on with the counts made constant.
    unsafe {
        match columns {
            1 => block::<L, R, 1>(b, to, pitch, bytes),
            2 => block::<L, R, 2>(b, to, pitch, bytes),
            3 => block::<L, R, 3>(b, to, pitch, bytes),
            _ => block::<L, R, 4>(b, to, pitch, bytes),
        }
    }
}

#[inline(always)]
unsafe fn block<L: ByteLanes, const R: usize, const C: usize>(b: &Block, to: *mut u8, pitch: usize, bytes: usize) {
    // SAFETY: `bytes` is a multiple of the register's, and the caller promises that many behind every pointer.
    unsafe {
        let factors: [[L::Factor; C]; R] = std::array::from_fn(|r| std::array::from_fn(|c| L::factor(b.factors[r][c])));
        let mut x = 0;
        while x < bytes {
            if b.fetch && x % 64 == 0 {
                for next in b.ahead {
                    prefetch(next.wrapping_add(x));
                }
            }
            let sources: [L::Source; C] = std::array::from_fn(|c| L::source(b.sources[c].add(x)));
            for (r, factors) in factors.iter().enumerate() {
                let at = to.add(r * pitch + x);
                let mut sum = if b.fresh { L::zero() } else { L::load(at) };
                for c in 0..C {
                    sum = L::add_product(sum, sources[c], factors[c]);
                }
                L::store(sum, at);
            }
            x += L::BYTES;
        }
    }
}
