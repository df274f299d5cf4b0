//! Prometheus metrics, in its text format: base units, few labels.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fulgurite_archive::catalogue::{PlatterRow, SetRow};
use fulgurite_archive::{CatalogueGaps, DecodeTotals, UNKNOWN_STORE};
use http::{Method, StatusCode};

use crate::gateway::Gateway;
use crate::health::scrub_progress::ScrubStatus;
use crate::health::set_states::SetStates;
use crate::jobs::lifecycle::Lifecycle;
use crate::library::{Library, LibraryMetrics};

/// Upper bounds of the buckets of request times, in seconds.
const BUCKETS_S: [f64; 12] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
const METHODS: [&str; 6] = ["GET", "HEAD", "PUT", "POST", "DELETE", "other"];
const CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "other"];

/// Index of the class of a status in [`CLASSES`].
fn class_of(status: StatusCode) -> usize {
    match status.as_u16() {
        200..300 => 0,
        300..400 => 1,
        400..500 => 2,
        500..600 => 3,
        _ => 4,
    }
}

/// Counters that every request updates. Requests are those of S3 clients, except for `own_pages`.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Requests for the server's own pages.
    own_pages: [AtomicU64; CLASSES.len()],
    requests: [[AtomicU64; CLASSES.len()]; METHODS.len()],
    /// Requests per method and bucket.
    times: [[AtomicU64; BUCKETS_S.len()]; METHODS.len()],
    time_us: [AtomicU64; METHODS.len()],
    in_bytes: AtomicU64,
}

impl Metrics {
    /// Counts a request; `time_to_first_byte` is the time until the head of the response.
    pub(crate) fn count(&self, method: &Method, status: StatusCode, time_to_first_byte: Duration, in_bytes: u64) {
        let method = METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1);
        self.requests[method][class_of(status)].fetch_add(1, Ordering::Relaxed);
        if let Some(bucket) = BUCKETS_S.iter().position(|end| time_to_first_byte.as_secs_f64() <= *end) {
            self.times[method][bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.time_us[method].fetch_add(time_to_first_byte.as_micros() as u64, Ordering::Relaxed);
        // Anyone can claim any length. A request that succeeded had a body of that length.
        if status.is_success() {
            self.in_bytes.fetch_add(in_bytes, Ordering::Relaxed);
        }
    }

    /// Counts a request for one of the server's own pages.
    pub(crate) fn count_own_page(&self, status: StatusCode) {
        self.own_pages[class_of(status)].fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "fulgurite_own_page_requests_total";
        write_header(out, name, "counter", "Requests for the server's own pages, such as probes and metrics, by class of status.");
        for (class, count) in CLASSES.iter().zip(&self.own_pages).filter(|(_, count)| get(count) > 0) {
            let _ = writeln!(out, "{name}{{status=\"{class}\"}} {}", get(count));
        }
        write_header(out, "fulgurite_requests_total", "counter", "Requests of clients by method and class of status.");
        for (method, classes) in METHODS.iter().zip(&self.requests) {
            for (class, count) in CLASSES.iter().zip(classes).filter(|(_, count)| get(count) > 0) {
                let _ = writeln!(out, "fulgurite_requests_total{{method=\"{method}\",status=\"{class}\"}} {}", get(count));
            }
        }
        write_header(out, "fulgurite_request_seconds", "histogram", "Time until the head of the response.");
        for ((method, times), (sum, classes)) in METHODS.iter().zip(&self.times).zip(self.time_us.iter().zip(&self.requests)) {
            let times: Vec<u64> = times.iter().map(get).collect();
            // Read after the buckets, so that a request counted meanwhile can't be in them alone.
            let all: u64 = classes.iter().map(get).sum();
            if all == 0 {
                continue;
            }
            let mut below = 0;
            for (end, count) in BUCKETS_S.iter().zip(times) {
                below += count;
                let _ = writeln!(out, "fulgurite_request_seconds_bucket{{method=\"{method}\",le=\"{end}\"}} {below}");
            }
            let _ = writeln!(out, "fulgurite_request_seconds_bucket{{method=\"{method}\",le=\"+Inf\"}} {all}");
            let _ = writeln!(out, "fulgurite_request_seconds_sum{{method=\"{method}\"}} {}", get(sum) as f64 / 1e6);
            let _ = writeln!(out, "fulgurite_request_seconds_count{{method=\"{method}\"}} {all}");
        }
        write_header(
            out,
            "fulgurite_request_body_bytes_total",
            "counter",
            "Bytes of bodies of requests that succeeded, by Content-Length.",
        );
        let _ = writeln!(out, "fulgurite_request_body_bytes_total {}", get(&self.in_bytes));
    }
}

fn write_decoding(out: &mut String, totals: &DecodeTotals) {
    let name = "fulgurite_decode_sectors_total";
    write_header(out, name, "counter", "Sectors of glass that were decoded, by where.");
    let _ = writeln!(out, "{name}{{where=\"here\"}} {}", totals.sectors_here);
    let _ = writeln!(out, "{name}{{where=\"workers\"}} {}", totals.sectors_elsewhere);
    for (name, kind, help, value) in [
        ("fulgurite_decode_sectors_lost_total", "counter", "Sectors whose images gave no bytes.", totals.sectors_lost),
        ("fulgurite_decode_tasks_taken_back_total", "counter", "Tasks that decode workers didn't carry out.", totals.taken_back),
        ("fulgurite_decode_tasks_waiting", "gauge", "Tasks that wait for a thread or are at decode workers.", totals.waiting),
    ] {
        write_header(out, name, kind, help);
        let _ = writeln!(out, "{name} {value}");
    }
}

fn write_sets(out: &mut String, states: SetStates) {
    let SetStates { whole, reduced, out_of_reach, beyond_redundancy } = states;
    let name = "fulgurite_sets";
    write_header(out, name, "gauge", "Sets by how many of their platters are lost or out of reach, by the last checks.");
    for (state, count) in [("whole", whole), ("reduced", reduced), ("out_of_reach", out_of_reach), ("beyond_redundancy", beyond_redundancy)]
    {
        let _ = writeln!(out, "{name}{{state=\"{state}\"}} {count}");
    }
}

fn write_certificate(out: &mut String, expires_s: u64) {
    let name = "fulgurite_tls_certificate_expires_timestamp_seconds";
    write_header(out, name, "gauge", "When the TLS certificate expires, or the first one of its chain.");
    let _ = writeln!(out, "{name} {expires_s}");
}

fn write_library(out: &mut String, metrics: &LibraryMetrics) {
    for (name, help, value) in [
        ("fulgurite_library_requests_open", "Restores that are in the library.", metrics.requests_open),
        ("fulgurite_library_restores_set_back", "Restores that wait for repairs or stores.", metrics.set_back),
        ("fulgurite_library_platters_queued", "Platters that wait to be fetched.", metrics.platters_queued),
        ("fulgurite_library_platters_unverified", "Platters that were taken in and not verified yet.", metrics.platters_unverified),
        ("fulgurite_library_outside_sets", "Sets that have no place in the library.", metrics.outside_sets),
    ] {
        write_header(out, name, "gauge", help);
        let _ = writeln!(out, "{name} {value}");
    }
    let name = "fulgurite_library_machines";
    write_header(out, name, "gauge", "Machines of the library by kind and state.");
    for (kind, (working, out_of_order)) in [("shuttle", metrics.shuttles), ("drive", metrics.drives)] {
        let _ = writeln!(out, "{name}{{kind=\"{kind}\",state=\"works\"}} {working}");
        let _ = writeln!(out, "{name}{{kind=\"{kind}\",state=\"out of order\"}} {out_of_order}");
    }
    let name = "fulgurite_library_restores_total";
    write_header(out, name, "counter", "Restores that ended since the start, by how.");
    for (how, count) in metrics.restores {
        let _ = writeln!(out, "{name}{{how=\"{how}\"}} {count}");
    }
    let name = "fulgurite_library_reads_recovered_total";
    write_header(out, name, "counter", "Reads of platters that were replaced by reads of others of the set.");
    let _ = writeln!(out, "{name} {}", metrics.reads_recovered);
    let name = "fulgurite_library_scrubs_total";
    write_header(out, name, "counter", "Platters that the scrub read in drives or found out of reach, since the start.");
    let (read, out_of_reach) = metrics.scrubbed;
    let _ = writeln!(out, "{name}{{how=\"read\"}} {read}\n{name}{{how=\"out_of_reach\"}} {out_of_reach}");
    if let Some(error) = metrics.estimate_error {
        let name = "fulgurite_library_estimate_error_ratio";
        write_header(out, name, "gauge", "Median of |expected - true end| / duration of the last restores.");
        let _ = writeln!(out, "{name} {error}");
    }
}

impl Lifecycle {
    fn write(&self, out: &mut String) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "fulgurite_lifecycle_actions_total";
        write_header(out, name, "counter", "What lifecycle rules did since the start, by kind.");
        let counts = &self.counts;
        for (kind, count) in [
            ("object_expired", get(&counts.expired)),
            ("noncurrent_version_removed", get(&counts.removed) + get(&counts.removed_by_puts)),
            ("deletion_marker_removed", get(&counts.markers)),
            ("upload_aborted", get(&counts.uploads)),
        ] {
            let _ = writeln!(out, "{name}{{kind=\"{kind}\"}} {count}");
        }
        let name = "fulgurite_lifecycle_failures_total";
        write_header(out, name, "counter", "Names and uploads for which lifecycle rules could not be carried out; they are tried again.");
        let _ = writeln!(out, "{name} {}", get(&counts.failures));
        if get(&self.walked_s) > 0 {
            let name = "fulgurite_lifecycle_last_walk_timestamp_seconds";
            write_header(out, name, "gauge", "When the lifecycle rules of all buckets were last carried out without a failure.");
            let _ = writeln!(out, "{name} {}", get(&self.walked_s));
        }
    }
}

fn write_header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

impl Gateway {
    /// All metrics. Values of the archive are read now; those that can't be read are left out.
    pub(crate) fn render_metrics(&self, metrics: &Metrics) -> String {
        let mut out = String::new();
        metrics.write(&mut out);
        if let Some(certificate) = &self.health.certificate {
            write_certificate(&mut out, certificate.expires_s());
        }
        let mut gauge = |name: &str, help: &str, value: u64| {
            write_header(&mut out, name, "gauge", help);
            let _ = writeln!(out, "{name} {value}");
        };
        if let Ok(totals) = self.archive.reading().totals() {
            gauge("fulgurite_objects", "Names, including those whose newest version is a deletion marker.", totals.objects);
            gauge("fulgurite_versions", "Versions, staged and archived, including deletion markers.", totals.versions);
            gauge("fulgurite_content_bytes", "Content of all versions.", totals.content_bytes);
            gauge("fulgurite_staged_versions", "Versions that are not on platters yet.", totals.staged.versions);
            gauge("fulgurite_staged_bytes", "Stored bytes of staged versions.", totals.staged.stored_bytes);
            if let Some(room) = self.transfers.room_left(&totals.staged) {
                gauge("fulgurite_staging_free_bytes", "Bytes that clients can still stage, within disk and limits.", room);
            }
        }
        if let Ok(Some(exported)) = self.archive.reading_keys().exported() {
            let help = "Keys that were added since the last export of the keys, so that a copy may not have them.";
            gauge("fulgurite_keys_since_export", help, exported.keys_since);
            let help = "When the keys were last exported; 0 if never.";
            gauge("fulgurite_keys_last_export_timestamp_seconds", help, exported.last_ms.unwrap_or(0) / 1_000);
        }
        let started = self.jobs.started_ms.div_euclid(1_000) as u64;
        gauge("fulgurite_start_timestamp_seconds", "When the server was started. Counters begin with 0 then.", started);
        gauge("fulgurite_ready", "1 if /-/ready answers 200.", self.health.is_ready().into());
        let unreadable = self.state.count_unreadable() as u64;
        gauge("fulgurite_unreadable_settings", "Unreadable settings of buckets that requests needed.", unreadable);
        if let Ok(open) = self.state.count_open_restores() {
            gauge("fulgurite_restores_open", "Restores that were requested and are not done.", open);
        }
        let (sets, platters) = (self.archive.reading().sets(), self.archive.platter_states(&|store| self.store_state(store)));
        if let Ok(platters) = &platters {
            let rows = || platters.iter().map(|(row, _)| row);
            let now = crate::state::now_ms().div_euclid(1_000) as u64;
            let unsound = rows().filter(|row| !row.health.is_sound()).count();
            let never = rows().filter(|row| row.health.verified().is_none()).count();
            let oldest = rows().filter_map(|row| row.health.verified()).min();
            gauge("fulgurite_platters", "Platters of all complete sets.", platters.len() as u64);
            gauge("fulgurite_platters_unsound", "Platters that were damaged or missing when last checked.", unsound as u64);
            gauge(
                "fulgurite_platters_never_verified",
                "Platters that were never read in full and found good since they were catalogued.",
                never as u64,
            );
            if let Some(oldest) = oldest {
                let age = now.saturating_sub(oldest);
                gauge("fulgurite_platters_oldest_verification_seconds", "Age of the oldest verification of a platter.", age);
            }
        }
        if let Ok(damaged) = self.archive.reading().count_damaged_staged() {
            gauge("fulgurite_staged_damaged_versions", "Staged versions that were damaged when last read.", damaged);
        }
        if let Ok(gaps) = CatalogueGaps::find(&self.archive, &|_, _| true) {
            let unlisted = gaps.unlisted + gaps.out_of_sight;
            gauge("fulgurite_unlisted_versions", "Versions and file tables that exist but can't be listed.", unlisted);
        }
        if let Some(lost) = self.health.command_lost() {
            let help = "Versions that the last `fulgurite verify` or `scrub` since the start found lost.";
            gauge("fulgurite_verify_lost_versions", help, lost);
        }
        let status = sets.as_ref().ok().zip(platters.as_ref().ok());
        if let Some(status) = status.and_then(|(sets, platters)| self.scrub_status_of(sets, platters.iter().map(|(row, _)| row))) {
            gauge("fulgurite_scrub_verified_platters", "Platters that were verified within scrub.every_days.", status.verified);
            gauge("fulgurite_scrub_due_platters", "Platters that were not, and can be read.", status.due);
            gauge("fulgurite_scrub_due_bytes", "Bytes of those platters.", status.due_bytes);
            let help = "Platters that were not verified in time because their stores are absent or unreadable.";
            gauge("fulgurite_scrub_out_of_reach_platters", help, status.out_of_reach);
            gauge(
                "fulgurite_scrub_due_end_timestamp_seconds",
                "When all that is due will have been read, at the current rate.",
                status.due_end,
            );
            gauge("fulgurite_scrub_cycle_seconds", "Time to read all platters once at the current rate.", status.cycle_s);
            gauge(
                "fulgurite_scrub_cycle_max_seconds",
                "Time in which each platter should be read once.",
                status.every_days.saturating_mul(86_400),
            );
            if let Some(rate) = status.bytes_per_s {
                gauge("fulgurite_scrub_bytes_per_second", "Rate of the last minutes of reading.", rate as u64);
            }
        }
        if let (Ok(sets), Ok(platters)) = (&sets, &platters) {
            write_sets(&mut out, SetStates::count(sets, platters));
        }
        let name = "fulgurite_staging_refused_puts_total";
        write_header(&mut out, name, "counter", "Puts that were refused since the start because staging had too little room.");
        let _ = writeln!(out, "{name} {}", self.transfers.room.refused_puts());
        self.jobs.lifecycle.write(&mut out);
        let stores = self.health.stores.last_result();
        write_header(&mut out, "fulgurite_stores", "gauge", "Stores by their state when last checked.");
        for (state, names) in [("usable", &stores.usable), ("absent", &stores.absent), ("unreadable", &stores.unreadable)] {
            let _ = writeln!(out, "fulgurite_stores{{state=\"{state}\"}} {}", names.len());
        }
        let progress = &self.jobs.scrub_progress;
        for (name, help, counter) in [
            ("fulgurite_scrub_platters_total", "Platters verified by the server's own scrub.", &progress.platters),
            ("fulgurite_scrub_staged_versions_total", "Staged versions verified by the scrub.", &progress.staged_versions),
            ("fulgurite_scrub_bytes_total", "Bytes read by the scrub.", &progress.bytes),
            ("fulgurite_scrub_unsound_total", "Platters that the scrub found damaged or missing.", &progress.unsound),
            ("fulgurite_scrub_repaired_total", "Platters that the scrub rewrote.", &progress.repaired),
        ] {
            write_header(&mut out, name, "counter", help);
            let _ = writeln!(out, "{name} {}", counter.load(Ordering::Relaxed));
        }
        let name = "fulgurite_scrub_reading_seconds_total";
        write_header(&mut out, name, "counter", "Time that the scrub spent on reading, with the pauses that limit its rate.");
        let _ = writeln!(out, "{name} {}", progress.reading_s());
        let totals = self.archive.stores().iter().find_map(|store| store.decode_totals());
        if let Some(totals) = totals.filter(|totals| *totals != DecodeTotals::default()) {
            write_decoding(&mut out, &totals);
        }
        // Waits for the library's thread, for some milliseconds if it is busy.
        let metrics = self.library.as_ref().and_then(|library| tokio::task::block_in_place(|| Library::metrics(library)));
        if let Some(metrics) = metrics {
            write_library(&mut out, &metrics);
        }
        out
    }

    /// How far the server's own scrub is; `None` if it is turned off, or if the catalogue can't be
    /// read.
    pub(crate) fn scrub_status(&self) -> Option<ScrubStatus> {
        let (sets, platters) = (self.archive.reading().sets().ok()?, self.archive.reading().platters().ok()?);
        self.scrub_status_of(&sets, platters.iter())
    }

    /// The same, by these sets and platters of the catalogue.
    pub(crate) fn scrub_status_of<'a>(&self, sets: &[SetRow], platters: impl Iterator<Item = &'a PlatterRow>) -> Option<ScrubStatus> {
        let now_s = crate::state::now_ms().div_euclid(1_000) as u64;
        let names = self.archive.stores().iter().map(|store| store.name());
        let usable: HashSet<&str> = names.filter(|name| self.store_state(name).is_none()).collect();
        // A platter of the unknown store may be on any of them.
        let all_are_usable = usable.len() == self.archive.stores().len();
        let is_usable = |store: &str| if store == UNKNOWN_STORE { all_are_usable } else { usable.contains(store) };
        self.jobs.scrub_progress.status(now_s, sets, platters, is_usable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, Staging};

    #[test]
    fn buckets_count_requests_up_to_their_bound() {
        let metrics = Metrics::default();
        for ms in [1, 1, 3, 40_000] {
            metrics.count(&Method::GET, StatusCode::OK, Duration::from_millis(ms), 10);
        }
        metrics.count(&Method::PUT, StatusCode::INTERNAL_SERVER_ERROR, Duration::from_millis(1), 0);
        let mut out = String::new();
        metrics.write(&mut out);
        for line in [
            "fulgurite_requests_total{method=\"GET\",status=\"2xx\"} 4",
            "fulgurite_requests_total{method=\"PUT\",status=\"5xx\"} 1",
            "fulgurite_request_seconds_bucket{method=\"GET\",le=\"0.0005\"} 0",
            "fulgurite_request_seconds_bucket{method=\"GET\",le=\"0.001\"} 2",
            "fulgurite_request_seconds_bucket{method=\"GET\",le=\"0.005\"} 3",
            "fulgurite_request_seconds_bucket{method=\"GET\",le=\"30\"} 3",
            "fulgurite_request_seconds_bucket{method=\"GET\",le=\"+Inf\"} 4",
            "fulgurite_request_body_bytes_total 40",
        ] {
            assert!(out.contains(&format!("{line}\n")), "{line} is not in\n{out}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_cycle_of_the_scrub_is_shown_while_it_runs() {
        let test = crate::test_gateway::TestGateway::new();
        test.put("k", b"content").await;
        test.gateway.archive.flush(&fulgurite_archive::watch::Unwatched).expect("a flush");
        let has = |line: &str| test.gateway.render_metrics(&Metrics::default()).lines().any(|found| found == line);
        assert!(!has("fulgurite_scrub_verified_platters 1"), "the scrub does not run");
        test.gateway.jobs.scrub_progress.start(&crate::settings::Scrub::default());
        assert!(has("fulgurite_scrub_verified_platters 1") && has("fulgurite_scrub_due_platters 0") && has("fulgurite_scrub_due_bytes 0"));
        assert!(has("fulgurite_scrub_cycle_max_seconds 2592000"));
        test.gateway.jobs.scrub_progress.measure(3_000, Duration::from_secs(2));
        assert!(has("fulgurite_scrub_bytes_per_second 1500") && has("fulgurite_scrub_reading_seconds_total 2"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn free_bytes_of_staging_respect_the_limit_of_the_service() {
        let home = tempfile::tempdir().expect("a folder");
        let state = std::sync::Arc::new(crate::state::State::open(crate::test_gateway::new_archive(home.path())).expect("a state"));
        let staging = Staging { limit_mib: Some(1) };
        let gateway = crate::test_gateway::new_gateway(state, &Settings { staging, ..Settings::default() });
        let metrics = gateway.render_metrics(&Metrics::default());
        let line = metrics.lines().find_map(|line| line.strip_prefix("fulgurite_staging_free_bytes "));
        assert_eq!(line, Some("1048576"), "the service's limit applies too");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_lost_is_shown_for_as_long_as_it_is_and_from_the_first_scrape_on() {
        let test = crate::test_gateway::TestGateway::new();
        let archive = &test.gateway.archive;
        test.put("k", b"content").await;
        archive.flush(&fulgurite_archive::watch::Unwatched).expect("a flush");
        test.put("staged", b"content").await;
        let shown = |line: &str| test.gateway.render_metrics(&Metrics::default()).lines().any(|found| found == line);
        let all = ["fulgurite_sets{state=\"beyond_redundancy\"} ", "fulgurite_staged_damaged_versions ", "fulgurite_unlisted_versions "];
        let counts = || all.map(|name| (0..2).find(|count| shown(&format!("{name}{count}"))));
        assert_eq!(counts(), [Some(0), Some(0), Some(0)]);
        let platter = archive.reading().platters().expect("platters")[0].place.platter;
        let record = |health| archive.catalogue().record_health(platter, health).expect("recorded");
        record(fulgurite_archive::catalogue::Health { missing: true, ..fulgurite_archive::catalogue::Health::intact_at(1) });
        let staged = archive.reading().staged_versions(None, 1).expect("versions")[0].row_id;
        let check = |is_sound| fulgurite_archive::catalogue::StagedCheck { version: staged, at: 1, is_sound };
        archive.catalogue().record_staged(&[check(false)]).expect("recorded");
        assert_eq!(counts(), [Some(1), Some(1), Some(0)]);
        record(fulgurite_archive::catalogue::Health::intact_at(2));
        archive.catalogue().record_staged(&[check(true)]).expect("recorded");
        assert_eq!(counts(), [Some(0), Some(0), Some(0)]);
    }

    /// Names of metrics in a text, without their functions and labels.
    fn named(text: &str) -> std::collections::BTreeSet<&str> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| word.starts_with("fulgurite_")).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn alert_rules_and_the_grafana_dashboard_use_only_metrics_that_exist() {
        let test = crate::test_gateway::TestGateway::new();
        test.put("k", b"content").await;
        test.gateway.archive.flush(&fulgurite_archive::watch::Unwatched).expect("a flush");
        test.gateway.jobs.scrub_progress.start(&crate::settings::Scrub::default());
        test.gateway.health.note_command_lost(0);
        let metrics = Metrics::default();
        metrics.count(&Method::GET, StatusCode::OK, Duration::from_millis(1), 10);
        let mut text = test.gateway.render_metrics(&metrics);
        // A server has this only with TLS, and the next ones with a library.
        write_certificate(&mut text, 1);
        let of_library = LibraryMetrics {
            requests_open: 1,
            set_back: 2,
            platters_queued: 1,
            platters_unverified: 1,
            outside_sets: 0,
            shuttles: (2, 1),
            drives: (2, 0),
            restores: [("read", 1), ("recovered", 0), ("without the library", 0), ("failed", 0)],
            reads_recovered: 0,
            scrubbed: (1, 0),
            estimate_error: Some(0.1),
        };
        write_library(&mut text, &of_library);
        let written = named(&text);
        for (file, least) in [
            (include_str!("../../../../deploy/prometheus/serve-rules.yml"), 10),
            (include_str!("../../../../deploy/prometheus/serve-rules-test.yml"), 8),
            (include_str!("../../../../deploy/grafana/serve.json"), 18),
        ] {
            let used = named(file);
            assert!(used.len() >= least && used.is_subset(&written), "{:?}", used.difference(&written));
        }
        let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../../deploy/grafana/serve.json")).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        assert!(panels.iter().all(|panel| panel["targets"].as_array().is_some_and(|targets| !targets.is_empty())));
    }
}
