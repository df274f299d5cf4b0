//! The additive FFT over columns of shards, written once for the registers of every kernel.
//!
//! Work consists of rows of `pitch` bytes, one per point of the transform. Each kernel orders the
//! columns as it likes: only [`read`](SymbolLanes::read) and [`write`](SymbolLanes::write) know the
//! byte order of a shard.
//!
//! Butterflies of level k pair rows 2^k apart, with the factor t = p >> k of the pair's block at
//! position p:
//!
//! ```text
//! forward:  a += t b    inverse:  b += a        two levels together ("radix 4"): four rows are loaded once
//!           b += a                a += t b      and stored once for four butterflies
//! ```

use crate::kernel::prefetch;

/// Registers of one kernel.
///
/// # Safety
/// The methods may only be called where the kernel's instructions are available, with pointers to
/// [`BYTES`](Self::BYTES) bytes. Implementations are `inline(always)`, so that they become part of
/// an entry function that enables the instructions.
pub(super) trait SymbolLanes {
    /// Bytes of work in one pair: 64 or 128.
    const BYTES: usize;
    /// Low bytes and high bytes of `BYTES / 2` symbols.
    type Pair: Copy;
    /// A symbol, prepared for products.
    type Factor: Copy;

    unsafe fn factor(t: u16) -> Self::Factor;
    unsafe fn zero() -> Self::Pair;
    unsafe fn load(from: *const u8) -> Self::Pair;
    unsafe fn store(pair: Self::Pair, to: *mut u8);
    /// Reads `bytes` of a shard, 64 or `BYTES`; the rest of the pair is zero.
    unsafe fn read(from: *const u8, bytes: usize) -> Self::Pair;
    /// Writes `bytes` of a shard, 64 or `BYTES`.
    unsafe fn write(pair: Self::Pair, to: *mut u8, bytes: usize);
    unsafe fn add(a: Self::Pair, b: Self::Pair) -> Self::Pair;
    /// `sum + x * factor`
    unsafe fn add_product(sum: Self::Pair, x: Self::Pair, factor: Self::Factor) -> Self::Pair;
}

/// One step of work on a block of columns. Rows are `pitch` bytes apart; `width` bytes of each are
/// processed, rounded up to whole pairs of the kernel.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    /// IFFT of 2^`levels` shards at `position`; the result replaces `sums` (`fresh`) or is added to
    /// them.
    ///
    /// `sources` point to `width` bytes each; rows after the last source are zero.
    Inverse { work: *mut u8, sums: *mut u8, fresh: bool, sources: &'a [*const u8], levels: u32, position: usize },
    /// IFFT in place.
    InverseInPlace { work: *mut u8, levels: u32, position: usize },
    /// FFT in place; only the first `outputs` rows are valid afterwards.
    Forward { work: *mut u8, levels: u32, position: usize, outputs: usize },
    /// One level of FFT in place: rows `0..half` and `half..2 * half`, with one factor. Only the
    /// requested halves are valid afterwards.
    Split { work: *mut u8, half: usize, factor: u16, lower: bool, upper: bool },
    /// `to = (from + shard) * factor`.
    Scale { to: *mut u8, from: *const u8, shard: *const u8, factor: u16 },
    /// `to[rows] = from[rows]`.
    Copy { to: *mut u8, from: *const u8, rows: usize },
    /// `shard = from * factor`; a factor of 1 copies.
    Write { shard: *mut u8, from: *const u8, factor: u16 },
}

/// Prefetch distance, in sources.
const AHEAD: usize = 32;

/// # Safety
/// `L`'s instructions are available; work, sums, `from` and `to` have as many rows of `pitch` bytes
/// as the step names, and `pitch` is at least `width` rounded up to 128; shards and sources have
/// `width` bytes, a multiple of 64.
#[inline(always)]
pub(super) unsafe fn run<L: SymbolLanes>(step: Step<'_>, pitch: usize, width: usize) {
    let span = width.next_multiple_of(L::BYTES);
    debug_assert!(span <= pitch && width.is_multiple_of(64));
    // SAFETY: each arm stays within the rows named by the step, which the caller guarantees.
    unsafe {
        match step {
            Step::Inverse { work, sums, fresh, sources, levels, position } => {
                let rows = 1usize << levels;
                // The lower levels run on blocks of rows that stay in L1 once read; only the upper
                // ones go through L2.
                let inner = inner_levels(levels, span);
                for begin in (0..rows).step_by(1 << inner) {
                    let end = begin + (1 << inner);
                    let present = &sources[begin.min(sources.len())..end.min(sources.len())];
                    let next = &sources[(begin + AHEAD).min(sources.len())..];
                    let block = work.add(begin * pitch);
                    let mut filled = present.len();
                    // A transform of only the levels done while reading would have no pass left
                    // that writes the sums.
                    let read_levels = if levels >= 3 && inner >= 2 { 2 } else { 0 };
                    if read_levels == 2 {
                        read_radix4::<L>(block, pitch, width, present, next, position + begin);
                        filled = filled.next_multiple_of(4);
                    } else {
                        for (i, &source) in present.iter().enumerate() {
                            read_row::<L>(block.add(i * pitch), source, width);
                        }
                    }
                    for i in filled..1 << inner {
                        block.add(i * pitch).write_bytes(0, span);
                    }
                    if inner < levels {
                        let range = Range { begin, end: begin + present.len(), position };
                        inverse_levels::<L, IN_PLACE>(work, work, pitch, span, read_levels, inner, range);
                    } else {
                        let range = Range { begin, end, position };
                        match fresh {
                            true => inverse_levels::<L, REPLACE>(work, sums, pitch, span, read_levels, levels, range),
                            false => inverse_levels::<L, ADD>(work, sums, pitch, span, read_levels, levels, range),
                        }
                    }
                }
                if inner < levels {
                    let range = Range { begin: 0, end: sources.len(), position };
                    match fresh {
                        true => inverse_levels::<L, REPLACE>(work, sums, pitch, span, inner, levels, range),
                        false => inverse_levels::<L, ADD>(work, sums, pitch, span, inner, levels, range),
                    }
                }
            }
            Step::InverseInPlace { work, levels, position } => {
                let rows = 1usize << levels;
                let inner = inner_levels(levels, span);
                for begin in (0..rows).step_by(1 << inner) {
                    let range = Range { begin, end: begin + (1 << inner), position };
                    inverse_levels::<L, IN_PLACE>(work, work, pitch, span, 0, inner, range);
                }
                let range = Range { begin: 0, end: rows, position };
                inverse_levels::<L, IN_PLACE>(work, work, pitch, span, inner, levels, range);
            }
            Step::Forward { work, levels, position, outputs } => {
                let inner = inner_levels(levels, span);
                let range = Range { begin: 0, end: outputs, position };
                forward_levels::<L>(work, pitch, span, levels, inner, range);
                for begin in (0..outputs).step_by(1 << inner) {
                    let range = Range { begin, end: outputs.min(begin + (1 << inner)), position };
                    forward_levels::<L>(work, pitch, span, inner, 0, range);
                }
            }
            Step::Split { work, half, factor, lower, upper } => {
                let t = L::factor(factor);
                for i in 0..half {
                    for x in (0..span).step_by(L::BYTES) {
                        let (low, high) = (work.add(i * pitch + x), work.add((half + i) * pitch + x));
                        let b = L::load(high);
                        let a = L::add_product(L::load(low), b, t);
                        if lower {
                            L::store(a, low);
                        }
                        if upper {
                            L::store(L::add(a, b), high);
                        }
                    }
                }
            }
            Step::Scale { to, from, shard, factor } => {
                let t = L::factor(factor);
                for x in (0..span).step_by(L::BYTES) {
                    let sum = L::add(L::load(from.add(x)), L::read(shard.add(x), L::BYTES.min(width - x)));
                    L::store(L::add_product(L::zero(), sum, t), to.add(x));
                }
            }
            Step::Copy { to, from, rows } => {
                for i in 0..rows {
                    to.add(i * pitch).copy_from_nonoverlapping(from.add(i * pitch), span);
                }
            }
            Step::Write { shard, from, factor } => {
                if factor == 1 {
                    for x in (0..span).step_by(L::BYTES) {
                        L::write(L::load(from.add(x)), shard.add(x), L::BYTES.min(width - x));
                    }
                } else {
                    let t = L::factor(factor);
                    for x in (0..span).step_by(L::BYTES) {
                        let product = L::add_product(L::zero(), L::load(from.add(x)), t);
                        L::write(product, shard.add(x), L::BYTES.min(width - x));
                    }
                }
            }
        }
    }
}

/// Where the last level of an inverse transform puts its result.
const IN_PLACE: u8 = 0;
const REPLACE: u8 = 1;
const ADD: u8 = 2;

/// Rows of a transform at `position` that are nonzero, or requested. They come first in their
/// blocks.
#[derive(Clone, Copy)]
struct Range {
    begin: usize,
    end: usize,
    position: usize,
}

/// Bytes of rows that are worked on together: they share an L1 of 32 or 48 KiB with the lines
/// streaming past.
const INNER_BYTES: usize = 16 * 1024;

/// Levels to run on a block of rows that stays in L1, chosen so that the rest are whole radix-4
/// passes.
#[inline(always)]
fn inner_levels(levels: u32, span: usize) -> u32 {
    let fit = (INNER_BYTES / span).max(4).ilog2();
    if levels <= fit + 1 { levels } else { fit + (levels - fit) % 2 }
}

/// Levels `from..to` of an inverse transform; the last pass writes to `sink`.
#[inline(always)]
unsafe fn inverse_levels<L: SymbolLanes, const SINK: u8>(
    work: *mut u8,
    sink: *mut u8,
    pitch: usize,
    span: usize,
    from: u32,
    to: u32,
    range: Range,
) {
    // SAFETY: the caller guarantees that the blocks of the range are within work and sink.
    unsafe {
        // No levels: the transform of a single row is the row.
        if from == to && SINK != IN_PLACE {
            for x in (0..span).step_by(L::BYTES) {
                put::<L, SINK>(L::load(work.add(x)), sink.add(x));
            }
        }
        let mut level = from;
        // An odd level goes first, where rows are closest together.
        if (to - from) % 2 == 1 {
            if to - from == 1 {
                inverse2::<L, SINK>(work, sink, pitch, span, level, range);
            } else {
                inverse2::<L, IN_PLACE>(work, work, pitch, span, level, range);
            }
            level += 1;
        }
        while level + 2 < to {
            inverse4::<L, IN_PLACE>(work, work, pitch, span, level, range);
            level += 2;
        }
        if level < to {
            inverse4::<L, SINK>(work, sink, pitch, span, level, range);
        }
    }
}

/// Levels `to..from` of a forward transform, the highest first.
#[inline(always)]
unsafe fn forward_levels<L: SymbolLanes>(work: *mut u8, pitch: usize, span: usize, from: u32, to: u32, range: Range) {
    // SAFETY: the caller guarantees that the blocks of the range are within work.
    unsafe {
        let mut level = from;
        while level >= to + 2 {
            level -= 2;
            forward4::<L>(work, pitch, span, level, range);
        }
        if level > to {
            forward2::<L>(work, pitch, span, to, range);
        }
    }
}

#[inline(always)]
unsafe fn read_row<L: SymbolLanes>(to: *mut u8, from: *const u8, width: usize) {
    // SAFETY: the caller guarantees `width` bytes at `from`, and that many, rounded up, at `to`.
    unsafe {
        for x in (0..width).step_by(L::BYTES) {
            L::store(L::read(from.add(x), L::BYTES.min(width - x)), to.add(x));
        }
    }
}

/// Levels 0 and 1 of an inverse transform, straight from the shards.
#[inline(always)]
unsafe fn read_radix4<L: SymbolLanes>(
    work: *mut u8,
    pitch: usize,
    width: usize,
    sources: &[*const u8],
    ahead: &[*const u8],
    position: usize,
) {
    // SAFETY: the caller guarantees `width` bytes per source, and as many rows of work as sources,
    // rounded up to 4 (the transform has at least 8).
    unsafe {
        for (block, four) in sources.chunks(4).enumerate() {
            let start = 4 * block;
            let p = position + start;
            let (t01, t23, t02) = (L::factor(p as u16), L::factor((p + 2) as u16), L::factor((p >> 1) as u16));
            for i in 0..4 {
                if let Some(&next) = ahead.get(start + i) {
                    for x in (0..width).step_by(64) {
                        prefetch(next.wrapping_add(x));
                    }
                    // Shards seldom start on a cache line, so they span one line more than the
                    // width.
                    prefetch(next.wrapping_add(width - 1));
                }
            }
            for x in (0..width).step_by(L::BYTES) {
                let bytes = L::BYTES.min(width - x);
                let a = L::read(four[0].add(x), bytes);
                let b = if four.len() > 1 { L::read(four[1].add(x), bytes) } else { L::zero() };
                let c = if four.len() > 2 { L::read(four[2].add(x), bytes) } else { L::zero() };
                let d = if four.len() > 3 { L::read(four[3].add(x), bytes) } else { L::zero() };
                let (a, b, c, d) = inverse_butterflies::<L>(a, b, c, d, t01, t23, t02);
                let to = work.add(start * pitch + x);
                L::store(a, to);
                L::store(b, to.add(pitch));
                L::store(c, to.add(2 * pitch));
                L::store(d, to.add(3 * pitch));
            }
        }
    }
}

#[inline(always)]
unsafe fn inverse_butterflies<L: SymbolLanes>(
    a: L::Pair,
    b: L::Pair,
    c: L::Pair,
    d: L::Pair,
    t01: L::Factor,
    t23: L::Factor,
    t02: L::Factor,
) -> (L::Pair, L::Pair, L::Pair, L::Pair) {
    // SAFETY: the caller guarantees that the instructions are available.
    unsafe {
        let b = L::add(b, a);
        let d = L::add(d, c);
        let a = L::add_product(a, b, t01);
        let c = L::add_product(c, d, t23);
        let c = L::add(c, a);
        let d = L::add(d, b);
        let a = L::add_product(a, c, t02);
        let b = L::add_product(b, d, t02);
        (a, b, c, d)
    }
}

#[inline(always)]
unsafe fn inverse4<L: SymbolLanes, const SINK: u8>(work: *mut u8, sink: *mut u8, pitch: usize, span: usize, level: u32, range: Range) {
    let distance = 1usize << level;
    // SAFETY: the caller guarantees that blocks of 4 * distance rows starting in the range are
    // within work and sink.
    unsafe {
        let mut start = range.begin;
        // Blocks of zeros stay zero.
        while start < range.end {
            let p = range.position + start;
            let t01 = L::factor((p >> level) as u16);
            let t23 = L::factor(((p + 2 * distance) >> level) as u16);
            let t02 = L::factor((p >> (level + 1)) as u16);
            for i in start..start + distance {
                for x in (0..span).step_by(L::BYTES) {
                    let (at, row) = (i * pitch + x, distance * pitch);
                    let from = work.add(at);
                    let (a, b) = (L::load(from), L::load(from.add(row)));
                    let (c, d) = (L::load(from.add(2 * row)), L::load(from.add(3 * row)));
                    let (a, b, c, d) = inverse_butterflies::<L>(a, b, c, d, t01, t23, t02);
                    let to = sink.add(at);
                    put::<L, SINK>(a, to);
                    put::<L, SINK>(b, to.add(row));
                    put::<L, SINK>(c, to.add(2 * row));
                    put::<L, SINK>(d, to.add(3 * row));
                }
            }
            start += 4 * distance;
        }
    }
}

#[inline(always)]
unsafe fn inverse2<L: SymbolLanes, const SINK: u8>(work: *mut u8, sink: *mut u8, pitch: usize, span: usize, level: u32, range: Range) {
    let distance = 1usize << level;
    // SAFETY: the caller guarantees that blocks of 2 * distance rows starting in the range are
    // within work and sink.
    unsafe {
        let mut start = range.begin;
        while start < range.end {
            let t = L::factor(((range.position + start) >> level) as u16);
            for i in start..start + distance {
                for x in (0..span).step_by(L::BYTES) {
                    let (low, high) = (i * pitch + x, (i + distance) * pitch + x);
                    let a = L::load(work.add(low));
                    let b = L::add(L::load(work.add(high)), a);
                    put::<L, SINK>(L::add_product(a, b, t), sink.add(low));
                    put::<L, SINK>(b, sink.add(high));
                }
            }
            start += 2 * distance;
        }
    }
}

#[inline(always)]
unsafe fn put<L: SymbolLanes, const SINK: u8>(pair: L::Pair, to: *mut u8) {
    // SAFETY: the caller guarantees a pair's bytes at `to`.
    unsafe { L::store(if SINK == ADD { L::add(L::load(to), pair) } else { pair }, to) }
}

#[inline(always)]
unsafe fn forward4<L: SymbolLanes>(work: *mut u8, pitch: usize, span: usize, level: u32, range: Range) {
    let distance = 1usize << level;
    // SAFETY: blocks of 4 * distance rows starting in the range are within the transform.
    unsafe {
        let mut start = range.begin;
        // Blocks after the last output contribute to no requested row.
        while start < range.end {
            let p = range.position + start;
            let t01 = L::factor((p >> level) as u16);
            let t23 = L::factor(((p + 2 * distance) >> level) as u16);
            let t02 = L::factor((p >> (level + 1)) as u16);
            for i in start..start + distance {
                for x in (0..span).step_by(L::BYTES) {
                    let (at, row) = (work.add(i * pitch + x), distance * pitch);
                    let (a, b) = (L::load(at), L::load(at.add(row)));
                    let (c, d) = (L::load(at.add(2 * row)), L::load(at.add(3 * row)));
                    let a = L::add_product(a, c, t02);
                    let b = L::add_product(b, d, t02);
                    let c = L::add(c, a);
                    let d = L::add(d, b);
                    let a = L::add_product(a, b, t01);
                    let c = L::add_product(c, d, t23);
                    let b = L::add(b, a);
                    let d = L::add(d, c);
                    L::store(a, at);
                    L::store(b, at.add(row));
                    L::store(c, at.add(2 * row));
                    L::store(d, at.add(3 * row));
                }
            }
            start += 4 * distance;
        }
    }
}

/// The single leftover level of a forward transform.
#[inline(always)]
unsafe fn forward2<L: SymbolLanes>(work: *mut u8, pitch: usize, span: usize, level: u32, range: Range) {
    let distance = 1usize << level;
    // SAFETY: blocks of 2 * distance rows starting in the range are within the transform.
    unsafe {
        let mut start = range.begin;
        while start < range.end {
            let t = L::factor(((range.position + start) >> level) as u16);
            for i in start..start + distance {
                for x in (0..span).step_by(L::BYTES) {
                    let (low, high) = (work.add(i * pitch + x), work.add((i + distance) * pitch + x));
                    let b = L::load(high);
                    let a = L::add_product(L::load(low), b, t);
                    L::store(a, low);
                    L::store(L::add(b, a), high);
                }
            }
            start += 2 * distance;
        }
    }
}
