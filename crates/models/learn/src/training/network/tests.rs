use super::*;

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count).map(|_| random.random_range(-1.0f32..=1.0)).collect()
}

/// The derivative by each weight, against the difference of two losses.
fn check_gradient(widths: &[usize], loss: &Loss, targets: &[f32]) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let net = Net::new(5, widths, &mut random);
    let inputs = Matrix { rows: targets.len(), columns: 5, values: numbers(4, 5 * targets.len()) };
    let (_, gradient) = net.gradient(&inputs, targets, loss);
    let step = 2e-3f32;
    let parts: Vec<usize> = net.parts().map(Vec::len).collect();
    for (part, &len) in parts.iter().enumerate() {
        for at in (0..len).step_by(3) {
            let loss_at = |change: f32| {
                let mut moved = net.clone();
                moved.parts_mut().nth(part).unwrap()[at] += change;
                moved.gradient(&inputs, targets, loss).0
            };
            let difference = (loss_at(step) - loss_at(-step)) / f64::from(2.0 * step);
            let found = f64::from(gradient.parts().nth(part).unwrap()[at]);
            assert!((found - difference).abs() < 2e-3, "part {part}, number {at}: {found} is not {difference}");
        }
    }
}

#[test]
fn the_backward_pass_is_the_derivative_of_the_loss() {
    check_gradient(&[17, 6, 1], &Loss::Huber, &[0.1, -3.0, 0.5, 2.0, -0.2]);
    check_gradient(&[16, 8, 3], &Loss::Classes(vec![0.5, 1.0, 2.0]), &[0.0, 2.0, 1.0, 2.0, 0.0]);
}

#[test]
fn a_product_of_any_shape_is_the_sum_of_products() {
    for (m, k, n) in [(1, 1, 1), (3, 5, 7), (4, 9, 16), (6, 3, 33), (9, 20, 50)] {
        let a = Matrix { rows: m, columns: k, values: numbers(1, m * k) };
        let b = Matrix { rows: k, columns: n, values: numbers(2, k * n) };
        let mut c = Matrix::zero(m, n);
        c.add_product(&a, &b);
        for row in 0..m {
            for column in 0..n {
                let sum: f32 = (0..k).map(|i| a.row(row)[i] * b.row(i)[column]).sum();
                assert!((c.row(row)[column] - sum).abs() < 1e-5);
            }
        }
    }
}

/// Rows around three centres.
fn separable(seed: u64, count: usize) -> (Rows, Vec<f32>) {
    let noise = numbers(seed, count * 4);
    let mut rows = Rows::new(4);
    for index in 0..count {
        let class = index % 3;
        let mut row: Vec<f32> = noise[index * 4..][..4].iter().map(|x| x * 0.3).collect();
        row[class] += 2.0;
        rows.push(&row, class as f32, (0.0, 1.0));
    }
    let targets = rows.truths.clone();
    (rows, targets)
}

fn plan(seed: u64) -> Plan {
    Plan { epochs: 60, batch: 32, ..Plan::new(&[16, 3], Loss::Classes(vec![1.0; 3]), seed) }
}

fn trained(seed: u64) -> Trained {
    let ((rows, targets), (other, other_targets)) = (separable(1, 600), separable(2, 300));
    let validation = Examples { rows: &other, targets: &other_targets };
    train(&plan(seed), Examples { rows: &rows, targets: &targets }, validation)
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_seed_does_not() {
    assert_eq!(trained(5), trained(5));
    assert_ne!(trained(5).layers, trained(6).layers);
}

#[test]
fn loss_falls_until_a_separable_set_is_learned() {
    let trained = trained(0);
    assert!(trained.losses.last() < trained.losses.first());
    assert!(trained.losses.iter().fold(f64::MAX, |a, &b| a.min(b)) < 0.05, "{:?}", trained.losses);
}

#[test]
fn shuffled_labels_teach_nothing() {
    let ((rows, mut targets), (other, other_targets)) = (separable(1, 600), separable(2, 300));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
    let mut order: Vec<usize> = (0..targets.len()).collect();
    shuffle(&mut order, &mut random);
    targets = order.into_iter().map(|index| targets[index]).collect();
    let validation = Examples { rows: &other, targets: &other_targets };
    let trained = train(&plan(0), Examples { rows: &rows, targets: &targets }, validation);
    // ln 3: every class is as probable as the others.
    let best = trained.losses.iter().fold(f64::MAX, |a, &b| a.min(b));
    assert!(best > 0.9, "{best}");
}
