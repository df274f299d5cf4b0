//! Fair shares of links.

/// A transfer: its own maximum rate, and the links that it uses.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Demand {
    pub(super) rate: f64,
    pub(super) links: [usize; 2],
}

/// The rates of transfers that share links, max-min fair: no transfer can get more without taking
/// from one that has no more than it. `capacities` are those of the links.
///
/// All rates grow together until a link is full or a transfer has its maximum. Transfers that can't
/// grow any more keep what they have, and the others go on.
///
/// Source: Bertsekas and Gallager, *Data Networks*, 2nd ed., section 6.5.2.
pub(super) fn rates(demands: &[Demand], capacities: &[f64]) -> Vec<f64> {
    let mut rates = vec![0.0; demands.len()];
    let mut left = capacities.to_vec();
    let mut grow: Vec<usize> = (0..demands.len()).collect();
    let mut level = 0.0;
    let mut users = vec![0_u32; capacities.len()];
    while !grow.is_empty() {
        users.fill(0);
        grow.iter().flat_map(|&index| demands[index].links).for_each(|link| users[link] += 1);
        let own = grow.iter().map(|&index| demands[index].rate - level).fold(f64::INFINITY, f64::min);
        let link = left.iter().zip(&users).filter(|(_, users)| **users > 0).map(|(left, &users)| left / f64::from(users));
        let step = link.fold(own, f64::min).max(0.0);
        level += step;
        for (left, &users) in left.iter_mut().zip(&users) {
            *left -= step * f64::from(users);
        }
        // Rounding must not leave a transfer growing for ever.
        let is_full: Vec<bool> = left.iter().zip(capacities).map(|(left, capacity)| *left <= capacity * 1e-9).collect();
        let before = grow.len();
        grow.retain(|&index| {
            let demand = &demands[index];
            rates[index] = level.min(demand.rate);
            level < demand.rate * (1.0 - 1e-9) && demand.links.iter().all(|&link| !is_full[link])
        });
        if grow.len() == before {
            break;
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(rate: f64, links: [usize; 2]) -> Demand {
        Demand { rate, links }
    }

    #[test]
    fn what_one_can_not_use_goes_to_the_others() {
        let demands = [demand(10.0, [0, 1]), demand(100.0, [0, 1]), demand(100.0, [0, 1])];
        assert_eq!(rates(&demands, &[90.0, 1_000.0]), [10.0, 40.0, 40.0]);
        assert_eq!(rates(&demands, &[1_000.0, 1_000.0]), [10.0, 100.0, 100.0]);
        assert_eq!(rates(&demands, &[15.0, 1_000.0]), [5.0, 5.0, 5.0]);
        assert!(rates(&[], &[15.0]).is_empty());
    }

    #[test]
    fn shares_are_fair_over_several_links() {
        // Two stations with links of their own share the source.
        let demands = [demand(50.0, [0, 2]), demand(50.0, [0, 2]), demand(50.0, [1, 2])];
        assert_eq!(rates(&demands, &[30.0, 100.0, 60.0]), [15.0, 15.0, 30.0]);
        assert_eq!(rates(&demands, &[30.0, 100.0, 1_000.0]), [15.0, 15.0, 50.0]);
    }

    #[test]
    fn no_link_and_no_transfer_exceeds_its_maximum() {
        let mut noise = fulgurite_chance::Stream::new(7, "shares");
        for _ in 0..2_000 {
            let capacities: Vec<f64> = (0..4).map(|_| noise.between(1.0, 100.0)).collect();
            let demands: Vec<Demand> = (0..noise.below(12))
                .map(|_| demand(noise.between(0.1, 60.0), [noise.below(2) as usize, 2 + noise.below(2) as usize]))
                .collect();
            let rates = rates(&demands, &capacities);
            for link in 0..4 {
                let used: f64 = demands.iter().zip(&rates).filter(|(demand, _)| demand.links.contains(&link)).map(|(_, rate)| rate).sum();
                assert!(used <= capacities[link] * (1.0 + 1e-6), "{capacities:?} {demands:?} {rates:?}");
            }
            for (index, (demand, &rate)) in demands.iter().zip(&rates).enumerate() {
                assert!(rate > 0.0 && rate <= demand.rate);
                // Its own maximum, or a full link on which none has more.
                let is_bound = rate > demand.rate * (1.0 - 1e-6)
                    || demand.links.iter().any(|link| {
                        let on_link = demands.iter().zip(&rates).filter(|(other, _)| other.links.contains(link)).map(|(_, rate)| *rate);
                        let (used, most) = on_link.fold((0.0, 0.0_f64), |(used, most), rate| (used + rate, most.max(rate)));
                        used >= capacities[*link] * (1.0 - 1e-6) && rate >= most * (1.0 - 1e-6)
                    });
                assert!(is_bound, "transfer {index}: {capacities:?} {demands:?} {rates:?}");
            }
        }
    }
}
