//! Text plots for a terminal.

use dumbwaiter_measure::count_text;

/// Levels of a cell that is filled from the left, in eighths.
const EIGHTHS: [&str; 9] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
/// Levels of a cell that is filled from below; the first marks any value above 0.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Horizontal bars, one per (label, count), with counts and parts of the whole. The longest line is at
/// most `width` columns, or as short as 40 if that is less. Ends with a newline unless empty.
pub fn bars(items: &[(String, u64)], width: usize) -> String {
    let label_width = items.iter().map(|(l, _)| l.chars().count()).max().unwrap_or(0);
    let total: u64 = items.iter().map(|(_, n)| n).sum();
    let most = items.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
    let room = width.max(40).saturating_sub(label_width + 20).max(8);
    let line = |(label, n): &(String, u64)| {
        let eighths = ((*n as f64 / most as f64 * (room * 8) as f64).round() as usize).max(usize::from(*n > 0));
        let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
        let part = if total == 0 { 0.0 } else { *n as f64 * 100.0 / total as f64 };
        let pad = " ".repeat(label_width - label.chars().count());
        format!("{pad}{label}  {:>7} {part:>5.1} %  {bar}", count_text(*n as f64)).trim_end().to_string() + "\n"
    };
    items.iter().map(line).collect()
}

/// Values over time in one line of at most `width` columns: neighbours share a column by their mean, and the highest
/// column is full. A space means 0.
pub fn sparkline(values: &[f64], width: usize) -> String {
    let columns = values.len().min(width.max(1));
    let means: Vec<f64> = (0..columns)
        .map(|i| {
            let part = &values[i * values.len() / columns..(i + 1) * values.len() / columns];
            part.iter().filter(|v| v.is_finite()).sum::<f64>() / part.len() as f64
        })
        .collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let level = |v: f64| match v / most {
        part if part > 0.0 => LEVELS[((part * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    means.into_iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_counts() {
        let items = [
            ("512 B".to_string(), 1),
            ("4 KiB".to_string(), 12_000),
            ("64 KiB".to_string(), 6_000),
            ("1 MiB".to_string(), 0),
        ];
        insta::assert_snapshot!(bars(&items, 60), @r"
         512 B        1   0.0 %  ▏
         4 KiB    12.0k  66.7 %  ██████████████████████████████████
        64 KiB     6000  33.3 %  █████████████████
         1 MiB        0   0.0 %
        ");
        assert!(bars(&items, 60).lines().all(|l| l.chars().count() <= 60));
        assert_eq!(bars(&[], 60), "");
    }

    #[test]
    fn a_sparkline_keeps_the_shape() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 4.0, 8.0], 80), " ▁▂▄█");
        assert_eq!(sparkline(&[0.0, 0.0, 4.0, 4.0, 1.0, 3.0], 3), " █▄");
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[0.0; 3], 10), "   ");
    }
}
