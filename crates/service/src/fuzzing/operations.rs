//! Generates requests from bytes: every operation, with any header and parameter that the server
//! reads, and valid and invalid values.

use std::fmt::Write;
use std::sync::LazyLock;

/// An operation: method, target, and suitable bodies.
struct Operation {
    method: &'static str,
    target: &'static str,
    bodies: Vec<&'static str>,
}

/// The file has a line `METHOD TARGET` for each operation, and below it a line `> BODY` for each of
/// its bodies; without one, the body is empty.
static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let mut operations: Vec<Operation> = Vec::new();
    for line in include_str!("operations.txt").lines() {
        match (line.strip_prefix('>'), operations.last_mut()) {
            (Some(body), Some(operation)) => operation.bodies.push(body.trim_start()),
            _ => {
                let (method, target) = line.split_once(' ').expect("a method and a target");
                operations.push(Operation { method, target, bodies: Vec::new() });
            }
        }
    }
    operations.iter_mut().filter(|operation| operation.bodies.is_empty()).for_each(|operation| operation.bodies.push(""));
    operations
});

/// The lines of a file: one header, parameter or value each.
type Lines = LazyLock<Vec<&'static str>>;

/// Parameters that some operation reads.
static PARAMETERS: Lines = LazyLock::new(|| include_str!("parameters.txt").lines().collect());
/// Headers that some operation, or the router, reads.
static HEADERS: Lines = LazyLock::new(|| include_str!("headers.txt").lines().collect());
/// Form fields other than headers.
static FIELDS: Lines = LazyLock::new(|| include_str!("fields.txt").lines().collect());
/// Values that are valid for some header or parameter.
static VALUES: Lines = LazyLock::new(|| include_str!("values.txt").lines().collect());

/// Lengths around limits: of attribute names, metadata, keys, tags and heads.
const LENGTHS: &[usize] = &[1, 127, 128, 250, 251, 255, 256, 257, 1_024, 1_025, 2_048, 2_049, 8_192, 20_000];

/// Draws numbers from bytes; zeroes follow the last one.
struct Draws<'a>(&'a [u8]);

impl Draws<'_> {
    fn below(&mut self, end: usize) -> usize {
        let mut byte = || {
            let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
            self.0 = rest;
            usize::from(*first)
        };
        (byte() | byte() << 8) % end
    }

    fn of<'b>(&mut self, all: &[&'b str]) -> &'b str {
        all[self.below(all.len())]
    }

    fn value(&mut self) -> String {
        match self.below(10) {
            0 => {
                let length = LENGTHS[self.below(LENGTHS.len())];
                let unit = self.of(&["a", "9", "=", "/", ",", "é", "%41", "a=b&", "*", "-", "a,"]);
                unit.repeat(length.div_ceil(unit.len()))
            }
            1 => format!("{}{}", self.of(&VALUES), self.of(&VALUES)),
            _ => self.of(&VALUES).to_owned(),
        }
    }

    fn metadata(&mut self) -> String {
        let length = LENGTHS[self.below(LENGTHS.len())];
        format!("x-amz-meta-{}", self.of(&["a", "9", "-", "A"]).repeat(length))
    }
}

/// Generates a request in the format of [`Requests::answer`](super::Requests::answer).
pub(super) fn generate_request(data: &[u8]) -> Vec<u8> {
    let mut draws = Draws(data);
    let caller = draws.of(&["0", "0", "0", "1", "-"]);
    let Operation { method, target, bodies } = &OPERATIONS[draws.below(OPERATIONS.len())];
    let mut body = draws.of(bodies).to_owned();
    if draws.below(12) == 0 {
        body = draws.value();
    }
    let is_form = *method == "POST" && *target == "/bbb";
    let mut head = format!("{caller}{method} {target}");
    for _ in 0..draws.below(4) {
        let joint = if head.contains('?') { '&' } else { '?' };
        let _ = write!(head, "{joint}{}={}", draws.of(&PARAMETERS), crate::http::url_encoding::encode(&draws.value()));
    }
    let mut lines = String::new();
    if is_form {
        lines.push_str("\ncontent-type: multipart/form-data; boundary=x");
        body = form(&mut draws);
    }
    if *target == "/bbb/copy" {
        let _ = write!(lines, "\nx-amz-copy-source: {}", draws.of(&["/bbb/k", "/versioned/k?versionId=null", "/bbb/cold", "/suspended/k"]));
    }
    for _ in 0..draws.below(5) {
        let name = if draws.below(5) == 0 { draws.metadata() } else { draws.of(&HEADERS).to_owned() };
        let _ = write!(lines, "\n{name}: {}", draws.value());
    }
    [head.as_bytes(), lines.as_bytes(), b"\n\n", body.as_bytes()].concat()
}

fn form(draws: &mut Draws<'_>) -> String {
    let mut form = String::new();
    let mut part = |name: &str, value: &str| {
        let _ = write!(form, "--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    };
    part("key", if draws.below(4) == 0 { "a/${filename}" } else { "form" });
    for _ in 0..draws.below(6) {
        let name = match draws.below(4) {
            0 => draws.metadata(),
            1 => draws.of(&HEADERS).to_owned(),
            _ => draws.of(&FIELDS).to_owned(),
        };
        part(&name, &draws.value());
    }
    // Many short metadata headers exceed the number of attributes of a record.
    if draws.below(8) == 0 {
        (0..300).for_each(|number| part(&format!("x-amz-meta-{number}"), ""));
    }
    form + "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nbody\r\n--x--\r\n"
}
