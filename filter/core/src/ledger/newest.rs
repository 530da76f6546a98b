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

    /// Takes the oldest one out.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    pub fn oldest(&self) -> Option<&T> {
        self.items.front()
    }
}
