//! Limits on the free memory that the C library's allocator retains.
//!
//! By default, threads get arenas of their own, up to eight per core, and these retain most of the
//! memory that a burst of requests took.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    use fulgurite_service::memory::{ARENA_TOP_BYTES, ARENAS};

    /// Blocks of this size and above get a mapping each, and go back to the system when they are
    /// freed. Records of 1 MiB stay below the threshold, because they are allocated and freed all
    /// the time.
    const MAPPED_BYTES: libc::c_int = 4 << 20;

    /// Makes all threads share a few arenas, each of which retains little at its top. Call it
    /// before starting threads. The thresholds are fixed here because by default they grow with the
    /// blocks freed: up to 32 MiB for mapping, up to 64 MiB for trimming.
    pub(crate) fn few_arenas() {
        for (option, value) in
            [(libc::M_ARENA_MAX, ARENAS), (libc::M_TRIM_THRESHOLD, ARENA_TOP_BYTES), (libc::M_MMAP_THRESHOLD, MAPPED_BYTES)]
        {
            // SAFETY: mallopt sets a number inside the allocator, and accepts any value.
            unsafe { libc::mallopt(option, value) };
        }
    }

    /// Returns free pages to the system.
    pub(crate) fn trim() {
        // SAFETY: malloc_trim takes the allocator's own locks, and touches no memory in use.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod system {
    pub(crate) fn few_arenas() {}

    pub(crate) fn trim() {}
}

pub(crate) use system::{few_arenas, trim};
