//! A flat JSON object of strings and whole numbers, which is all that the configuration is.

/// One member: its key, and its value as it stands in the text (a string with its quotes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// The members of the object; None if the text is anything else. Strings have no escapes: no key
/// or name here needs one.
pub(crate) fn members(text: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut members = Vec::new();
    let mut text = Text(text);
    text.accept(b'{').then_some(())?;
    let mut more = !text.accept(b'}');
    while more {
        let key = name(text.token()?)?;
        text.accept(b':').then_some(())?;
        members.push(Member { key, value: text.token()? });
        more = !text.accept(b'}');
        if more {
            text.accept(b',').then_some(())?;
        }
    }
    text.skip_blank();
    text.0.is_empty().then_some(members)
}

/// What is inside of a string's quotes.
pub(crate) fn name(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', inside @ .., b'"'] => Some(inside),
        _ => None,
    }
}

/// The rest of the text.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn skip_blank(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// Is this the next character? It is consumed if so.
    fn accept(&mut self, expected: u8) -> bool {
        self.skip_blank();
        match self.0 {
            [byte, rest @ ..] if *byte == expected => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// A string with its quotes, or a bare word such as a number.
    fn token(&mut self) -> Option<&'a [u8]> {
        self.skip_blank();
        let len = if let [b'"', inside @ ..] = self.0 {
            let len = inside.iter().position(|&byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
            (inside.get(len) == Some(&b'"')).then_some(len + 2)?
        } else {
            let ends = |&byte: &u8| matches!(byte, b',' | b'}' | ..=b' ');
            self.0.iter().position(ends).filter(|&len| len > 0)?
        };
        let (token, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(token)
    }
}
