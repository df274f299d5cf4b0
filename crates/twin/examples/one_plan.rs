use fulgurite_twin::plan::{Plan, plan};
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sets: Vec<_> = args[1..].iter().map(|a| fulgurite_twin::settings::Override::parse("--set", a).unwrap()).collect();
    let p = Plan::read(args[0].as_ref(), &sets).unwrap_or_else(|e| panic!("{e}"));
    let t = std::time::Instant::now();
    let o = plan(&p).unwrap_or_else(|e| panic!("{e}"));
    println!("{}\n{}\n{}\n{:?}", o.sizes(), o.loads(), o.statement(), t.elapsed());
    o.figure().unwrap().write("/tmp".as_ref(), "plan-figure").unwrap();
}
