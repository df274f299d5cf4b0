//! Rows: validates them and turns them into reads, whatever the file type they come from.

use std::fmt;

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;

use super::TraceError;
use super::time::parse_rfc3339;
use crate::read::{Numbers, PlacedFile, Platters, Read, Sharding, Shards, scaled};

/// A column of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// When the request arrived.
    Arrival,
    /// The file.
    File,
    /// The account that the file belongs to.
    Account,
    /// Bytes of the file.
    Bytes,
    /// The file's platter.
    Platter,
    /// The file's first track.
    Track,
}

impl Column {
    /// All columns.
    pub const ALL: [Self; 6] = [Self::Arrival, Self::File, Self::Account, Self::Bytes, Self::Platter, Self::Track];

    /// The name in the header.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::File => "file",
            Self::Account => "account",
            Self::Bytes => "bytes",
            Self::Platter => "platter",
            Self::Track => "track",
        }
    }
}

/// The value of one column in one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Missing,
    /// Text; empty text is no value.
    Text(&'a str),
    /// A whole number.
    Whole(i64),
    /// A floating-point number.
    Real(f64),
    /// An instant, in microseconds since 1970 UTC.
    Instant(i64),
}

/// The valid values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A time of either kind.
    Time,
    /// Seconds, because the first row has seconds.
    Seconds,
    /// A time of day, because the first row has one.
    Instant,
    /// A file's or account's name.
    Name,
    /// Bytes of a file.
    Bytes {
        /// The most that fits.
        most: u64,
    },
    /// The index of a platter or track.
    Index {
        /// Number of platters or tracks.
        count: u32,
    },
    /// A platter, because a track is given.
    Platter,
    /// A track with enough tracks after it.
    Room {
        /// Tracks that the file needs.
        tracks: u64,
        /// The last track that it can start at.
        last: u64,
    },
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => write!(f, "seconds from 0 to {MOST_SECONDS:e}, or an RFC 3339 time"),
            Self::Seconds => write!(f, "seconds from 0 to {MOST_SECONDS:e}, as in the first row"),
            Self::Instant => f.write_str("an RFC 3339 time, as in the first row"),
            Self::Name => f.write_str("a name"),
            Self::Bytes { most } => write!(f, "a whole number of bytes from 1 to {most}"),
            Self::Index { count } => write!(f, "a whole number from 0 to {}, or nothing", count - 1),
            Self::Platter => f.write_str("the platter of the track that is given"),
            Self::Room { tracks, last } => write!(f, "a track up to {last}, since the file takes {tracks} tracks"),
        }
    }
}

/// 285,000 years: in microseconds that fits into 63 bits.
const MOST_SECONDS: f64 = 9e12;

/// The columns of a trace and their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Positions in the order of [`Column::ALL`].
    places: [Option<usize>; Column::ALL.len()],
}

impl Header {
    /// Reads the names of the columns, in order.
    ///
    /// # Errors
    /// [`TraceError`] if a name is unknown or repeated, or a required one is missing.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, TraceError> {
        let mut places = [None; Column::ALL.len()];
        for (place, name) in names.enumerate() {
            let column = Column::ALL.into_iter().find(|column| column.name() == name);
            let column = column.ok_or_else(|| TraceError::UnknownColumn { column: excerpt(Cell::Text(name)) })?;
            if places[column as usize].replace(place).is_some() {
                return Err(TraceError::ColumnTwice { column });
            }
        }
        for column in [Column::Arrival, Column::Bytes] {
            if places[column as usize].is_none() {
                return Err(TraceError::MissingColumn { column });
            }
        }
        if places[Column::File as usize].is_none() && places[Column::Account as usize].is_none() {
            return Err(TraceError::NoFile);
        }
        Ok(Self { places })
    }

    fn has(&self, column: Column) -> bool {
        self.places[column as usize].is_some()
    }
}

/// The platters that a trace's reads refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceSettings {
    /// The platters; a trace that names any other is rejected.
    pub platters: Platters,
    /// The largest shard, in bytes, of files with unknown places.
    pub shard_bytes: u64,
    /// Seed for unknown places.
    pub seed: u64,
}

/// Validates rows one by one and turns each into reads.
#[derive(Debug)]
pub struct TraceRows {
    header: Header,
    platters: Platters,
    sharding: Sharding,
    platter_numbers: Numbers,
    track_numbers: Numbers,
    clock: Option<Clock>,
    rows: u64,
    shards: Shards,
}

/// The kind of time that the first row uses, and the last instant.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// The first row's time in microseconds since 1970; `None` if the trace counts seconds from the
    /// start.
    zero: Option<i64>,
    last: Micros,
}

enum Time {
    Seconds(Micros),
    Instant(i64),
}

impl TraceRows {
    /// Starts before the first row.
    ///
    /// # Errors
    /// [`TraceError::Settings`] if the settings are invalid.
    pub fn new(header: Header, settings: &TraceSettings) -> Result<Self, TraceError> {
        let numbers = |purpose| Numbers(Stream::new(settings.seed, purpose).bits());
        Ok(Self {
            header,
            platters: settings.platters,
            sharding: Sharding::new(settings.platters, settings.shard_bytes, Stream::new(settings.seed, "shards").bits())?,
            platter_numbers: numbers("trace platters"),
            track_numbers: numbers("trace tracks"),
            clock: None,
            rows: 0,
            shards: Shards::none(),
        })
    }

    /// Whether no row was accepted yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Accepts a row with one cell per name in the header; its reads then come from
    /// [`TraceRows::next_read`]. `line` is used in errors: the line of a CSV file, otherwise the
    /// row counted from 1.
    ///
    /// # Errors
    /// [`TraceError`] says what is wrong with the row, which is then ignored.
    pub fn take(&mut self, line: u64, cells: &[Cell<'_>]) -> Result<(), TraceError> {
        let cell = |column: Column| {
            let cell = self.header.places[column as usize].and_then(|place| cells.get(place)).copied();
            cell.filter(|cell| *cell != Cell::Text("")).unwrap_or(Cell::Missing)
        };
        let wrong = |column, expected| TraceError::Value { line, column, found: excerpt(cell(column)), expected };

        let clock = self.time(line, cell(Column::Arrival))?;
        let account = name(cell(Column::Account));
        let file = name(cell(Column::File));
        if file.is_none() && (account.is_none() || self.header.has(Column::File)) {
            let column = if self.header.has(Column::File) { Column::File } else { Column::Account };
            return Err(wrong(column, Expected::Name));
        }
        // Without file names, every row is a file of its own.
        let file = file.unwrap_or(self.rows);
        let object = account.map_or(file, |account| Numbers(account).at(file));

        let index = |column, count: u32| match cell(column) {
            Cell::Missing => Ok(None),
            found => whole(found)
                .filter(|index| *index < count.into())
                .map(|index| Some(index as u32))
                .ok_or(wrong(column, Expected::Index { count })),
        };
        let platter = index(Column::Platter, self.platters.count)?;
        let track = index(Column::Track, self.platters.tracks)?;
        if platter.is_none() && track.is_some() {
            return Err(wrong(Column::Platter, Expected::Platter));
        }
        let most = if platter.is_some() { self.platters.platter_bytes() } else { self.sharding.largest_file() };
        let bytes = whole(cell(Column::Bytes)).filter(|bytes| (1..=most).contains(bytes));
        let bytes = bytes.ok_or_else(|| wrong(Column::Bytes, Expected::Bytes { most }))?;
        if let Some(track) = track {
            let tracks = bytes.div_ceil(self.platters.track_bytes);
            let last = u64::from(self.platters.tracks) - tracks;
            if u64::from(track) > last {
                return Err(wrong(Column::Track, Expected::Room { tracks, last }));
            }
        }

        let located = PlacedFile {
            at: clock.last,
            request: self.rows,
            group: self.rows,
            object,
            bytes,
            platter: platter.unwrap_or_else(|| scaled(self.platter_numbers.at(account.unwrap_or(file)), self.platters.count.into()) as u32),
            track: track.unwrap_or_else(|| scaled(self.track_numbers.at(object), self.platters.tracks.into()) as u32),
            skip: 0,
        };
        self.shards = if platter.is_some() { Shards::single(located) } else { self.sharding.shards(located) };
        self.clock = Some(clock);
        self.rows += 1;
        Ok(())
    }

    /// The next read of the accepted row; `None` after the last.
    #[inline]
    pub fn next_read(&mut self) -> Option<Read> {
        self.sharding.next(&mut self.shards)
    }

    /// The clock after a row with this time.
    fn time(&self, line: u64, cell: Cell<'_>) -> Result<Clock, TraceError> {
        let wrong = |expected| TraceError::Value { line, column: Column::Arrival, found: excerpt(cell), expected };
        let early = |earlier_us: u64| TraceError::Order { line, found: excerpt(cell), earlier_s: Micros(earlier_us).seconds() };
        let (zero, at) = match (time(cell), self.clock.map(|clock| clock.zero)) {
            (None, None) => return Err(wrong(Expected::Time)),
            (None | Some(Time::Instant(_)), Some(None)) => return Err(wrong(Expected::Seconds)),
            (None | Some(Time::Seconds(_)), Some(Some(_))) => return Err(wrong(Expected::Instant)),
            (Some(Time::Seconds(at)), _) => (None, at),
            (Some(Time::Instant(instant)), None) => (Some(instant), Micros::ZERO),
            (Some(Time::Instant(instant)), Some(Some(zero))) => {
                let last = self.clock.map_or(0, |clock| clock.last.0);
                let at = i128::from(instant) - i128::from(zero);
                let at = u64::try_from(at).map_err(|_| early((i128::from(last) - at) as u64))?;
                (Some(zero), Micros(at))
            }
        };
        let last = self.clock.map_or(Micros::ZERO, |clock| clock.last);
        if at < last { Err(early(last.since(at).0)) } else { Ok(Clock { zero, last: at }) }
    }
}

fn time(cell: Cell<'_>) -> Option<Time> {
    let seconds = match cell {
        Cell::Missing => return None,
        Cell::Instant(instant) => return Some(Time::Instant(instant)),
        Cell::Text(text) if text.contains(':') => return parse_rfc3339(text).map(Time::Instant),
        Cell::Text(text) => text.parse().ok()?,
        Cell::Whole(seconds) => seconds as f64,
        Cell::Real(seconds) => seconds,
    };
    (0.0..=MOST_SECONDS).contains(&seconds).then(|| Time::Seconds(Micros::from_seconds(seconds)))
}

/// A non-negative whole number.
fn whole(cell: Cell<'_>) -> Option<u64> {
    match cell {
        // `parse` would accept a plus sign.
        Cell::Text(text) => text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.parse().ok())?,
        Cell::Whole(number) => u64::try_from(number).ok(),
        // Above 2^53, neighbouring integers are the same double.
        Cell::Real(number) => {
            let whole = (0.0..=9_007_199_254_740_992.0).contains(&number) && number == (number as u64) as f64;
            whole.then_some(number as u64)
        }
        Cell::Missing | Cell::Instant(_) => None,
    }
}

/// The number of a name: numbers represent themselves, other text is hashed (64-bit FNV-1a).
fn name(cell: Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Text(text) => whole(cell).filter(|_| text == "0" || !text.starts_with('0')).or_else(|| {
            let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            Some(hash)
        }),
        Cell::Whole(number) => Some(number as u64),
        Cell::Missing | Cell::Real(_) | Cell::Instant(_) => None,
    }
}

/// A cell's content for a message, truncated to fit a line.
fn excerpt(cell: Cell<'_>) -> Box<str> {
    const EXCERPT_CHARS_MAX: usize = 60;
    match cell {
        Cell::Missing => "".into(),
        Cell::Text(text) => match text.char_indices().nth(EXCERPT_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => text.into(),
        },
        Cell::Whole(number) => number.to_string().into(),
        Cell::Real(number) => number.to_string().into(),
        Cell::Instant(instant) => format!("{instant} µs since 1970").into(),
    }
}
