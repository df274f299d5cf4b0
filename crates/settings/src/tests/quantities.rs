//! Tests that quantities are parsed and printed exactly.

use proptest::prelude::*;

use crate::quantity::{Dimension, QuantityError};

const WHOLE: [Dimension; 3] = [Dimension::Duration, Dimension::Length, Dimension::Size];
const REAL: [Dimension; 11] = [
    Dimension::Seconds,
    Dimension::Metres,
    Dimension::Rate,
    Dimension::Frequency,
    Dimension::Speed,
    Dimension::Acceleration,
    Dimension::Mass,
    Dimension::Energy,
    Dimension::Drag,
    Dimension::Power,
    Dimension::Share,
];

#[test]
fn whole_quantities_are_exact() {
    let cases = [
        (Dimension::Duration, "0.5 s", 500_000, "0.5 s"),
        (Dimension::Duration, "12h", 43_200_000_000, "12 h"),
        (Dimension::Duration, "4.5 h", 16_200_000_000, "4.5 h"),
        (Dimension::Duration, "0.1 s", 100_000, "0.1 s"),
        (Dimension::Duration, " 1_000  µs ", 1_000, "1 ms"),
        (Dimension::Duration, "1 μs", 1, "1 us"),
        (Dimension::Duration, "2 week", 1_209_600_000_000, "14 d"),
        (Dimension::Duration, "1 year", 31_557_600_000_000, "8766 h"),
        (Dimension::Duration, "0 d", 0, "0 s"),
        (Dimension::Duration, "-0 s", 0, "0 s"),
        (Dimension::Duration, "9223372036854775807 us", i64::MAX as u64, "9223372036854.775807 s"),
        (Dimension::Length, "350 mm", 350_000, "35 cm"),
        (Dimension::Length, "1.2 m", 1_200_000, "1.2 m"),
        (Dimension::Size, "100 MB", 100_000_000, "100 MB"),
        (Dimension::Size, "2 TiB", 1 << 41, "2 TiB"),
        (Dimension::Size, "1.5 TiB", 3 << 39, "1.5 TiB"),
        (Dimension::Size, "0.5 KiB", 512, "512 B"),
        (Dimension::Size, "1e3 kB", 1_000_000, "1 MB"),
        (Dimension::Size, "5EB", 5_000_000_000_000_000_000, "5 EB"),
        (Dimension::Size, "1048577 B", 1_048_577, "1048577 B"),
    ];
    for (dimension, text, value, printed) in cases {
        assert_eq!(dimension.parse_whole(text), Ok(value), "{text}");
        assert_eq!(dimension.print_whole(value), printed);
    }
}

#[test]
fn other_quantities_round_to_the_nearest_double() {
    let cases = [
        (Dimension::Rate, "60 MB/s", 60e6, "60 MB/s"),
        (Dimension::Rate, "1250 MB/s", 1.25e9, "1250 MB/s"),
        (Dimension::Rate, "1 MiB / s", 1_048_576.0, "1048576 B/s"),
        (Dimension::Rate, "3 GB/h", 3e9 / 3600.0, "3 GB/h"),
        (Dimension::Rate, "2 PB/year", 2e15 / 31_557_600.0, "2 PB/year"),
        (Dimension::Frequency, "0.3 /s", 0.3, "0.3 /s"),
        (Dimension::Frequency, "5 Hz", 5.0, "5 /s"),
        (Dimension::Frequency, "1/d", 1.0 / 86_400.0, "1 /d"),
        (Dimension::Speed, "1 m/s", 1.0, "1 m/s"),
        (Dimension::Speed, "3.6 km/h", 1.0, "1 m/s"),
        (Dimension::Acceleration, "0.5 m/s²", 0.5, "0.5 m/s2"),
        (Dimension::Acceleration, "0.5 m/s2", 0.5, "0.5 m/s2"),
        (Dimension::Mass, "4500 g", 4.5, "4.5 kg"),
        (Dimension::Energy, "5 kW h", 18e6, "18 MJ"),
        (Dimension::Energy, "5 Wh", 18e3, "18 kJ"),
        (Dimension::Drag, "2.5 J/m", 2.5, "2.5 J/m"),
        (Dimension::Power, "40 W", 40.0, "40 W"),
        (Dimension::Share, "15 %", 0.15, "15 %"),
        (Dimension::Share, "0.1%", 0.001, "0.1 %"),
        (Dimension::Share, "1 ppm", 1e-6, "1 ppm"),
        (Dimension::Seconds, "0.5 ms", 0.0005, "0.5 ms"),
        (Dimension::Metres, "350 mm", 0.35, "35 cm"),
    ];
    for (dimension, text, value, printed) in cases {
        assert_eq!(dimension.parse_real(text), Ok(value), "{text}");
        assert_eq!(dimension.print_real(value), printed);
    }
}

#[test]
fn ambiguous_units_are_rejected() {
    let unit = |dimension: Dimension, text: &str| dimension.parse_real(text).unwrap_err().to_string();
    assert_eq!(unit(Dimension::Seconds, "5 m"), "minutes are `min`");
    assert_eq!(unit(Dimension::Seconds, "5 months"), "months differ in length; use days, `d`");
    assert_eq!(unit(Dimension::Rate, "5 MB/m"), "minutes are `min`");
    assert_eq!(unit(Dimension::Rate, "5 MBps"), "per second is `/s`");
    assert_eq!(unit(Dimension::Rate, "5 MB"), "the unit of time is missing, as in `MB/s`");
    assert_eq!(unit(Dimension::Frequency, "5 /hour"), "hours are `h`");
    assert_eq!(unit(Dimension::Speed, "5 m/m"), "minutes are `min`");
    assert_eq!(unit(Dimension::Share, "5 percent"), "units are `%`, `ppm`");
    assert_eq!(Dimension::Size.parse_whole("5 MIB").unwrap_err().to_string(), "`MB` are 1000^2 bytes, `MiB` are 1024^2");
    assert_eq!(Dimension::Size.parse_whole("5"), Err(QuantityError::NoUnit));
    assert_eq!(Dimension::Size.parse_whole("0.3 B"), Err(QuantityError::TooFine("bytes")));
    assert_eq!(Dimension::Size.parse_whole("1e-300 EB"), Err(QuantityError::TooFine("bytes")));
    assert_eq!(Dimension::Size.parse_whole("10 EB"), Err(QuantityError::TooLarge));
    assert_eq!(Dimension::Size.parse_whole("1e300 B"), Err(QuantityError::TooLarge));
    assert_eq!(Dimension::Rate.parse_real("1e305 MB/s"), Err(QuantityError::TooLarge));
    assert_eq!(Dimension::Rate.parse_real("-1 MB/s"), Err(QuantityError::Negative));
    assert_eq!(Dimension::Rate.parse_real("NaN MB/s"), Err(QuantityError::NotANumber));
    assert_eq!(Dimension::Rate.parse_real("inf MB/s"), Err(QuantityError::NotANumber));
}

proptest! {
    #[test]
    fn whole_quantities_read_back_the_same(value in 0..=i64::MAX.cast_unsigned(), round in 0..40_u32) {
        for dimension in WHOLE {
            for value in [value, value >> round, value / 10_u64.pow(round / 3) * 10_u64.pow(round / 3)] {
                let text = dimension.print_whole(value);
                prop_assert_eq!(dimension.parse_whole(&text), Ok(value), "{}", text);
            }
        }
    }

    #[test]
    fn other_quantities_read_back_the_same(bits in 0..f64::INFINITY.to_bits(), short in 0..1_000_000_u32, places in 0..9) {
        for dimension in REAL {
            for value in [f64::from_bits(bits), f64::from(short) / 10_f64.powi(places)] {
                let text = dimension.print_real(value);
                prop_assert_eq!(dimension.parse_real(&text), Ok(value), "{}", text);
            }
        }
    }

    #[test]
    fn parsing_a_quantity_never_panics(text in "[0-9.eE+_-]{0,50}[ ]?[a-zA-Zµ/%²]{0,5}") {
        for dimension in REAL {
            if let Ok(value) = dimension.parse_real(&text) {
                prop_assert!(value.is_finite() && value >= 0.0);
            }
        }
        for dimension in WHOLE {
            let _ = dimension.parse_whole(&text);
        }
    }
}
