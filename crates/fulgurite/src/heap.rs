//! What the C library's allocator keeps of memory that is free. By itself it keeps most of what a burst of requests took, in an arena for each thread.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    use fulgurite_service::memory::{ARENA_TOP_BYTES, ARENAS};

    /// Blocks from this size on are mapped one by one, and go back to the system when they are freed. Records of 1 MiB stay below: they are taken and
    /// freed all the time.
    const MAPPED_BYTES: libc::c_int = 4 << 20;

    /// All threads share a few arenas, each of which keeps little at its top. To be called before there are threads. By themselves, the limits of what
    /// is mapped and kept grow with what is freed, up to 32 and 64 MiB.
    pub(crate) fn few_arenas() {
        for (option, value) in
            [(libc::M_ARENA_MAX, ARENAS), (libc::M_TRIM_THRESHOLD, ARENA_TOP_BYTES), (libc::M_MMAP_THRESHOLD, MAPPED_BYTES)]
        {
            // SAFETY: mallopt sets a number inside the allocator, and takes any.
            unsafe { libc::mallopt(option, value) };
        }
    }

    /// Gives pages that are free back to the system.
    pub(crate) fn trim() {
        // SAFETY: malloc_trim takes the allocator's own locks, and touches nothing that is in use.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod system {
    pub(crate) fn few_arenas() {}

    pub(crate) fn trim() {}
}

pub(crate) use system::{few_arenas, trim};
