//! Pages of the trace buffer as read from `trace_pipe_raw`: a time, a length, and records with time deltas.

use crate::Error;
use crate::recording::about::About;
use crate::recording::controllers::Seen;
use crate::recording::event::{Event, Format, Kind};

/// Pages of each CPU, in the order they were read.
pub(crate) struct Pages {
    cpus: Vec<(u16, Vec<Vec<u8>>)>,
    bytes: u64,
}

impl Pages {
    pub(crate) fn new(cpus: Vec<u16>) -> Pages {
        Pages { cpus: cpus.into_iter().map(|c| (c, Vec::new())).collect(), bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Every CPU and where its pages go.
    pub(crate) fn each(&mut self, mut take: impl FnMut(u16) -> Result<Vec<Vec<u8>>, Error>) -> Result<(), Error> {
        for (cpu, pages) in &mut self.cpus {
            let more = take(*cpu)?;
            self.bytes += more.iter().map(|p| p.len() as u64).sum::<u64>();
            pages.extend(more);
        }
        Ok(())
    }

    /// All events of the device in order of time, and those of its controllers; a dispatch counts from when its request was chosen.
    pub(crate) fn events(self, formats: Vec<Format>, about: &About) -> Result<(Vec<Event>, Vec<Seen>), Error> {
        let most = formats.iter().map(|f| usize::from(f.id)).max().unwrap_or(0);
        let mut known: Vec<Option<&Format>> = vec![None; most + 1];
        for format in &formats {
            known[usize::from(format.id)] = Some(format);
        }
        let (mut events, mut seen) = (Vec::new(), Vec::new());
        for (cpu, pages) in &self.cpus {
            for page in pages {
                let read = records(page, &mut |at, data| {
                    let id = data.get(..2).map_or(0, |b| usize::from(u16::from_le_bytes([b[0], b[1]])));
                    let Some(format) = known.get(id).copied().flatten() else { return };
                    if let Kind::Controller(place) = format.kind {
                        seen.extend(Seen::of(place, format, at, *cpu, data));
                        return;
                    }
                    let event = format.event(at, *cpu, data);
                    if about.concerns(&event) {
                        events.push(event);
                    }
                });
                read.ok_or_else(|| {
                    Error::Refused(format!("CPU {cpu}: a page of the trace buffer is not as expected"))
                })?;
            }
        }
        events.sort_by_key(|e| e.at);
        let mut chosen: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        for event in &mut events {
            match event.kind {
                Kind::Choice => {
                    chosen.insert(event.rq, event.at);
                }
                Kind::Dispatch if event.rq != 0 => {
                    if let Some(at) = chosen.remove(&event.rq) {
                        event.at = at;
                    }
                }
                _ => {}
            }
        }
        events.retain(|e| e.kind != Kind::Choice);
        events.sort_by_key(|e| e.at);
        Ok((events, seen))
    }
}

/// Calls `each` with time and bytes of each record of a page; `None` where the page is malformed.
pub(crate) fn records(page: &[u8], each: &mut dyn FnMut(u64, &[u8])) -> Option<()> {
    let word = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?));
    let mut now = long(0)?;
    // The upper bits are flags for lost events.
    let mut at = 16;
    let end = at + (long(8)? & 0xf_ffff) as usize;
    while at + 4 <= end {
        let head = word(at)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        match kind {
            // Padding: all of the rest, or a given number of bytes.
            29 if delta == 0 => break,
            29 => {
                now += delta;
                at += 4 + word(at + 4)? as usize;
            }
            // A longer step of time, or a time (without its upper bits).
            30 | 31 => {
                let value = (u64::from(word(at + 4)?) << 27) + delta;
                now = if kind == 30 { now.wrapping_add(value) } else { now & !((1 << 59) - 1) | value };
                at += 8;
            }
            _ => {
                now = now.wrapping_add(delta);
                // Short records tell their length in words; in others it follows, and includes itself.
                let (start, size) = match kind {
                    0 => (at + 8, (word(at + 4)? as usize).checked_sub(4)?),
                    words => (at + 4, words as usize * 4),
                };
                each(now, page.get(start..start + size)?);
                at = start + size;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(time: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend(((words.len() * 4) as u64).to_le_bytes());
        page.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        page.resize(4096, 0);
        page
    }

    #[test]
    fn times_and_lengths_add_up() {
        // A record of 2 words after 5 ns; a step of 2^27 + 3; one of 3 words with an explicit length; padding.
        let words = [5 << 5 | 2, 11, 12, 3 << 5 | 30, 1, 7 << 5, 16, 21, 22, 23, 29];
        let mut seen = Vec::new();
        records(&page(1000, &words), &mut |at, data| seen.push((at, data.len(), data[0]))).unwrap();
        assert_eq!(seen, [(1005, 8, 11), (1005 + (1 << 27) + 3 + 7, 12, 21)]);
    }

    #[test]
    fn a_page_that_lies_about_its_length_is_refused() {
        let mut short = page(0, &[1 << 5 | 28, 1]);
        short.truncate(30);
        assert!(records(&short, &mut |_, _| ()).is_none());
        assert!(records(&[0; 7], &mut |_, _| ()).is_none());
        let mut seen = 0;
        records(&page(0, &[]), &mut |_, _| seen += 1).unwrap();
        assert_eq!(seen, 0);
    }
}
