//! Axis ticks in the usual notation: 0, 50, 100; 1 s, 15 s, 1 min, 5 min; 10⁻³, 1, 10³.
//!
//! Each kind of axis offers sets of ticks from dense to sparse; the densest set whose labels fit is
//! used.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Quantity {
    Number,
    Seconds,
    Share,
    Bytes,
    BinaryBytes,
    Categories(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ticks {
    /// Ticks with labels.
    pub(super) major: Vec<(f64, String)>,
    /// Ticks without labels.
    pub(super) minor: Vec<f64>,
}

/// The densest set of ticks within the range that fits, or the sparsest set if none fits.
pub(super) fn ticks(quantity: &Quantity, log: bool, (low, high): (f64, f64), fits: impl Fn(&[(f64, String)]) -> bool) -> Ticks {
    let offers = match quantity {
        Quantity::Categories(names) => categories(names),
        Quantity::Seconds if log => log_seconds(low, high),
        _ if log => log_numbers(quantity, low, high),
        _ => linear(quantity, low, high),
    };
    let within = |value: f64| {
        let slack = if log { 1e-9 * value.abs() } else { 1e-9 * (high - low) };
        value >= low - slack && value <= high + slack
    };
    let mut chosen = Ticks::default();
    for mut offer in offers {
        offer.major.retain(|tick| within(tick.0));
        offer.minor.retain(|&value| within(value) && !offer.major.iter().any(|tick| tick.0 == value));
        // A single tick shows no scale, so a set of fewer than two is used only if no earlier set
        // had any.
        if offer.major.len() < 2 && !chosen.major.is_empty() {
            break;
        }
        let good = fits(&offer.major);
        chosen = offer;
        if good {
            break;
        }
    }
    chosen
}

fn categories(names: &[String]) -> Vec<Ticks> {
    let every = |step: usize| Ticks {
        major: names.iter().enumerate().step_by(step).map(|(at, name)| (at as f64, name.clone())).collect(),
        minor: Vec::new(),
    };
    [1, 2, 5, 10, 20, 50, 100].map(every).into()
}

/// A whole mantissa times a power of ten. A negative power divides by its exact inverse, so
/// that the result is correctly rounded.
fn times_ten(mantissa: f64, power: i32) -> f64 {
    if power < 0 { mantissa / libm::exp10(-f64::from(power)) } else { mantissa * libm::exp10(f64::from(power)) }
}

fn exponent(value: f64) -> i32 {
    libm::floor(libm::log10(value)) as i32
}

fn linear(quantity: &Quantity, low: f64, high: f64) -> Vec<Ticks> {
    // Far from zero, the span decides which unit has round steps: 167.0 to 168.5 min reads better
    // than 2.78 to 2.81 h.
    let unit = Unit::for_axis(quantity, low.abs().max(high.abs()).min(30.0 * (high - low)));
    let (low, high) = (low / unit.size, high / unit.size);
    let span = high - low;
    let mut steps: Vec<(f64, i32)> = Vec::new();
    let smallest = exponent(span) - 1;
    for power in smallest..=smallest + 2 {
        for mantissa in [1.0, 2.0, 5.0] {
            steps.push((times_ten(mantissa, power), -power));
        }
    }
    if let Some(clock) = unit.clock {
        steps.retain(|step| step.0 < if unit.halves { 0.2 } else { 1.0 });
        if unit.halves {
            steps.extend([(0.25, 2), (0.5, 1)]);
        }
        steps.extend(clock.iter().map(|&step| (step, 0)));
    }
    let offer = |(step, decimals): (f64, i32)| {
        let first = libm::ceil(low / step - 1e-9);
        let count = libm::floor(high / step + 1e-9) - first;
        if !(0.0..=100.0).contains(&count) {
            return None;
        }
        let multiples = (0..=count as i32).map(|number| first + f64::from(number));
        let largest = low.abs().max(high.abs());
        let major = multiples.map(|times| (times * step * unit.size, unit.label(times * step, decimals, largest)));
        // Minor ticks at halves, where halves are round; otherwise at fifths.
        let parts = if step.to_string().contains('5') { 5.0 } else { 2.0 };
        let minor_first = libm::ceil(low / step * parts - 1e-9);
        let minor = (0..=((count + 2.0) * parts) as i32).map(|number| (minor_first + f64::from(number)) / parts);
        let on_major = |times: f64| (times - libm::round(times)).abs() < 1e-9;
        let minor = minor.filter(|&times| !on_major(times)).map(|times| times * step * unit.size).collect();
        Some(Ticks { major: major.collect(), minor })
    };
    steps.into_iter().filter_map(offer).filter(|offer| offer.major.len() <= 11).collect()
}

struct Unit {
    name: &'static str,
    size: f64,
    /// Steps for clock units, where powers of ten are not round.
    clock: Option<&'static [f64]>,
    /// Steps from 0.2 to 1 are a quarter and a half.
    halves: bool,
    percent: bool,
}

impl Unit {
    fn for_axis(quantity: &Quantity, largest: f64) -> Self {
        const SIXTIES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0];
        const HOURS: &[f64] = &[1.0, 2.0, 3.0, 6.0, 12.0, 24.0];
        let plain = |name, size| Self { name, size, clock: None, halves: false, percent: false };
        match quantity {
            Quantity::Number | Quantity::Categories(_) => plain("", 1.0),
            Quantity::Share => Self { percent: true, ..plain("", 0.01) },
            Quantity::Bytes => {
                let units = [(" PB", 1e15), (" TB", 1e12), (" GB", 1e9), (" MB", 1e6), (" kB", 1e3)];
                let (name, size) = units.into_iter().find(|unit| largest >= unit.1).unwrap_or((" B", 1.0));
                plain(name, size)
            }
            Quantity::BinaryBytes => {
                let units = [(" PiB", 50), (" TiB", 40), (" GiB", 30), (" MiB", 20), (" KiB", 10)]
                    .map(|(name, power)| (name, libm::exp2(f64::from(power))));
                let (name, size) = units.into_iter().find(|unit| largest >= unit.1).unwrap_or((" B", 1.0));
                plain(name, size)
            }
            Quantity::Seconds => match largest {
                largest if largest >= 4.0 * 86_400.0 => plain(" d", 86_400.0),
                largest if largest >= 7_200.0 => Self { clock: Some(HOURS), halves: true, ..plain(" h", 3_600.0) },
                largest if largest >= 120.0 => Self { clock: Some(SIXTIES), halves: true, ..plain(" min", 60.0) },
                largest if largest >= 2.0 => Self { clock: Some(SIXTIES), ..plain(" s", 1.0) },
                largest if largest >= 2e-3 => plain(" ms", 1e-3),
                _ => plain(" µs", 1e-6),
            },
        }
    }

    fn label(&self, value: f64, decimals: i32, largest: f64) -> String {
        if value == 0.0 && !self.percent {
            return "0".into();
        }
        if self.percent {
            return format!("{} %", plain(value, decimals));
        }
        if self.name.is_empty() && (largest >= 1e6 || decimals > 4) {
            let power = exponent(largest);
            return format!("{}×10{}", plain(value / times_ten(1.0, power), decimals + power), superscript(power));
        }
        format!("{}{}", plain(value, decimals), self.name)
    }
}

/// A number with this many decimals (none if negative), a true minus sign, and thousands commas
/// from 10,000 on.
fn plain(value: f64, decimals: i32) -> String {
    let text = format!("{:.*}", decimals.clamp(0, 17) as usize, value.abs());
    let (whole, part) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if whole.len() > 4 && at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let minus = if value < 0.0 { "−" } else { "" };
    format!("{minus}{grouped}{part}")
}

fn superscript(power: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    power.to_string().chars().map(|c| c.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize])).collect()
}

/// Decimals needed by a number of this power of ten.
fn decimals_of(power: i32) -> i32 {
    (-power).max(0)
}

fn log_numbers(quantity: &Quantity, low: f64, high: f64) -> Vec<Ticks> {
    let (first, last) = (exponent(low), exponent(high) + 1);
    let without_powers = first >= -3 && last <= 5;
    let label = |mantissa: i32, power: i32| {
        let value = times_ten(f64::from(mantissa), power);
        match quantity {
            Quantity::Share => format!("{} %", plain(value * 100.0, decimals_of(power + 2))),
            // Powers of ten have no round names in binary units.
            Quantity::Bytes | Quantity::BinaryBytes => bytes(mantissa, power),
            _ if without_powers => plain(value, decimals_of(power)),
            _ if power == 0 => mantissa.to_string(),
            _ if mantissa == 1 => format!("10{}", superscript(power)),
            _ => format!("{mantissa}×10{}", superscript(power)),
        }
    };
    let set = |mantissas: &[i32], powers: &dyn Fn(i32) -> bool| -> Vec<(f64, String)> {
        let powers = (first..=last).filter(|&power| powers(power));
        powers
            .flat_map(|power| mantissas.iter().map(move |&mantissa| (mantissa, power)))
            .map(|(mantissa, power)| (times_ten(f64::from(mantissa), power), label(mantissa, power)))
            .collect()
    };
    let values = |ticks: Vec<(f64, String)>| -> Vec<f64> { ticks.into_iter().map(|tick| tick.0).collect() };
    let units = values(set(&[1, 2, 3, 4, 5, 6, 7, 8, 9], &|_| true));
    let decades = values(set(&[1], &|_| true));
    let ratio = high / low;
    let mut offers = Vec::new();
    if ratio < 4.0 {
        // So narrow a range is nearly linear and contains few round numbers of a logarithmic scale.
        offers.extend(linear(quantity, low, high).into_iter().filter(|offer| offer.major.len() <= 7));
    }
    if ratio < 300.0 {
        offers.push(Ticks { major: set(&[1, 2, 5], &|_| true), minor: units.clone() });
    }
    offers.push(Ticks { major: set(&[1], &|_| true), minor: units });
    let strides: &[i32] =
        if matches!(quantity, Quantity::Bytes | Quantity::BinaryBytes) { &[3, 6, 9] } else { &[2, 3, 5, 10, 20, 50, 100] };
    for &stride in strides {
        offers.push(Ticks { major: set(&[1], &|power| power.rem_euclid(stride) == 0), minor: decades.clone() });
    }
    offers
}

fn bytes(mantissa: i32, power: i32) -> String {
    const NAMES: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let name = power.div_euclid(3).clamp(0, 6);
    let left = power - 3 * name;
    format!("{} {}", plain(times_ten(f64::from(mantissa), left), decimals_of(left)), NAMES[name as usize])
}

fn log_seconds(low: f64, high: f64) -> Vec<Ticks> {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 3_600.0;
    const DAY: f64 = 86_400.0;
    // Ranges below nanoseconds or above 30,000 years are labelled as numbers of seconds.
    if low < 1e-9 || high > 1e12 {
        let in_seconds = |(value, label)| (value, format!("{label} s"));
        let offers = log_numbers(&Quantity::Number, low, high).into_iter();
        return offers.map(|offer| Ticks { major: offer.major.into_iter().map(in_seconds).collect(), ..offer }).collect();
    }
    let below = |mantissas: &[f64], powers: &[i32]| -> Vec<f64> {
        powers.iter().flat_map(|&power| mantissas.iter().map(move |&mantissa| times_ten(mantissa, power))).collect()
    };
    let above = |parts: &[(f64, &[f64])]| -> Vec<f64> {
        parts.iter().flat_map(|&(unit, times)| times.iter().map(move |&time| time * unit)).collect()
    };
    let all_powers: Vec<i32> = (-9..0).collect();
    let days: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 1e4, 1e5, 1e6, 1e7];
    let fine: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 20.0, 30.0, 40.0, 50.0];
    let minor = [
        below(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &all_powers),
        above(&[(1.0, fine), (MINUTE, fine), (HOUR, &fine[..11]), (DAY, &fine[..11])]),
    ]
    .concat();
    let sets = [
        [
            below(&[1.0, 2.0, 5.0], &all_powers),
            above(&[
                (1.0, &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0]),
                (MINUTE, &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0]),
                (HOUR, &[1.0, 2.0, 4.0, 8.0, 15.0]),
                (DAY, days),
            ]),
        ],
        [
            below(&[1.0, 2.0, 5.0], &all_powers),
            above(&[(1.0, &[1.0, 5.0, 15.0]), (MINUTE, &[1.0, 5.0, 15.0]), (HOUR, &[1.0, 4.0, 15.0]), (DAY, days)]),
        ],
        [
            below(&[1.0], &all_powers),
            above(&[
                (1.0, &[1.0, 5.0, 15.0]),
                (MINUTE, &[1.0, 5.0, 15.0]),
                (HOUR, &[1.0, 4.0, 15.0]),
                (DAY, &[2.0, 10.0, 40.0, 150.0, 500.0, 2e3, 1e4, 1e5, 1e6, 1e7]),
            ]),
        ],
        [
            below(&[1.0], &all_powers),
            above(&[(1.0, &[1.0, 10.0]), (MINUTE, &[1.0, 10.0]), (HOUR, &[1.0, 10.0]), (DAY, &[4.0, 40.0, 400.0, 4e3, 4e4, 4e5, 4e6])]),
        ],
        [below(&[1.0], &[-9, -6, -3]), above(&[(1.0, &[1.0]), (MINUTE, &[1.0]), (HOUR, &[1.0]), (DAY, &[1.0, 30.0, 1e3, 3e4, 1e6])])],
        [below(&[1.0], &[-9, -6, -3]), above(&[(1.0, &[1.0]), (HOUR, &[1.0]), (DAY, &[100.0, 1e4, 1e6])])],
    ];
    let mut offers = Vec::new();
    if high / low < 4.0 {
        offers.extend(linear(&Quantity::Seconds, low, high).into_iter().filter(|offer| offer.major.len() <= 7));
    }
    for set in sets {
        let major = set.concat().into_iter().map(|value| (value, seconds(value))).collect();
        offers.push(Ticks { major, minor: minor.clone() });
    }
    offers
}

/// A round time in its natural unit.
pub(super) fn seconds(value: f64) -> String {
    let units = [(86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (size, name) = units.into_iter().find(|unit| value >= unit.0 * (1.0 - 1e-9)).unwrap_or((1e-9, "ns"));
    let times = value / size;
    let decimals = (0..3).find(|&decimals| {
        let scaled = times * libm::exp10(f64::from(decimals));
        (scaled - libm::round(scaled)).abs() < 1e-6
    });
    format!("{} {name}", plain(times, decimals.unwrap_or(3)))
}
