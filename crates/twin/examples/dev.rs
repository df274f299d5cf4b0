use fulgurite_chance::Stream;
use fulgurite_domain::*;
use fulgurite_library::*;
use fulgurite_mechanics::*;
use fulgurite_twin::*;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let get = |n: &str, d: f64| a.iter().find_map(|x| x.strip_prefix(&format!("{n}=")).map(|v| v.parse::<f64>().unwrap())).unwrap_or(d);
    let pol = a.iter().find_map(|x| x.strip_prefix("policy=")).unwrap_or("partitioned").to_string();
    let shuttles = get("shuttles", 20.0) as u16;
    let rate = get("rate", 2.0);
    let hours = get("hours", 12.0);
    let n = get("platters", 4500.0) as u32;
    let bytes = get("mb", 20.0) * 1e6;
    let seed = get("seed", 1.0) as u64;
    let tput = get("tput", 60.0) * 1e6;
    let check = get("check", 0.0) > 0.0;
    let layout = Layout { shuttles, ..Layout::default() }.check().unwrap();
    let pace = Pace { track: Micros::from_seconds(20e6 / tput), ..Pace::default() };
    let mut st = Stream::new(seed, "place");
    let mut slots: Vec<Slot> = (0..layout.slot_count()).map(Slot).collect();
    for i in (1..slots.len()).rev() {
        let j = st.below(i as u64 + 1) as usize;
        slots.swap(i, j);
    }
    slots.truncate(n as usize);
    let ver = if get("verify", 1.0) > 0.0 { Verification::Endless } else { Verification::Off };
    let inv = Inventory { homes: slots, written: n, tracks: 200_000, verification: ver };
    let policy: Box<dyn Policy> = match pol.as_str() {
        "ns" => Box::new(NoShuttles),
        "sp" => Box::new(ShortestPaths),
        "partitioned" => Box::new(Partitioned::new(&layout, (get("steal", 50.0) >= 0.0).then_some(get("steal", 50.0) as u64))),
        _ => Box::new(Fulgurite::new(
            &layout,
            Ideas {
                exchanges: get("x", 1.0) > 0.0,
                window: get("w", 8.0) as u32,
                age_counts: get("age", 0.02),
                help_above: get("help", 4.0) as u32,
                brought_back_after: Micros::from_seconds(get("back", 120.0)),
                shares: get("share", 1.0) > 0.0,
                set_aside_above: get("aside", 12.0) as u32,
                reads_by_track: get("tr", 1.0) > 0.0,
            },
        )),
    };
    let c = Controller::new(layout.clone(), pace, &inv, policy);
    let places = (0..n).map(|i| (Library(0), Platter(i))).collect();
    let region = Region::new(vec![c], Sets { shape: SetShape { information: 16, redundancy: 3 }, places });
    let mut settings = Settings { no_shuttles: pol == "ns", ..Settings::default() };
    settings.drive.throughput_bytes_s = tput;
    settings.faults.shuttle_hours = get("mtbf", f64::INFINITY);
    settings.faults.drive_hours = get("dmtbf", f64::INFINITY);
    let settings = settings.check(&layout).unwrap();
    let mut s = Stream::new(seed, "arr");
    let mut t = 0.0;
    let end = hours * 3600.0;
    let demand = std::iter::from_fn(move || {
        t += s.exponential(1.0 / rate);
        if t > end {
            return None;
        }
        let p = s.below(u64::from(n)) as u32;
        let b = s.exponential(bytes);
        let count = ((b / 20e6).ceil() as u32).clamp(1, 5000);
        Some(Arrival {
            at: Micros::from_seconds(t),
            shards: vec![Shard { platter: RegionPlatter(p), tracks: Tracks { first: s.below(190_000) as u32, count } }],
        })
    });
    let t0 = Instant::now();
    if check {
        let m = Mechanics::with_log(layout.clone(), settings, seed, NoTwoShuttlesMeet::new(&layout));
        let mut sim = Simulation::new(region, vec![m]);
        sim.run(demand, Micros::from_seconds(get("until", 1e9)));
        report(&pol, &mut sim, t0);
        let now = sim.completions.last().unwrap().1;
        println!("meet check: {:?}", sim.mechanics[0].log_mut().check(now));
    } else {
        let m = Mechanics::new(layout, settings, seed);
        let mut sim = Simulation::new(region, vec![m]);
        sim.run(demand, Micros::from_seconds(get("until", 1e9)));
        report(&pol, &mut sim, t0);
    }
}
fn report<L: MotionLog>(pol: &str, sim: &mut Simulation<L>, t0: Instant) {
    let el = t0.elapsed().as_secs_f64();
    let mut v: Vec<f64> = sim.completions.iter().map(|(a, b, _)| (b.0 - a.0) as f64 / 1e6).collect();
    v.sort_by(f64::total_cmp);
    let q = |p: f64| v[((v.len() - 1) as f64 * p) as usize];
    let now = sim.completions.last().unwrap().1;
    let m = &sim.mechanics[0];
    let (mut util, mut ver, mut read, mut mounts) = (0.0, 0.0, 0.0, 0);
    for d in 0..20 {
        let s = m.drive_statistics(Drive(d), now);
        util += s.utilization() / 20.0;
        let tot = now.seconds() * 20.0;
        ver += s.time_in(fulgurite_mechanics::DriveState::Verifying).seconds() / tot;
        mounts += s.mounts;
        read += (s.time_in(fulgurite_mechanics::DriveState::Reading)
            + s.time_in(fulgurite_mechanics::DriveState::Seeking)
            + s.time_in(fulgurite_mechanics::DriveState::Mounting)
            + s.time_in(fulgurite_mechanics::DriveState::Unmounting))
        .seconds()
            / tot;
    }
    let (mut mv, mut idle, mut crab, mut e, mut tot) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let ns = m.layout().shuttles;
    for s in 0..ns {
        let s = m.shuttle_statistics(Shuttle(s), now);
        use fulgurite_mechanics::ShuttleState as S;
        mv += s.time_in(S::Moving).seconds();
        idle += s.time_in(S::Idle).seconds();
        crab += s.time_in(S::Crabbing).seconds();
        e += s.motion_joules();
        tot += now.seconds();
    }
    let unav = sim.completions.iter().filter(|c| c.2 == RegionOutcome::Unavailable).count();
    println!(
        "{pol}: n {} end {:.0} s mean {:.1} p50 {:.1} p99 {:.1} p99.9 {:.1} max {:.1} | {:.2}M ev/s {:.2}s | util {util:.3} read {read:.3} verify {ver:.3} mounts {mounts} | moving {:.3} crab {:.3} idle {:.3} J/mount {:.1} | sh.s/mount {:.2} | unav {unav} rec {}",
        v.len(),
        now.seconds(),
        v.iter().sum::<f64>() / v.len() as f64,
        q(0.5),
        q(0.99),
        q(0.999),
        q(1.0),
        sim.events as f64 / el / 1e6,
        el,
        mv / tot,
        crab / tot,
        idle / tot,
        e / mounts as f64,
        tot / mounts as f64,
        sim.region.recovered()
    );
    if v.len() < sim.arrived() {
        let p = sim.region.controllers()[0].panel();

        for s in (0..p.layout().shuttles).map(Shuttle) {
            println!("{s:?} {:?} {:?}", p.position(s), p.job(s));
        }
        for d in p.drives() {
            println!("{d:?} {:?} {:?}", p.bays(d), p.operation(d));
        }
        for l in p.lanes() {
            println!("{l:?} {}", p.queue().platters_in(l));
        }
    }
    println!("  {:?}", sim.region.controllers()[0].panel().congestion());
}
