//! Operations that the kernel has not answered.

/// All of one kind, by the number that the kernel knows each by.
pub(super) struct Underway<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
    /// Answers that were not reported.
    done: Vec<(u32, i32)>,
}

impl<T> Default for Underway<T> {
    fn default() -> Underway<T> {
        Underway { all: Vec::new(), free: Vec::new(), done: Vec::new() }
    }
}

impl<T> Underway<T> {
    pub(super) fn any(&self) -> bool {
        self.free.len() < self.all.len()
    }

    pub(super) fn put(&mut self, what: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.all[index as usize] = Some(what);
                index
            }
            None => {
                self.all.push(Some(what));
                self.all.len() as u32 - 1
            }
        }
    }

    pub(super) fn take(&mut self, index: u32) -> Option<T> {
        let what = self.all.get_mut(index as usize)?.take();
        if what.is_some() {
            self.free.push(index);
        }
        what
    }

    /// One is answered.
    pub(super) fn completed(&mut self, index: u32, result: i32) {
        self.done.push((index, result));
    }

    /// Hands over what was answered in this turn, with the results.
    pub(super) fn report(&mut self, mut each: impl FnMut(T, i32)) {
        for at in 0..self.done.len() {
            let (index, result) = self.done[at];
            if let Some(what) = self.take(index) {
                each(what, result);
            }
        }
        self.done.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }

    /// Never frees memory that the kernel may still use.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.all));
    }
}
