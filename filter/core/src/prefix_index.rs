//! Which nodes were seen to have answered a prompt with this beginning, and so are believed to hold
//! it in their caches. Its memory is one allocation that never grows; what was not seen for longest
//! is forgotten first.

use crate::marks::Marks;
use crate::pick::Held;

/// Entries in a bucket, which is one or two lines of a processor's cache.
const WAYS: usize = 8;
/// 65,536 entries of 16 bytes: the beginnings of some 16 million tokens in blocks of a KiB.
const BUCKETS: usize = 8192;
/// The nodes that are remembered for one beginning; the latest win.
const MAX_OWNERS: usize = 2;
/// The nodes that a search names.
const MAX_FOUND: usize = 4;
/// A roster does not come near it.
const MAX_SLOTS: u32 = 65_536;

/// The nodes that hold most of a prompt, most first; each once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    held: [Held; MAX_FOUND],
    len: usize,
}

impl Found {
    pub fn all(&self) -> &[Held] {
        self.held.get(..self.len).unwrap_or_default()
    }

    /// False if there is no room for more.
    fn push(&mut self, held: Held) -> bool {
        if self.all().iter().any(|known| known.slot == held.slot) {
            return true;
        }
        if let Some(place) = self.held.get_mut(self.len) {
            *place = held;
            self.len += 1;
        }
        self.len < MAX_FOUND
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// 0: none.
    hash: u64,
    slot: u32,
    /// The slot's count in `taken_in` when this was seen.
    seen_at: u32,
}

/// The latest entry first.
type Bucket = [Entry; WAYS];

/// Of one VM; all in it was observed, here or by others.
pub struct PrefixIndex {
    buckets: Vec<Bucket>,
    /// By slot: the tokens that its cache has taken in, modulo 2^32.
    taken_in: Vec<u32>,
}

impl Default for PrefixIndex {
    fn default() -> Self {
        PrefixIndex::new()
    }
}

impl PrefixIndex {
    pub fn new() -> PrefixIndex {
        PrefixIndex { buckets: vec![Bucket::default(); BUCKETS], taken_in: Vec::new() }
    }

    /// This node answered the prompt, and its cache took in so many tokens that it had not held:
    /// of this request, and of those that others sent for each of ours.
    pub fn insert(&mut self, marks: &Marks, slot: u32, new_tokens: u32) {
        if let Some(count) = self.count(slot) {
            *count = count.wrapping_add(new_tokens);
            marks.all().iter().for_each(|mark| self.insert_hash(mark.hash, slot));
        }
    }

    /// This node answered a prompt with this beginning; the latest one that did.
    pub fn insert_hash(&mut self, hash: u64, slot: u32) {
        let Some(seen_at) = self.count(slot).map(|count| *count) else { return };
        let Some(bucket) = self.buckets.get_mut(place(hash)).filter(|_| hash != 0) else { return };
        let mut oldest = WAYS - 1;
        let mut owners = 0;
        for (index, entry) in bucket.iter().enumerate() {
            owners += usize::from(entry.hash == hash);
            let is_same = entry.hash == hash && (entry.slot == slot || owners == MAX_OWNERS);
            if is_same || entry.hash == 0 {
                oldest = index;
            }
            if is_same {
                break;
            }
        }
        if let Some(later) = bucket.get_mut(..=oldest) {
            later.rotate_right(1);
        }
        if let Some(first) = bucket.first_mut() {
            *first = Entry { hash, slot, seen_at };
        }
    }

    /// The nodes that hold most of this prompt. `capacity_tokens` of a slot's cache, 0 = not known:
    /// what a cache has since taken in so many tokens behind is not in it any more.
    pub fn find(&self, marks: &Marks, capacity_tokens: &dyn Fn(u32) -> u32) -> Found {
        let mut found = Found::default();
        for mark in marks.all().iter().rev() {
            let bucket = self.buckets.get(place(mark.hash)).map_or(&[][..], |bucket| bucket);
            for entry in bucket.iter().filter(|entry| entry.hash == mark.hash && mark.hash != 0) {
                let held = Held { slot: entry.slot, tokens: mark.tokens };
                if !self.is_evicted(entry, capacity_tokens) && !found.push(held) {
                    return found;
                }
            }
        }
        found
    }

    fn is_evicted(&self, entry: &Entry, capacity_tokens: &dyn Fn(u32) -> u32) -> bool {
        let now = self.taken_in.get(entry.slot as usize).copied().unwrap_or_default();
        let capacity = capacity_tokens(entry.slot);
        capacity > 0 && now.wrapping_sub(entry.seen_at) > capacity
    }

    /// A new roster: where each slot's node went, None if it is gone.
    pub fn remap(&mut self, new_slot: &dyn Fn(u32) -> Option<u32>) {
        let before = std::mem::take(&mut self.taken_in);
        let mut moved = Vec::with_capacity(before.len());
        for (slot, taken_in) in before.iter().enumerate() {
            let slot = new_slot(slot as u32);
            if let Some(count) = slot.and_then(|slot| self.count(slot)) {
                *count = *taken_in;
            }
            moved.push(slot);
        }
        for entry in self.buckets.iter_mut().flatten() {
            match moved.get(entry.slot as usize) {
                Some(Some(slot)) => entry.slot = *slot,
                _ => *entry = Entry::default(),
            }
        }
    }

    /// What the slot's cache has taken in.
    fn count(&mut self, slot: u32) -> Option<&mut u32> {
        if slot >= MAX_SLOTS {
            return None;
        }
        let index = slot as usize;
        if index >= self.taken_in.len() {
            self.taken_in.resize(index + 1, 0);
        }
        self.taken_in.get_mut(index)
    }
}

/// The bucket of a hash, whose bits are all as good as random.
fn place(hash: u64) -> usize {
    hash as usize % BUCKETS
}
