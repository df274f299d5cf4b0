//! The loop of [`combine`](super::combine), written once for the registers of every kernel.

use crate::kernel::prefetch;

/// Registers of one kernel.
///
/// # Safety
/// The methods may only be called where the kernel's instructions are available. Implementations
/// are `inline(always)`, so that they become part of an entry function that enables those
/// instructions.
pub(super) trait ByteLanes {
    /// Bytes of one register; divides 64.
    const BYTES: usize;
    /// Sums that fit into registers, besides the operands of a product.
    const SUMS: usize;
    /// Rows summed at once; at most `SUMS`, and at most 16.
    const ROWS: usize;
    /// A coefficient as stored in memory.
    type Stored: Copy;
    /// A source register, prepared for products.
    type Source: Copy;
    type Sum: Copy;
    /// A coefficient, prepared for products.
    type Factor: Copy;

    fn stored(coefficient: u8) -> Self::Stored;
    /// Reads `BYTES` bytes, at any alignment.
    unsafe fn source(from: *const u8) -> Self::Source;
    unsafe fn zero() -> Self::Sum;
    unsafe fn store(sum: Self::Sum, to: *mut u8);
    unsafe fn factor(stored: *const Self::Stored) -> Self::Factor;
    unsafe fn add_product(sum: Self::Sum, source: Self::Source, factor: Self::Factor) -> Self::Sum;
}

/// Prefetch distance over all sources together: a few times what memory delivers within its
/// latency.
const AHEAD_BYTES: usize = 128 * 1024;

/// # Safety
/// `L`'s instructions are available. There are `sums.len() * sources.len()` coefficients, and all
/// sources and sums have `bytes` bytes.
#[inline(always)]
pub(super) unsafe fn run<L: ByteLanes>(coefficients: &[u8], sources: &[&[u8]], sums: &mut [&mut [u8]], bytes: usize) {
    let columns = sources.len();
    let pointers: Vec<*const u8> = sources.iter().map(|source| source.as_ptr()).collect();
    let ahead = (AHEAD_BYTES / columns.max(1)).clamp(512, 1024) & !63;
    // In the order of use: by group of rows, source, row.
    let mut stored = Vec::with_capacity(coefficients.len());
    for group in coefficients.chunks(L::ROWS * columns.max(1)) {
        for column in 0..columns {
            stored.extend(group.chunks_exact(columns).map(|row| L::stored(row[column])));
        }
    }

    let whole = bytes / L::BYTES * L::BYTES;
    let mut tails: Vec<[u8; 64]> = Vec::new();
    let mut tail_pointers: Vec<*const u8> = Vec::new();
    if whole < bytes {
        tails.extend(sources.iter().map(|source| {
            let mut tail = [0; 64];
            tail[..bytes - whole].copy_from_slice(&source[whole..]);
            tail
        }));
        tail_pointers.extend(tails.iter().map(|tail| tail.as_ptr()));
    }

    // A single group of rows reads the sources once, at any width. For several groups: wide enough
    // to be worth fetching; narrow enough that the sources stay in L1, or in L2 if there are more
    // than about a hundred, from one group to the next.
    let wide = if L::ROWS >= sums.len() { whole } else { (16 * 1024 / columns.max(1)).max(256).next_multiple_of(256) };
    let mut from = 0;
    while from < whole {
        let width = wide.min(whole - from);
        for (group, rows) in sums.chunks_mut(L::ROWS).enumerate() {
            let mut to = [std::ptr::null_mut(); 16];
            for (to, row) in to.iter_mut().zip(rows.iter_mut()) {
                *to = row[from..].as_mut_ptr();
            }
            let job = Rows {
                factors: stored[group * L::ROWS * columns..].as_ptr(),
                sources: &pointers,
                from,
                to,
                width,
                // The first group prefetches the sources for the others.
                ahead: if group == 0 { ahead } else { 0 },
            };
            // SAFETY: sources and sums have `from + width` bytes, a multiple of a register's size,
            // and the group has a factor for each source and row.
            unsafe { rows_of::<L>(rows.len(), &job) }
        }
        from += width;
    }
    if whole < bytes {
        for (group, rows) in sums.chunks_mut(L::ROWS).enumerate() {
            let mut padded = [[0u8; 64]; 16];
            let to = padded.each_mut().map(|row| row.as_mut_ptr());
            let factors = stored[group * L::ROWS * columns..].as_ptr();
            let job = Rows { factors, sources: &tail_pointers, from: 0, to, width: L::BYTES, ahead: 0 };
            // SAFETY: tails and padded rows have 64 bytes, at least one register.
            unsafe { rows_of::<L>(rows.len(), &job) }
            for (row, padded) in rows.iter_mut().zip(&padded) {
                row[whole..].copy_from_slice(&padded[..bytes - whole]);
            }
        }
    }
}

struct Rows<'a, L: ByteLanes> {
    /// Per source, one factor per row.
    factors: *const L::Stored,
    sources: &'a [*const u8],
    /// Start offset in the sources.
    from: usize,
    to: [*mut u8; 16],
    /// A multiple of a register's size.
    width: usize,
    /// Prefetch distance; 0 disables prefetching.
    ahead: usize,
}

#[inline(always)]
unsafe fn rows_of<L: ByteLanes>(rows: usize, job: &Rows<'_, L>) {
    // SAFETY: the caller's guarantee is forwarded, with constant counts. No kernel gets more rows
    // than its own `ROWS`.
    unsafe {
        match rows {
            1 => columns_of::<L, 1>(job),
            2 => columns_of::<L, 2>(job),
            3 => columns_of::<L, 3>(job),
            4 => columns_of::<L, 4>(job),
            5 if L::ROWS >= 5 => columns_of::<L, 5>(job),
            6 if L::ROWS >= 6 => columns_of::<L, 6>(job),
            7 if L::ROWS >= 7 => columns_of::<L, 7>(job),
            8 if L::ROWS >= 8 => columns_of::<L, 8>(job),
            9 if L::ROWS >= 9 => columns_of::<L, 9>(job),
            10 if L::ROWS >= 10 => columns_of::<L, 10>(job),
            11 if L::ROWS >= 11 => columns_of::<L, 11>(job),
            12 if L::ROWS >= 12 => columns_of::<L, 12>(job),
            13 if L::ROWS >= 13 => columns_of::<L, 13>(job),
            14 if L::ROWS >= 14 => columns_of::<L, 14>(job),
            15 if L::ROWS >= 15 => columns_of::<L, 15>(job),
            16 if L::ROWS >= 16 => columns_of::<L, 16>(job),
            _ => unreachable!("groups have 1 to {} rows", L::ROWS),
        }
    }
}

#[inline(always)]
unsafe fn columns_of<L: ByteLanes, const R: usize>(job: &Rows<'_, L>) {
    // SAFETY: blocks are within the width that the caller guarantees.
    unsafe {
        let mut x = 0;
        if R * 4 <= L::SUMS {
            while x + 4 * L::BYTES <= job.width {
                block::<L, R, 4>(job, x);
                x += 4 * L::BYTES;
            }
        }
        if R * 2 <= L::SUMS {
            while x + 2 * L::BYTES <= job.width {
                block::<L, R, 2>(job, x);
                x += 2 * L::BYTES;
            }
        }
        while x < job.width {
            block::<L, R, 1>(job, x);
            x += L::BYTES;
        }
    }
}

/// `R` sums of `C` registers each, which stay in registers while all sources stream past.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "indices say what goes with what")]
unsafe fn block<L: ByteLanes, const R: usize, const C: usize>(job: &Rows<'_, L>, x: usize) {
    // SAFETY: `x` and `C` registers are within the width that the caller guarantees, for each
    // source and row.
    unsafe {
        // Plain loops instead of closures: a closure is a separate function without the kernel's
        // instructions.
        let mut sums = [[L::zero(); C]; R];
        let mut factors = job.factors;
        for &source in job.sources {
            let from = source.add(job.from + x);
            if job.ahead != 0 {
                let mut line = 0;
                while line < C * L::BYTES {
                    if (x + line).is_multiple_of(64) {
                        prefetch(from.wrapping_add(job.ahead + line));
                    }
                    line += L::BYTES;
                }
            }
            let mut registers = [L::source(from); C];
            for c in 1..C {
                registers[c] = L::source(from.add(c * L::BYTES));
            }
            for r in 0..R {
                let factor = L::factor(factors.add(r));
                for c in 0..C {
                    sums[r][c] = L::add_product(sums[r][c], registers[c], factor);
                }
            }
            factors = factors.add(R);
        }
        for r in 0..R {
            for c in 0..C {
                L::store(sums[r][c], job.to[r].add(x + c * L::BYTES));
            }
        }
    }
}
