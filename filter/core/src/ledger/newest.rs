//! Things of a period of which only the newest are kept: they tell more of the present than the
//! ones before them, and a period is long when no feed takes the batches.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Newest<T> {
    items: VecDeque<T>,
    most: usize,
}

impl<T> Newest<T> {
    pub fn new(most: usize) -> Newest<T> {
        Newest { items: VecDeque::new(), most }
    }

    pub fn push(&mut self, item: T) {
        if self.items.len() >= self.most {
            self.items.pop_front();
        }
        self.items.push_back(item);
    }

    /// All of them, the oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.items.drain(..)
    }
}
