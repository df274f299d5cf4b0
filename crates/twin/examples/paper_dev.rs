use std::path::Path;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let mut s = fulgurite_twin::paper::Settings::default();
    let mut docs = None;
    for x in &a {
        match x.split_once('=') {
            Some(("seeds", n)) => s.seeds = n.parse().unwrap(),
            Some(("threads", n)) => s.threads = n.parse().unwrap(),
            Some(("docs", d)) => docs = Some(d.to_owned()),
            None if x == "quick" => { s.quick = true; s.seeds = 2 }
            _ => s.only.push(x.clone()),
        }
    }
    let t = std::time::Instant::now();
    let p = fulgurite_twin::paper::run(&s, &|share| if std::env::var("P").is_ok() { eprintln!("{share:.3} {:.1}", t.elapsed().as_secs_f64()) }).unwrap_or_else(|e| panic!("{e}: {:?}", std::error::Error::source(&e).map(|s| s.to_string())));
    eprintln!("ran in {:.2}", t.elapsed().as_secs_f64());
    p.write(Path::new("/tmp/paper-results")).unwrap_or_else(|e| panic!("{e}: {:?}", std::error::Error::source(&e).map(|s| s.to_string())));
    if let Some(d) = docs { p.write_docs(Path::new(&d)).unwrap(); }
    eprintln!("{:.2} s, {} runs, {} events", t.elapsed().as_secs_f64(), p.runs, p.events);
}
