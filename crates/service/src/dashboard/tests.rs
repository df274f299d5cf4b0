//! The dashboard through the router, as a browser gets it.

use fulgurite_archive::catalogue::Health;
use fulgurite_archive::watch::Unwatched;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::*;
use crate::auth::caller::Peer;
use crate::http::router::Router;
use crate::settings::Settings;
use crate::test_gateway::{TestGateway, soon};

const TOKEN: &str = "moonlight-sonata-14";

fn router(test: &TestGateway) -> Router {
    let token = DashboardToken::try_from(TOKEN.to_owned()).ok();
    let settings = Settings { dashboard: settings::Dashboard { enabled: true, token }, ..Settings::default() };
    Router::new(test.gateway.clone(), None, &settings)
}

async fn send(router: &Router, path: &str, token: Option<&str>) -> Response<s3s::Body> {
    let mut request = Request::builder().method(Method::GET).uri(path).header("host", "127.0.0.1");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(bytes::Bytes::new())).expect("a request");
    soon(router.answer(request, Peer { address: [127, 0, 0, 1].into(), is_tls: false })).await
}

async fn ask(router: &Router, path: &str) -> (StatusCode, Value) {
    let (head, body) = send(router, &format!("{PATH}{API}{path}"), Some(TOKEN)).await.into_parts();
    let body = body.collect().await.expect("a whole answer").to_bytes();
    (head.status, serde_json::from_slice(&body).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_archive_is_shown_without_the_token() {
    let test = TestGateway::new();
    test.put("secret-name", b"moon").await;
    let router = router(&test);
    for page in [
        "overview",
        "platters",
        "set?id=00",
        "activity",
        "library",
        "events",
        "buckets",
        "objects?bucket=photos",
        "object?bucket=photos&key=secret-name",
        "no-such-page",
    ] {
        for token in [None, Some(""), Some("moonlight-sonata-1"), Some("moonlight-sonata-14x")] {
            let response = send(&router, &format!("{PATH}{API}{page}"), token).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{page} {token:?}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            let body = response.into_body().collect().await.expect("an answer").to_bytes();
            assert!(!String::from_utf8_lossy(&body).contains("photos"), "{page}");
        }
    }
    for file in ["", "/app.js", "/style.css"] {
        let response = send(&router, &format!("{PATH}{file}"), None).await;
        assert_eq!(response.status(), StatusCode::OK, "{file}");
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_made_at_each_start_unless_the_settings_have_one() {
    let fresh = || Dashboard::new(&settings::Dashboard::default()).link().expect("turned on");
    let (one, other) = (fresh(), fresh());
    let token = one.strip_prefix("/-/dashboard#token=").expect("a token in the part that browsers keep to themselves");
    assert!(token.len() == 32 && one != other, "{one}");
    let token = DashboardToken::try_from(TOKEN.to_owned()).ok();
    assert_eq!(Dashboard::new(&settings::Dashboard { enabled: true, token }).link().as_deref(), Some(PATH));
    for weak in ["", "short", "fifteen-letters", "with spaces in between", "moonlight-sonata-\u{e9}"] {
        assert!(DashboardToken::try_from(weak.to_owned()).is_err(), "{weak:?}");
    }
    let off = Dashboard::new(&settings::Dashboard { enabled: false, token: None });
    assert!(off.link().is_none());
    let test = TestGateway::new();
    assert_eq!(off.answer(&test.gateway, PATH, None, &HeaderMap::new()).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_tells_the_state_of_platters_sets_and_stores() {
    let test = TestGateway::new();
    let router = router(&test);
    let (status, empty) = ask(&router, "overview").await;
    assert_eq!((status, &empty["platters"]["all"], &empty["sets"]["all"]), (StatusCode::OK, &json!(0), &json!(0)));
    assert_eq!(empty["cycle"], Value::Null, "no scrub runs in this test");

    test.put("k", b"content").await;
    test.gateway.archive.flush(&Unwatched).expect("a flush");
    test.put("staged", b"content").await;
    test.gateway.jobs.scrub_progress.start(&settings::Scrub::default());
    // Not the answer for other viewers, which is given again for some time.
    let overview = test.gateway.fixity_overview().expect("an overview");
    assert_eq!((&overview["platters"]["good"], &overview["platters"]["all"]), (&json!(1), &json!(1)));
    assert_eq!((&overview["ages"]["verified"][0]["platters"], &overview["ages"]["never"]), (&json!(1), &json!(0)));
    assert_eq!((&overview["sets"]["whole"], &overview["cycle"]["verified"]), (&json!(1), &json!(1)));
    assert_eq!((&overview["staged"]["versions"], &overview["listed"]), (&json!(1), &json!([])));

    // The platter vanishes from its store, and a check notices that.
    let row = test.gateway.archive.reading().platters().expect("platters")[0].clone();
    let record = |health| test.gateway.archive.catalogue().record_health(row.place.platter, health).expect("recorded");
    record(Health { missing: true, ..row.health });
    let overview = test.gateway.fixity_overview().expect("an overview");
    assert_eq!((&overview["platters"]["missing"], &overview["sets"]["out_of_reach"]), (&json!(1), &json!(1)));
    assert_eq!((&overview["listed"][0]["state"], &overview["listed"][0]["store"]), (&json!("missing"), &json!("d1")));
    assert_eq!(overview["stores"][0]["platters"]["missing"], json!(1));

    // A wrong clock dated its verification.
    let now_s = crate::state::now_ms().unsigned_abs() / 1_000;
    record(Health::intact_at(now_s + 100 * 86_400));
    let overview = test.gateway.fixity_overview().expect("an overview");
    assert_eq!((&overview["ages"]["future"], &overview["ages"]["verified"][0]["platters"]), (&json!(1), &json!(0)));
    assert_eq!((&overview["cycle"]["verified"], &overview["cycle"]["due"]), (&json!(0), &json!(1)), "it is to be read again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_can_not_take_over_a_host_of_the_dashboard() {
    let test = TestGateway::new();
    let domain = crate::http::addressing::Domain::new("example.org");
    let router = Router::new(test.gateway.clone(), domain, &Settings::default());
    let status = async |host: &str| {
        let request = Request::builder().method(Method::GET).uri(PATH).header("host", host).body(Full::new(bytes::Bytes::new()));
        soon(router.answer(request.expect("a request"), Peer { address: [127, 0, 0, 1].into(), is_tls: false })).await.status()
    };
    for host in ["example.org", "127.0.0.1:9000", "[::1]"] {
        assert_eq!(status(host).await, StatusCode::OK, "{host}");
    }
    // An account that may create buckets could create one of this name.
    for host in ["archive.internal", "localhost:9000"] {
        assert_eq!(status(host).await, StatusCode::NOT_FOUND, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_listed_by_pages_with_the_state_of_their_copies() {
    let test = TestGateway::new();
    let router = router(&test);
    for number in 0..150 {
        test.put(&format!("night/{number:03}"), b"moon").await;
    }
    test.put("a&b <c>", b"moon").await;
    let (_, top) = ask(&router, "objects?bucket=photos").await;
    assert_eq!((&top["prefixes"], &top["objects"][0]["key"], &top["next"]), (&json!(["night/"]), &json!("a&b <c>"), &Value::Null));
    assert_eq!((&top["objects"][0]["state"], &top["objects"][0]["is_staged"]), (&json!("unverified"), &json!(true)));
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let (_, page) = ask(&router, &format!("objects?bucket=photos&prefix=night/&after={after}")).await;
        keys.extend(page["objects"].as_array().expect("objects").iter().map(|object| object["key"].as_str().expect("a key").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    let wanted: Vec<String> = (0..150).map(|number| format!("night/{number:03}")).collect();
    assert_eq!(keys, wanted);

    let (_, object) = ask(&router, "object?bucket=photos&key=night/007").await;
    assert_eq!((&object["copies"][0]["kind"], &object["versions"][0]["is_staged"]), (&json!("staged"), &json!(true)));
    assert_eq!(object["versions"].as_array().map(Vec::len), Some(1), "night/0070 would be another object");
    for (page, status) in [
        ("objects?bucket=nowhere", StatusCode::NOT_FOUND),
        ("objects", StatusCode::NOT_FOUND),
        ("objects?bucket=photos&after=!", StatusCode::BAD_REQUEST),
        ("object?bucket=photos&key=none", StatusCode::NOT_FOUND),
        ("object?bucket=photos&key=night/007&versionId=x", StatusCode::BAD_REQUEST),
        ("nothing", StatusCode::NOT_FOUND),
    ] {
        let (found, answer) = ask(&router, page).await;
        assert!(found == status && answer["error"].is_string(), "{page}: {found} {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_given_again_to_other_viewers() {
    let test = TestGateway::new();
    let router = router(&test);
    let (_, first) = ask(&router, "overview").await;
    test.put("k", b"content").await;
    assert_eq!(ask(&router, "overview").await.1, first, "it is fresh enough");
}
