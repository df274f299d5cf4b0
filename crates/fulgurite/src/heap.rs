//! What the C library's allocator keeps of memory that is free. By itself it keeps most of what a burst of requests took, in an arena for each thread.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    /// All threads share four arenas. To be called before there are threads.
    pub(crate) fn few_arenas() {
        // SAFETY: mallopt sets a number inside the allocator, and takes any.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 4) };
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
