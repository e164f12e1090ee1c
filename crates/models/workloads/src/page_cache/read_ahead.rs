//! What a read fetches beyond what it asks for (Linux 6.12 and 6.18), in pages.

/// Pages of the largest request by default (`max_sectors_kb` 1280): a read of more than the window goes up to there.
const REQUEST_PAGES: u64 = 320;

/// What a task said about its reads (`posix_fadvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    #[default]
    None,
    /// They are sequential: windows of twice the size.
    Sequential,
    /// They are random: no windows.
    Random,
}

/// The windows of one reader.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    /// The largest window; 0: there are none.
    most: u64,
    /// End and size of the last window.
    end: u64,
    size: u64,
    /// The page whose use fetches the next window.
    mark: Option<u64>,
    /// Last page of the last read.
    last: Option<u64>,
}

impl ReadAhead {
    /// Windows of up to `pages`, doubled or switched off by the advice.
    pub(super) fn new(pages: u64, advice: Advice) -> ReadAhead {
        let most = match advice {
            Advice::None => pages,
            Advice::Sequential => 2 * pages,
            Advice::Random => 0,
        };
        ReadAhead { most, end: 0, size: 0, mark: None, last: None }
    }

    /// A read has got all its pages; this is the last one.
    pub(super) fn read(&mut self, last: u64) {
        self.last = Some(last);
    }

    /// The window of a page that is not there, of which `wanted` are asked for from it on. `before(most)`: pages that
    /// are there just before it.
    pub(super) fn missed(&mut self, page: u64, wanted: u64, before: impl Fn(u64) -> u64) -> (u64, u64) {
        if self.most == 0 {
            return (page, page + wanted);
        }
        let goes_on = self.last.is_some_and(|last| page == last || page == last + 1);
        if page == 0 || goes_on || wanted > self.most {
            let most = self.most.max(wanted.min(REQUEST_PAGES));
            let size = match wanted.next_power_of_two() {
                p if p <= most / 32 => 4 * p,
                p if p <= most / 4 => 2 * p,
                _ => most,
            };
            let mark = if wanted >= size { size / 2 } else { wanted };
            return self.window(page, size, page + mark);
        }
        let history = before(self.most);
        if history <= wanted {
            return (page, page + wanted);
        }
        let history = if history >= page { 2 * history } else { history };
        let size = (history + wanted).min(self.most);
        self.window(page, size, page + size - 1)
    }

    /// The next window, if this page is the mark of the last one.
    pub(super) fn used(&mut self, page: u64) -> Option<(u64, u64)> {
        self.mark.take_if(|mark| *mark == page)?;
        let size = match self.size {
            size if size < self.most / 16 => 4 * size,
            size if size <= self.most / 2 => 2 * size,
            _ => self.most,
        };
        Some(self.window(self.end, size, self.end))
    }

    fn window(&mut self, from: u64, size: u64, mark: u64) -> (u64, u64) {
        (self.end, self.size, self.mark) = (from + size, size, Some(mark));
        (from, from + size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes in KiB of the first windows of a reader from this page on, all else being fetched in time.
    fn windows(pages: u64, advice: Advice, first: u64, wanted: u64, step: u64) -> Vec<u64> {
        let mut ahead = ReadAhead::new(pages, advice);
        let mut there = first..first;
        let mut sizes = Vec::new();
        let mut at = first;
        while sizes.len() < 7 {
            for page in at..at + wanted {
                if let Some((from, to)) = ahead.used(page) {
                    assert_eq!(from, there.end);
                    there.end = to;
                    sizes.push(4 * (to - from));
                }
                if !there.contains(&page) {
                    let (from, to) = ahead.missed(page, at + wanted - page, |_| 0);
                    there = from..to;
                    sizes.push(4 * (to - from));
                }
            }
            ahead.read(at + wanted - 1);
            at += step;
        }
        sizes
    }

    #[test]
    fn windows_grow_from_the_first_page_on() {
        let from_0 = |wanted| windows(32, Advice::None, 0, wanted, wanted);
        assert_eq!(from_0(1)[..5], [16, 32, 64, 128, 128]);
        assert_eq!(from_0(8)[..4], [64, 128, 128, 128]);
        assert_eq!(from_0(32)[..4], [128, 128, 128, 128]);
    }

    #[test]
    fn a_stream_that_begins_elsewhere_is_known_by_its_second_read() {
        let hinted = |wanted, step| windows(32, Advice::Sequential, 16_384, wanted, step);
        assert_eq!(hinted(1, 1), [4, 16, 32, 64, 128, 256, 256]);
        assert_eq!(hinted(8, 8)[..5], [32, 64, 128, 256, 256]);
        assert_eq!(hinted(1, 4), [4; 7], "every fourth page");
        assert_eq!(windows(32, Advice::Random, 0, 2, 2), [8; 7]);
        assert_eq!(windows(0, Advice::None, 0, 2, 2), [8; 7]);
    }

    #[test]
    fn pages_before_a_miss_make_it_a_stream() {
        let mut ahead = ReadAhead::new(32, Advice::None);
        assert_eq!(ahead.missed(100, 2, |_| 3), (100, 105));
        assert_eq!(ahead.used(103), None);
        assert_eq!(ahead.used(104), Some((105, 115)), "the mark is the last page");
        assert_eq!(ahead.missed(300, 2, |_| 2), (300, 302));
        assert_eq!(ahead.missed(3, 1, |_| 3), (3, 10), "back to the first page");
        assert_eq!(ahead.missed(500, 1, |most| most), (500, 532));
    }
}
