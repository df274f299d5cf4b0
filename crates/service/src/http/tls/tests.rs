//! The certificates and keys beside this file are for these tests only.

use super::*;

const A: [&[u8]; 2] = [include_bytes!("tests/a.pem"), include_bytes!("tests/a.key")];
/// It expires after 2050, which has another form in a certificate.
const B: [&[u8]; 2] = [include_bytes!("tests/b.pem"), include_bytes!("tests/b.key")];
const A_EXPIRES_S: u64 = 2055323638;
const B_EXPIRES_S: u64 = 4949723638;

/// A folder with these files.
fn folder([certificate, key]: [&[u8]; 2]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, [certificate, key]);
    folder
}

fn write(folder: &tempfile::TempDir, files: [&[u8]; 2]) {
    for (name, bytes) in ["certificate.pem", "key.pem"].into_iter().zip(files) {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    }
}

fn read(folder: &tempfile::TempDir) -> Result<Certificate, TlsError> {
    Certificate::read(folder.path(), &Tls { certificate: "certificate.pem".into(), key: "key.pem".into() })
}

#[test]
fn the_end_of_a_chain_is_that_of_its_first_certificate_to_expire() {
    for (files, expires_s) in [(A, A_EXPIRES_S), (B, B_EXPIRES_S)] {
        assert_eq!(read(&folder(files)).expect("valid").expires_s(), expires_s);
    }
    let chain = [B[0], A[0]].concat();
    assert_eq!(read(&folder([&chain, B[1]])).expect("valid").expires_s(), A_EXPIRES_S);
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let cut = &A[0][..A[0].len() / 2];
    let cut_key = &A[1][..A[1].len() / 2];
    // Valid base64 of something else.
    let damaged = [A[0], b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"].concat();
    let cases: [([&[u8]; 2], &str); 8] = [
        ([b"", A[1]], "certificate.pem can't be used for TLS: it holds no certificate"),
        ([A[1], A[1]], "certificate.pem can't be used for TLS: it holds no certificate"),
        ([cut, A[1]], "certificate.pem can't be used for TLS: it is no valid PEM"),
        ([&damaged, A[1]], "certificate.pem can't be used for TLS: certificate 2 in it is damaged"),
        ([A[0], A[0]], "key.pem can't be used for TLS: it holds no private key"),
        ([A[0], cut_key], "key.pem can't be used for TLS: it is no valid PEM"),
        ([A[0], B[1]], "key.pem can't be used for TLS: it is not the key of the certificate in"),
        ([A[0], include_bytes!("tests/a-encrypted.key")], "key.pem can't be used for TLS: the private key in it is encrypted"),
    ];
    for (files, says) in cases {
        let error = read(&folder(files)).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = read(&tempfile::tempdir().expect("a folder")).expect_err("nothing there").to_string();
    assert!(error.contains("certificate.pem can't be used for TLS: No such file"), "{error}");
}

#[test]
fn a_renewed_certificate_is_used_once_both_files_are_there() {
    let folder = folder(A);
    let certificate = read(&folder).expect("valid");
    assert_eq!(certificate.look(None).expect("readable"), Look::Unchanged);
    // The key comes later.
    write(&folder, [B[0], A[1]]);
    let Ok(Look::Changing(half)) = certificate.look(None) else { panic!("it changed") };
    write(&folder, B);
    let Ok(Look::Changing(whole)) = certificate.look(Some(&half)) else { panic!("it changed again") };
    assert_eq!(certificate.expires_s(), A_EXPIRES_S);
    assert_eq!(certificate.look(Some(&whole)).expect("valid"), Look::Renewed);
    assert_eq!(certificate.expires_s(), B_EXPIRES_S);
    // One that can't be used changes nothing.
    write(&folder, [B[0], A[1]]);
    assert!(certificate.look(Some(&half)).is_err());
    std::fs::remove_file(folder.path().join("key.pem")).expect("removed");
    assert!(certificate.look(None).is_err());
    assert_eq!(certificate.expires_s(), B_EXPIRES_S);
}

#[test]
fn the_end_of_a_certificate_is_told_once_a_day() {
    let day = |days: u64| days * DAY_S;
    assert!(!must_warn(day(100), None, day(85)));
    assert!(must_warn(day(100), None, day(86)));
    assert!(!must_warn(day(100), Some(day(86)), day(87) - 1));
    assert!(must_warn(day(100), Some(day(86)), day(87)) && must_warn(day(100), Some(day(99)), day(200)));
    assert!(must_warn(day(100), Some(day(99)), day(90)), "the clock was ahead");
}
