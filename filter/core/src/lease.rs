//! Which root context holds the feed role: one per Envoy, by a lease in shared data.

/// The lease's length in shared data: holder and heartbeat, little endian, and whether it serves.
pub const LEASE_LEN: usize = 17;

/// A holder writes a heartbeat every tick, so one this old is dead; and a trap must not cost more
/// than 3 s of fresh tables.
const EXPIRY_MS: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The holder's incarnation.
    pub holder: u64,
    pub heartbeat_ms: u64,
    /// Has the holder's VM ever served a request?
    pub serves: bool,
}

impl Lease {
    /// None if these are not the bytes of a lease.
    pub fn decode(bytes: &[u8]) -> Option<Lease> {
        let (holder, rest) = bytes.split_first_chunk()?;
        let (heartbeat, rest) = rest.split_first_chunk()?;
        let &[serves] = rest else { return None };
        Some(Lease {
            holder: u64::from_le_bytes(*holder),
            heartbeat_ms: u64::from_le_bytes(*heartbeat),
            serves: serves != 0,
        })
    }

    pub fn encode(self) -> [u8; LEASE_LEN] {
        let mut bytes = [u8::from(self.serves); LEASE_LEN];
        let numbers = u128::from(self.heartbeat_ms) << 64 | u128::from(self.holder);
        for (byte, value) in bytes.iter_mut().zip(numbers.to_le_bytes()) {
            *byte = value;
        }
        bytes
    }

    /// Is the holder alive? A heartbeat from the future is as bad as an old one: after the clock
    /// was set back, a dead holder's lease must expire too.
    pub fn live(self, now_ms: u64) -> bool {
        self.heartbeat_ms.abs_diff(now_ms) <= EXPIRY_MS
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is mine: write a new heartbeat and work.
    Hold,
    /// Try to take it by compare-and-set.
    Take,
    Wait,
}

/// Who asks for the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub incarnation: u64,
    /// Has this VM ever served a request?
    pub has_served: bool,
    pub started_ms: u64,
}

/// What to do at this tick; `current` is None while there is no lease (or not a valid one).
///
/// A VM that never served a request (the main thread's) is the one that no request can trap, and
/// whose streams cost no request when it does. So it takes a free lease at once, and also that of
/// a VM that serves; the others give it a second's start.
pub fn decide(current: Option<Lease>, me: &Candidate, now_ms: u64) -> Decision {
    match current {
        Some(lease) if lease.holder == me.incarnation => Decision::Hold,
        Some(lease) if lease.serves && !me.has_served => Decision::Take,
        Some(lease) if lease.live(now_ms) => Decision::Wait,
        Some(_) => Decision::Take,
        None if me.has_served && now_ms.abs_diff(me.started_ms) <= EXPIRY_MS => Decision::Wait,
        None => Decision::Take,
    }
}
