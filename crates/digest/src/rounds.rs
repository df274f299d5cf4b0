//! The steps of MD5 (RFC 1321, 3.4), which all kernels share.

/// Calls `$step!(function, word, sine, left, right)` for each of the 64 steps: the round's function
/// (`$f`, `$g`, `$h` or `$i`), the word of the block, the integer part of 2^32 |sin(i + 1)|, and
/// how far to rotate, to the left or to the right.
#[rustfmt::skip]
macro_rules! rounds {
    ($step:ident, $f:ident, $g:ident, $h:ident, $i:ident) => {
        $step!($f, 0, 0xd76aa478, 7, 25);
        $step!($f, 1, 0xe8c7b756, 12, 20);
        $step!($f, 2, 0x242070db, 17, 15);
        $step!($f, 3, 0xc1bdceee, 22, 10);
        $step!($f, 4, 0xf57c0faf, 7, 25);
        $step!($f, 5, 0x4787c62a, 12, 20);
        $step!($f, 6, 0xa8304613, 17, 15);
        $step!($f, 7, 0xfd469501, 22, 10);
        $step!($f, 8, 0x698098d8, 7, 25);
        $step!($f, 9, 0x8b44f7af, 12, 20);
        $step!($f, 10, 0xffff5bb1, 17, 15);
        $step!($f, 11, 0x895cd7be, 22, 10);
        $step!($f, 12, 0x6b901122, 7, 25);
        $step!($f, 13, 0xfd987193, 12, 20);
        $step!($f, 14, 0xa679438e, 17, 15);
        $step!($f, 15, 0x49b40821, 22, 10);
        $step!($g, 1, 0xf61e2562, 5, 27);
        $step!($g, 6, 0xc040b340, 9, 23);
        $step!($g, 11, 0x265e5a51, 14, 18);
        $step!($g, 0, 0xe9b6c7aa, 20, 12);
        $step!($g, 5, 0xd62f105d, 5, 27);
        $step!($g, 10, 0x02441453, 9, 23);
        $step!($g, 15, 0xd8a1e681, 14, 18);
        $step!($g, 4, 0xe7d3fbc8, 20, 12);
        $step!($g, 9, 0x21e1cde6, 5, 27);
        $step!($g, 14, 0xc33707d6, 9, 23);
        $step!($g, 3, 0xf4d50d87, 14, 18);
        $step!($g, 8, 0x455a14ed, 20, 12);
        $step!($g, 13, 0xa9e3e905, 5, 27);
        $step!($g, 2, 0xfcefa3f8, 9, 23);
        $step!($g, 7, 0x676f02d9, 14, 18);
        $step!($g, 12, 0x8d2a4c8a, 20, 12);
        $step!($h, 5, 0xfffa3942, 4, 28);
        $step!($h, 8, 0x8771f681, 11, 21);
        $step!($h, 11, 0x6d9d6122, 16, 16);
        $step!($h, 14, 0xfde5380c, 23, 9);
        $step!($h, 1, 0xa4beea44, 4, 28);
        $step!($h, 4, 0x4bdecfa9, 11, 21);
        $step!($h, 7, 0xf6bb4b60, 16, 16);
        $step!($h, 10, 0xbebfbc70, 23, 9);
        $step!($h, 13, 0x289b7ec6, 4, 28);
        $step!($h, 0, 0xeaa127fa, 11, 21);
        $step!($h, 3, 0xd4ef3085, 16, 16);
        $step!($h, 6, 0x04881d05, 23, 9);
        $step!($h, 9, 0xd9d4d039, 4, 28);
        $step!($h, 12, 0xe6db99e5, 11, 21);
        $step!($h, 15, 0x1fa27cf8, 16, 16);
        $step!($h, 2, 0xc4ac5665, 23, 9);
        $step!($i, 0, 0xf4292244, 6, 26);
        $step!($i, 7, 0x432aff97, 10, 22);
        $step!($i, 14, 0xab9423a7, 15, 17);
        $step!($i, 5, 0xfc93a039, 21, 11);
        $step!($i, 12, 0x655b59c3, 6, 26);
        $step!($i, 3, 0x8f0ccc92, 10, 22);
        $step!($i, 10, 0xffeff47d, 15, 17);
        $step!($i, 1, 0x85845dd1, 21, 11);
        $step!($i, 8, 0x6fa87e4f, 6, 26);
        $step!($i, 15, 0xfe2ce6e0, 10, 22);
        $step!($i, 6, 0xa3014314, 15, 17);
        $step!($i, 13, 0x4e0811a1, 21, 11);
        $step!($i, 4, 0xf7537e82, 6, 26);
        $step!($i, 11, 0xbd3af235, 10, 22);
        $step!($i, 2, 0x2ad7d2bb, 15, 17);
        $step!($i, 9, 0xeb86d391, 21, 11);
    };
}

pub(crate) use rounds;
