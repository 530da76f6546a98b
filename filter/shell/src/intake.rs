//! What is read of a request before its destination is chosen: its headers, and its body as it
//! arrives.
use isocost_core::asking::{Asked, Asking};
use isocost_core::config::FilterConfig;

use crate::host::{self, Buffer};

/// A request whose body is still coming.
pub struct Intake {
    asking: Asking,
    limit: usize,
    read: usize,
}

impl Intake {
    /// Reads the headers of the current request.
    pub fn begin(config: &FilterConfig) -> Intake {
        let headers = host::request_headers().unwrap_or_default();
        Intake {
            asking: Asking::begin(&headers, &config.model_from, &config.user_from),
            limit: config.profile_limit_bytes,
            read: 0,
        }
    }

    /// Would a body tell anything that is used?
    pub fn wants_body(&self) -> bool {
        self.limit > 0 && self.asking.may_have_body()
    }

    /// Reads what is new of a body of which Envoy holds `buffered` bytes, each byte once. True if
    /// nothing more is wanted.
    pub fn take(&mut self, buffered: usize) -> bool {
        let wanted = buffered.min(self.limit).saturating_sub(self.read);
        if wanted > 0 {
            let Ok(piece) = host::buffer(Buffer::RequestBody, self.read, wanted) else {
                // What came so far is all that will be known.
                return true;
            };
            self.read += piece.len();
            self.asking.feed(&piece);
        }
        self.read >= self.limit || self.asking.is_stopped()
    }

    pub fn finish(self) -> Asked {
        self.asking.finish()
    }
}
