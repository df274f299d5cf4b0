//! Pictures of plain pixels, such as images of a camera.

use super::png;

/// Pixels, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raster {
    columns: usize,
    /// Red, green and blue.
    pixels: Vec<[u8; 3]>,
}

impl Raster {
    /// Largest width and height of a file, in pixels: more exceeds what viewers show.
    const SIDE_MAX: usize = 20_000;

    /// A picture of rows of `columns` pixels, each red, green and blue.
    ///
    /// # Panics
    /// If there are no pixels, or they don't fill rows.
    #[must_use]
    pub fn new(columns: usize, pixels: Vec<[u8; 3]>) -> Self {
        assert!(columns > 0 && !pixels.is_empty(), "a picture has pixels");
        assert!(pixels.len().is_multiple_of(columns), "{} pixels don't fill rows of {columns}", pixels.len());
        Self { columns, pixels }
    }

    /// The picture as a PNG file, each pixel as a square with this side, or a smaller one if sides
    /// of the picture would exceed 20,000 pixels.
    ///
    /// # Panics
    /// If a side of the picture has more than 20,000 pixels to begin with.
    #[must_use]
    pub fn png(&self, side: usize) -> Vec<u8> {
        let longest = self.columns.max(self.pixels.len() / self.columns);
        assert!(longest <= Self::SIDE_MAX, "a side of {longest} pixels exceeds {}", Self::SIDE_MAX);
        let side = side.clamp(1, Self::SIDE_MAX / longest);
        let mut enlarged = Vec::with_capacity(self.pixels.len() * side * side);
        for row in self.pixels.chunks_exact(self.columns) {
            let wide: Vec<[u8; 3]> = row.iter().flat_map(|&pixel| std::iter::repeat_n(pixel, side)).collect();
            (0..side).for_each(|_| enlarged.extend_from_slice(&wide));
        }
        png::encode((self.columns * side) as u32, &enlarged, None)
    }
}
