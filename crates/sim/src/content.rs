//! The bytes of an object: words that tell which operation wrote them.

/// Names an operation of the workload; 0 names none.
pub type OpId = u64;

/// Bytes of one word. All offsets and lengths of the workload are multiples of it.
pub const WORD_BYTES: u64 = 8;

/// Number of bits of a word that hold its index within its write.
const INDEX_BITS: u32 = 20;

/// Words of one write that follow each other. Zeros have operation 0 and index 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct WordRun {
    op: OpId,
    first: u64,
    count: u64,
}

impl WordRun {
    fn zeros(count: u64) -> WordRun {
        WordRun { op: 0, first: 0, count }
    }

    /// The part behind the first `n` words.
    fn behind(self, n: u64) -> WordRun {
        let first = if self.op == 0 { 0 } else { self.first + n };
        WordRun { first, count: self.count - n, ..self }
    }

    fn continues(&self, next: &WordRun) -> bool {
        self.op == next.op && (self.op == 0 || self.first + self.count == next.first)
    }
}

/// An object's bytes as runs of words; equal bytes have equal runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Content {
    runs: Vec<WordRun>,
}

impl Content {
    /// The words that `op` writes if it writes `words` of them.
    pub fn written_by(op: OpId, words: u64) -> Content {
        let mut content = Content::default();
        content.push(WordRun { op, first: 0, count: words });
        content
    }

    /// Reads bytes back. `None` if they are not whole words.
    pub fn from_bytes(bytes: &[u8]) -> Option<Content> {
        let (words, rest) = bytes.as_chunks::<{ WORD_BYTES as usize }>();
        let mut content = Content::default();
        for word in words {
            let word = u64::from_le_bytes(*word);
            let (op, first) = (word >> INDEX_BITS, word & ((1 << INDEX_BITS) - 1));
            content.push(WordRun { op, first, count: 1 });
        }
        rest.is_empty().then_some(content)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let words = self.runs.iter().flat_map(|run| {
            let step = u64::from(run.op != 0);
            (0..run.count).map(move |i| run.op << INDEX_BITS | (run.first + i * step))
        });
        words.flat_map(u64::to_le_bytes).collect()
    }

    pub fn words(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    fn push(&mut self, run: WordRun) {
        match self.runs.last_mut() {
            _ if run.count == 0 => {}
            Some(last) if last.continues(&run) => last.count += run.count,
            _ => self.runs.push(run),
        }
    }

    /// The words in `begin .. end`, as far as they exist.
    fn part(&self, begin: u64, end: u64) -> Content {
        let mut part = Content::default();
        let mut at = 0;
        for run in &self.runs {
            let (from, to) = (begin.max(at), end.min(at + run.count));
            if from < to {
                part.push(WordRun { count: to - from, ..run.behind(from - at) });
            }
            at += run.count;
        }
        part
    }

    /// Puts `other` at word `at`. A gap before it becomes zeros.
    pub fn write(&mut self, at: u64, other: &Content) {
        let mut result = self.part(0, at);
        result.push(WordRun::zeros(at.saturating_sub(self.words())));
        other.runs.iter().for_each(|run| result.push(*run));
        self.part(at + other.words(), u64::MAX).runs.into_iter().for_each(|run| result.push(run));
        *self = result;
    }

    /// Makes `words` words from `at` on zeros, as far as the content reaches.
    pub fn zero(&mut self, at: u64, words: u64) {
        let end = self.words().min(at + words);
        if at < end {
            let mut zeros = Content::default();
            zeros.push(WordRun::zeros(end - at));
            self.write(at, &zeros);
        }
    }

    /// Cuts the content, or extends it with zeros, to `words` words.
    pub fn truncate(&mut self, words: u64) {
        let missing = words.saturating_sub(self.words());
        *self = self.part(0, words);
        self.push(WordRun::zeros(missing));
    }

    /// The runs as (operation, index of the first word in its write, words).
    pub fn runs(&self) -> impl Iterator<Item = (OpId, u64, u64)> {
        self.runs.iter().map(|run| (run.op, run.first, run.count))
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, run) in self.runs.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            match (run.op, run.first) {
                (0, _) => write!(f, "{gap}zeros*{}", run.count)?,
                (op, 0) => write!(f, "{gap}#{op}*{}", run.count)?,
                (op, first) => write!(f, "{gap}#{op}[{first}..]*{}", run.count)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_do_what_words_do(steps in prop::collection::vec((0u8..3, 0u64..40, 1u64..20), 0..12)) {
            let mut content = Content::default();
            let mut words: Vec<u64> = Vec::new();
            for (i, (kind, at, count)) in steps.into_iter().enumerate() {
                let op = i as u64 + 1;
                let (from, to) = (at as usize, (at + count) as usize);
                match kind {
                    0 => {
                        content.write(at, &Content::written_by(op, count));
                        words.resize(words.len().max(to), 0);
                        (0..count).for_each(|i| words[from + i as usize] = op << INDEX_BITS | i);
                    }
                    1 => {
                        content.zero(at, count);
                        let end = words.len().min(to);
                        if from < end {
                            words[from..end].fill(0);
                        }
                    }
                    _ => {
                        content.truncate(at);
                        words.resize(from, 0);
                    }
                }
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                prop_assert_eq!(content.to_bytes(), bytes.clone());
                prop_assert_eq!(Content::from_bytes(&bytes), Some(content.clone()));
                prop_assert_eq!(content.words(), words.len() as u64);
            }
        }
    }
}
