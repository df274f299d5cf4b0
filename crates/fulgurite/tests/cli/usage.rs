//! Usage errors, help, JSON and quiet output.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::Sandbox;

#[test]
fn a_wrong_command_line_exits_with_2() {
    let place = Sandbox::empty();
    for arguments in [
        &["frobnicate"][..],
        &["init"],
        &["put"],
        &["get"],
        &["get", "x", "--range", "9-1"],
        &["get", "x", "--range", "all"],
        &["get", "--all", "out", "--version", "1"],
        &["rm"],
        &["rm", "-r", "--version", "1", "x"],
        &["init", "b", "--store=s", "--set=some"],
        &["keys", "export", "file"],
        &["keys", "export", "file", "--plain", "--passphrase-file", "p"],
        &["put", "a", "--name", "x", "--to", "y"],
        &["catalogue"],
        &["inspect"],
        &["inspect", "x", "--images", "y", "--health", "z"],
        &["inspect", "x", "--images", "y", "--files"],
        &["inspect", "x", "--track", "1"],
        &["inspect", "x", "--health", "z", "--sector", "1"],
        &["inspect", "x", "--noise", "clean"],
        &["inspect", "x", "--images", "y", "--sector", "-1"],
        &["demo", "--medium", "stone"],
        &["bench", "--seconds", "1", "--operations", "2"],
        &["bench", "--prepared"],
        &["ingest", "folder", ".", "--endpoint", "http://localhost:1"],
        &["retrieve", "list", "--to", "folder", "--endpoint", "http://localhost:1"],
        &["twin", "paper", "--only", "skew", "--docs", "docs"],
        &[],
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.status, 2, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("--help") || ran.err.contains("Usage"), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn with_json_a_failure_is_one_line_of_json_with_its_exit_status() {
    let place = Sandbox::new(1, &["--quiet"]);
    place.write("file", b"content");
    place.good(&["put", "file"]);
    let failures: [(&[&str], i32, &str); 6] = [
        (&["get", "nothing", "-", "--json"], 1, "nothing is stored as nothing"),
        (&["ls", "nothing", "--json"], 1, "nothing is stored as nothing"),
        (&["--json", "-A", "nowhere", "status"], 1, "nowhere is not an archive"),
        (&["--json", "frobnicate"], 2, "frobnicate"),
        (&["get", "--json"], 2, "--help"),
        (&["twin", "run", "nowhere.toml", "--json"], 2, "nowhere.toml"),
    ];
    for (arguments, status, says) in failures {
        let ran = place.run(arguments);
        assert_eq!((ran.status, &ran.out[..]), (status, &b""[..]), "{arguments:?}: {ran:?}");
        let told: serde_json::Value = serde_json::from_str(&ran.err).expect("standard error is one JSON value");
        assert_eq!(told["status"], status, "{arguments:?}: {ran:?}");
        assert!(told["error"].as_str().is_some_and(|error| error.contains(says)), "{arguments:?}: {ran:?}");
    }
    // An argument after `--` is a name, not an option.
    assert!(place.run(&["get", "--frobnicate", "--", "--json"]).err.contains("Usage"));
    assert!(place.good(&["--help", "--json"]).text().contains("Exit status"));
    // Notes and problems are JSON too.
    place.write("tree/one", b"1");
    std::os::unix::net::UnixListener::bind(place.path("tree/socket")).expect("a socket");
    let ran = place.run(&["put", "tree", "--json"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    let told: Vec<serde_json::Value> = ran.err.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(
        told.iter().any(|line| line["kind"] == "not stored" && line["path"].as_str().is_some_and(|path| path.ends_with("socket"))),
        "{ran:?}"
    );
}

/// Every command without subcommands, as a list of words, taken from `--help`.
fn commands(place: &Sandbox) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let help = place.good(&[&words[..], &["--help".to_owned()]].concat()).text();
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // Continuation lines of descriptions are indented further than names.
        let names =
            listed.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        let below: Vec<_> = names.filter(|name| *name != "help").map(|name| [&words[..], &[name.to_owned()]].concat()).collect();
        match below.is_empty() {
            true => found.push(words),
            false => open.extend(below),
        }
    }
    found
}

#[test]
fn with_json_every_failed_command_ends_with_one_error_line() {
    let place = Sandbox::empty();
    place.write("file", b"content");
    place.write("passphrase", b"secret");
    // Valid arguments of each command, so that only the archive, or the file that it reads instead,
    // is wrong.
    let arguments: &[(&str, &[&str], Option<i32>)] = &[
        ("init", &["file/a", "--store=d1"], Some(1)),
        ("attach", &["a", "--store=nowhere"], Some(1)),
        ("put", &["file"], Some(1)),
        ("ls", &[], Some(1)),
        ("fixity", &["name"], Some(1)),
        ("get", &["name", "-"], Some(1)),
        ("rm", &["name"], Some(1)),
        ("import bagit", &["nowhere"], Some(1)),
        ("import ocfl", &["nowhere"], Some(1)),
        ("export bagit", &["name", "--into=bag"], Some(1)),
        ("export ocfl", &["name", "--into=root"], Some(1)),
        ("flush", &[], Some(1)),
        ("verify", &[], Some(1)),
        ("scrub", &[], Some(1)),
        ("status", &[], Some(1)),
        ("platters", &[], Some(1)),
        ("inspect", &["nowhere"], Some(1)),
        ("recover", &["00"], Some(1)),
        ("catalogue rebuild", &[], Some(1)),
        ("catalogue check", &[], Some(1)),
        ("catalogue forget", &["00"], Some(1)),
        ("store add", &["d1"], Some(1)),
        ("store list", &[], Some(1)),
        ("store replace", &["d1"], Some(1)),
        ("keys export", &["k", "--passphrase-file=passphrase"], Some(1)),
        ("keys import", &["k"], Some(1)),
        ("keys repair", &[], Some(1)),
        ("serve", &["--listen=127.0.0.1:0"], Some(1)),
        ("decode-worker", &["nowhere"], Some(1)),
        ("restores", &[], Some(1)),
        ("library status", &[], Some(1)),
        ("library fault", &["shuttle", "0"], Some(1)),
        ("library repair", &["drive", "0"], Some(1)),
        ("accounts add", &["name"], Some(1)),
        ("accounts key", &["name"], Some(1)),
        ("accounts revoke", &["key"], Some(1)),
        ("accounts quota", &["name", "--open=1"], Some(1)),
        ("accounts give-bucket", &["bucket", "name"], Some(1)),
        ("accounts list", &[], Some(1)),
        ("audit init", &["--database=file/a"], Some(1)),
        ("audit node add", &["node", "."], Some(1)),
        ("audit node set", &["node"], Some(1)),
        ("audit node list", &[], Some(1)),
        ("audit node remove", &["node"], Some(1)),
        ("audit inventory csv", &["nowhere"], Some(1)),
        ("audit inventory checksums", &["nowhere"], Some(1)),
        ("audit inventory bagit", &["nowhere"], Some(1)),
        ("audit inventory ocfl", &["nowhere"], Some(1)),
        ("audit inventory archive", &[], Some(1)),
        ("audit inventory remove", &["name"], Some(1)),
        ("audit inventory dismiss", &["1"], Some(1)),
        ("audit inventory listing", &["node"], Some(1)),
        ("audit run", &[], Some(1)),
        ("audit status", &[], Some(1)),
        ("audit problems", &[], Some(1)),
        ("audit history", &["name"], Some(1)),
        ("audit repair", &[], Some(1)),
        ("audit report", &[], Some(1)),
        ("audit export", &[], Some(1)),
        ("audit matrix add", &["name"], Some(1)),
        ("audit matrix remove", &["name"], Some(1)),
        ("audit matrix expect", &["node", "audit", "learn"], Some(1)),
        ("audit matrix run", &[], Some(1)),
        ("audit matrix show", &[], Some(1)),
        ("audit matrix records", &[], Some(1)),
        ("audit read", &["node", "name"], Some(1)),
        ("audit url", &["node", "name"], Some(1)),
        ("bench", &["--endpoint=nowhere"], Some(2)),
        ("bench", &["--endpoint==http://localhost:1"], Some(2)),
        ("ingest folder", &["nowhere", "--endpoint=nowhere", "--bucket=b"], Some(2)),
        ("ingest kafka", &["--topic=t", "--brokers=nowhere:1", "--endpoint=nowhere", "--bucket=b"], Some(2)),
        ("retrieve", &["nowhere", "--to=folder", "--endpoint=nowhere", "--bucket=b"], Some(2)),
        ("demo", &["--into=file"], Some(1)),
        ("migrate plan", &["nowhere.toml"], Some(2)),
        ("migrate init", &["m", "--from=nowhere", "--to=elsewhere"], Some(1)),
        ("migrate inventory", &["nowhere"], Some(1)),
        ("migrate run", &["nowhere"], Some(1)),
        ("migrate status", &["nowhere"], Some(1)),
        ("migrate pause", &["nowhere"], Some(1)),
        ("migrate resume", &["nowhere"], Some(1)),
        ("migrate recall", &["nowhere", "a"], Some(1)),
        ("migrate tapes make", &["tapes", "--from=nowhere"], Some(1)),
        ("migrate tapes list", &["nowhere"], Some(1)),
        ("migrate report", &["nowhere"], Some(1)),
        ("migrate replay", &["nowhere"], Some(1)),
        ("migrate scan", &["nowhere"], Some(1)),
        ("migrate forget", &["nowhere"], Some(1)),
        ("twin run", &["nowhere.toml"], Some(2)),
        ("twin sweep", &["nowhere.toml", "--vary=shuttles.count=8"], Some(2)),
        ("twin compare", &["nowhere.toml", "elsewhere.toml"], Some(2)),
        ("twin record", &["nowhere.toml", "journal"], Some(2)),
        ("twin replay", &["nowhere"], Some(1)),
        ("twin watch", &["nowhere", "page"], Some(1)),
        ("twin plan", &["nowhere.toml"], Some(2)),
        ("twin check-workload", &["nowhere.toml"], Some(2)),
        ("twin paper", &["--out=file/below", "--quick", "--only=throughput"], Some(1)),
        ("channel ber", &["--noise=0.6"], Some(1)),
        ("channel sectors", &["--model=nowhere", "--sectors=8"], Some(1)),
        ("channel frames", &["--into=file/below", "--sectors=8"], Some(1)),
        // These commands read nothing.
        ("twin reference", &[], None),
        ("migrate reference", &[], None),
        ("migrate tapes reference", &[], None),
    ];
    let check = |words: &[&str], status: i32| {
        let ran = place.run(words);
        assert_eq!((ran.status, &ran.out[..]), (status, &b""[..]), "{words:?}: {ran:?}");
        let lines: Vec<serde_json::Value> = ran.err.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let failures: Vec<_> = lines.iter().filter(|line| line.get("error").is_some()).collect();
        let [failure] = failures[..] else { panic!("{words:?}: expected one failure: {ran:?}") };
        assert_eq!(failure, lines.last().expect("a line"), "{words:?}: {ran:?}");
        assert!(failure["status"] == status && failure["error"].as_str().is_some_and(|error| !error.is_empty()), "{words:?}: {ran:?}");
    };
    for command in commands(&place) {
        let name = command.join(" ");
        let Some((_, arguments, status)) = arguments.iter().find(|row| row.0 == name) else { panic!("no arguments for {name}") };
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        check(&[&["--json"], &words[..], &["--frobnicate"]].concat(), 2);
        if let Some(status) = status {
            check(&[&words[..], arguments, &["--json", "--archive", "file/a"]].concat(), *status);
        }
    }
    for words in [&["--json"][..], &["catalogue", "--json"], &["--json", "frobnicate"], &["put", "--json"]] {
        check(words, 2);
    }
}

#[test]
fn with_json_an_answer_that_is_not_good_ends_with_its_exit_status() {
    let place = Sandbox::new(2, &[]);
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    let last =
        |ran: &crate::support::Ran| -> serde_json::Value { serde_json::from_str(ran.err.lines().last().expect("a line")).expect("JSON") };
    assert_eq!(place.good(&["verify", "--json"]).err, "");
    let ran = place.run(&["rm", "nothing", "--json"]);
    assert_eq!((ran.status, &last(&ran)["status"]), (1, &1.into()), "{ran:?}");
    std::fs::remove_file(&place.platters()[0].file).expect("removed");
    let ran = place.run(&["verify", "--json"]);
    assert_eq!((ran.status, &last(&ran)["status"]), (1, &1.into()), "{ran:?}");
    assert!(ran.json()["unsound"].is_array() && last(&ran)["error"].is_string(), "{ran:?}");
    std::fs::rename(place.path("d1"), place.path("away")).expect("renamed");
    for command in ["verify", "platters", "status"] {
        let ran = place.run(&[command, "--json"]);
        assert!(ran.status > 0 && last(&ran)["status"] == ran.status, "{ran:?}");
    }
}

#[test]
fn every_command_has_help_and_the_program_a_version() {
    let place = Sandbox::empty();
    assert!(place.good(&["--version"]).text().starts_with("fulgurite "));
    for command in [
        "init",
        "put",
        "ls",
        "get",
        "rm",
        "flush",
        "verify",
        "scrub",
        "status",
        "platters",
        "inspect",
        "recover",
        "catalogue",
        "keys",
        "demo",
    ] {
        assert!(place.good(&["--help"]).text().contains(command), "{command}");
        assert!(place.good(&[command, "--help"]).text().contains("Usage"), "{command}");
    }
}

#[test]
fn the_help_of_commands_that_use_no_archive_does_not_name_one() {
    let place = Sandbox::empty();
    let without = ["inspect", "decode-worker", "demo", "bench", "ingest", "retrieve", "migrate", "twin", "channel"];
    for words in commands(&place) {
        for help in ["--help", "-h"] {
            let shown = place.good(&[&words[..], &[help.to_owned()]].concat()).text();
            assert_eq!(shown.contains("--archive <"), !without.contains(&words[0].as_str()), "{words:?}: {shown}");
        }
    }
    // It is accepted, before a command and after it.
    place.good(&["-A", "nowhere", "migrate", "reference"]);
    place.good(&["migrate", "tapes", "reference", "--archive=nowhere"]);
    place.run(&["status", "-A", "nowhere"]).fails_with(1, "nowhere");
    place.run(&["-A", "nowhere", "status"]).fails_with(1, "nowhere");
}

#[test]
fn without_an_archive_commands_say_how_to_name_one() {
    let place = Sandbox::empty();
    for command in [&["ls"][..], &["flush"], &["status"], &["verify"], &["keys", "export", "--plain", "k"], &["catalogue", "rebuild"]] {
        place.run(command).fails_with(1, "a is not an archive");
        assert!(!place.path("k").exists());
    }
    let nowhere =
        Command::new(env!("CARGO_BIN_EXE_fulgurite")).arg("ls").current_dir(place.path("")).env_remove("FULGURITE_ARCHIVE").output();
    let said = String::from_utf8(nowhere.expect("it runs").stderr).expect("text");
    assert!(said.contains("--archive FOLDER") && said.contains("fulgurite init"), "{said}");
}

#[test]
fn an_archive_is_found_from_the_folders_below_it() {
    let place = Sandbox::new(1, &["--quiet"]);
    let below = place.path("a/some/where");
    std::fs::create_dir_all(&below).expect("folders");
    let status = Command::new(env!("CARGO_BIN_EXE_fulgurite")).arg("status").current_dir(below).env_remove("FULGURITE_ARCHIVE").output();
    assert!(status.expect("it runs").status.success());
}

#[test]
fn a_closed_standard_output_does_not_stop_the_work() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"content");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulgurite"));
    command.args(["-A", "a", "put", "--flush", "file"]).current_dir(place.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!((child.wait().expect("it ends").code(), &said[..]), (Some(0), ""));
    assert_eq!(place.platters().len(), 1);
}

#[test]
fn a_reader_may_take_only_the_beginning() {
    let place = Sandbox::new(1, &[]);
    place.write("file", vec![1; 1 << 20]);
    place.good(&["put", "file"]);
    let program = env!("CARGO_BIN_EXE_fulgurite");
    let ran = place.shell(&format!("({program} -A a get file -; echo $? > status) | head -c 10"));
    assert_eq!((&ran.out[..], &ran.err[..]), (&[1; 10][..], ""));
    assert_eq!(place.read("status"), b"0\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let place = Sandbox::new(1, &[]);
    for command in ["-A a status", "--help", "--version", "put --help"] {
        place.shell(&format!("{} {command} > /dev/full", env!("CARGO_BIN_EXE_fulgurite"))).fails_with(1, "standard output");
    }
}

#[test]
fn quiet_prints_nothing_and_json_prints_json() {
    let place = Sandbox::empty();
    let made = place.good(&["init", "a", "--store=d1", "--store=d2", "--json"]).json();
    assert_eq!(made["set"], "1+1");
    place.write("file", b"content");
    assert_eq!(place.good(&["put", "file", "-q"]).out, b"");
    let put = place.good(&["put", "file", "--again", "--json", "--flush"]).json();
    assert_eq!((&put["objects"], &put["bytes"], &put["flush"]["platters"]), (&1.into(), &7.into(), &2.into()));
    let status = place.good(&["status", "--json"]).json();
    assert_eq!((&status["objects"], &status["versions"], &status["staged"]["versions"]), (&1.into(), &2.into(), &0.into()));
    assert_eq!(status["stores"].as_array().map(Vec::len), Some(2));
    assert_eq!(place.good(&["verify", "--objects", "--json"]).json()["objects"]["read"], 2);
    assert_eq!(place.good(&["scrub", "--json"]).json()["rebuilt"], 0);
    assert_eq!(place.good(&["flush", "--json"]).json()["sets"], 0);
    assert_eq!(place.good(&["get", "file", "out", "--json"]).json()["bytes"], 7);
    assert_eq!(place.good(&["get", "--all", "all", "--json"]).json()["objects"], 1);
    assert_eq!(place.good(&["keys", "export", "--plain", "k", "--json"]).json()["keys"], 2);
    assert_eq!(place.good(&["keys", "import", "k", "--json"]).json()["keys"], 2);
    assert_eq!(place.good(&["catalogue", "rebuild", "--json"]).json()["archived"], 2);
    let platter = &place.platters()[0];
    let path = platter.file.to_str().expect("text");
    assert_eq!(place.good(&["inspect", path, "--json"]).json()["platter"], platter.id[..]);
    assert_eq!(place.good(&["recover", &platter.id, "--json"]).json()["store"], platter.store[..]);
    assert_eq!(place.good(&["rm", "file", "--json"]).json()["removed_versions"], 2);
    place.good(&["catalogue", "check"]);
}

#[test]
fn frame_error_rates_depend_on_noise_and_seed_only() {
    let place = Sandbox::empty();
    let rows = |seed: &str, threads: &str| {
        let ran = place.good(&["--json", "channel", "ber", "--frames=6", "--noise=0.01,0.04", "--seed", seed, "--threads", threads]);
        let mut rows = ran.json_lines();
        rows.iter_mut().for_each(|row| row["seconds"] = 0.into());
        rows
    };
    let found = rows("1", "1");
    assert_eq!(found, rows("1", "3"));
    assert_ne!(found, rows("2", "1"));
    let failed: Vec<_> = found.iter().map(|row| (row["failed"].as_u64(), row["wrong"].as_u64(), row["frames"].as_u64())).collect();
    assert_eq!(failed, [(Some(0), Some(0), Some(6)), (Some(6), Some(0), Some(6))]);
    // None of six failed: with 95 % confidence, fewer than 46 % do.
    assert!((found[0]["high"].as_f64().expect("a number") - 0.459).abs() < 0.001, "{}", found[0]);
    place.run(&["channel", "ber", "--rate", "0.7"]).fails_with(2, "rates are 0.75 to 0.9375");
    place.run(&["channel", "ber", "--noise", "0.01,0.5"]).fails_with(1, "a channel can't have a bit error rate of 0.5");
}

#[test]
fn a_check_of_the_catalogue_has_a_json_answer() {
    let place = Sandbox::new(1, &[]);
    assert_eq!(place.good(&["catalogue", "check", "--json"]).json()["sound"], true);
}
