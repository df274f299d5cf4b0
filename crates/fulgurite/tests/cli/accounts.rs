//! Accounts and their keys: a secret is shown once, so it must not get lost.

use crate::support::Sandbox;

/// The accounts of the archive `a`, each with its number of keys.
fn accounts(place: &Sandbox) -> Vec<(String, usize)> {
    let listed = place.good(&["accounts", "list", "--json"]).json();
    let listed = listed.as_array().expect("a list").iter();
    listed
        .map(|account| (account["account"].as_str().expect("text").to_owned(), account["access_keys"].as_array().expect("a list").len()))
        .collect()
}

#[test]
fn quiet_shows_secrets_and_lists() {
    let place = Sandbox::new(1, &[]);
    for command in [&["accounts", "add", "ada"][..], &["accounts", "key", "ada"]] {
        let shown = place.good(&[&["--quiet"][..], command].concat()).text();
        assert!(shown.contains("secret key  "), "{shown}");
    }
    let listed = place.good(&["-q", "accounts", "list"]).text();
    assert!(listed.starts_with("ada  FU"), "{listed}");
    assert_eq!(place.good(&["-q", "accounts", "quota", "ada", "--open", "3"]).text(), "", "a summary");
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_whose_secret_could_not_be_shown_is_withdrawn() {
    let place = Sandbox::new(1, &[]);
    place.good(&["accounts", "add", "ada"]);
    let to_full = |command: &str| place.shell(&format!("{} -A a {command} > /dev/full", env!("CARGO_BIN_EXE_fulgurite")));
    to_full("accounts key ada").fails_with(1, "was revoked");
    to_full("accounts add bo").fails_with(1, "account bo was not created");
    to_full("--json accounts add bo").fails_with(1, "account bo was not created");
    assert_eq!(accounts(&place), [("ada".to_owned(), 1)]);
    place.good(&["accounts", "add", "bo"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_can_not_show_its_first_key_stops_at_once() {
    let place = Sandbox::new(1, &[]);
    let serve = format!("{} -A a serve --listen 127.0.0.1:0 > /dev/full", env!("CARGO_BIN_EXE_fulgurite"));
    place.shell(&serve).fails_with(1, "account main was not created");
    assert_eq!(accounts(&place), []);
}
