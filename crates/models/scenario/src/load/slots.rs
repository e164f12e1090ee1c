//! Table of a world's I/Os in flight.

/// Entries with numbers that are used again.
pub struct Slots<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// With room for this many entries.
    pub fn with_capacity(entries: usize) -> Slots<T> {
        Slots { entries: Vec::with_capacity(entries), free: Vec::with_capacity(entries) }
    }

    /// Keeps what `entry` makes of the number that the entry gets, which is returned.
    #[inline]
    pub fn insert_with(&mut self, entry: impl FnOnce(u32) -> T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry(number);
                number
            }
            None => {
                let number = self.entries.len() as u32;
                self.entries.push(entry(number));
                number
            }
        }
    }

    /// Frees the number of an entry, which stays readable until the number is used again.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        self.free.push(number);
    }

    /// The entry with this number, if there was ever one.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)
    }

    /// The entries in use with their numbers, in the order of these.
    pub fn used(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut used = vec![true; self.entries.len()];
        for number in &self.free {
            used[*number as usize] = false;
        }
        (0..).zip(&self.entries).zip(used).filter_map(|(entry, used)| used.then_some(entry))
    }
}

impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.entries[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number as usize]
    }
}
