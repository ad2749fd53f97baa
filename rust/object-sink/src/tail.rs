//! The bytes of a part that is not full yet.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The bytes of a part, in order: those in a temporary file without a name, and then those in memory.
#[derive(Default)]
pub(crate) struct Tail {
    file: Option<File>,
    in_file: usize,
    memory: Vec<u8>,
}

impl Tail {
    pub fn len(&self) -> usize {
        self.in_file + self.memory.len()
    }

    /// Bytes in memory.
    pub fn in_memory(&self) -> usize {
        self.memory.len()
    }

    /// Adds bytes in memory.
    pub fn push(&mut self, bytes: &[u8]) {
        self.memory.extend_from_slice(bytes);
    }

    /// Moves what is in memory to the temporary file, and adds bytes behind it there.
    ///
    /// # Errors
    /// The error of the temporary file.
    pub fn spill(&mut self, bytes: &[u8]) -> io::Result<()> {
        let memory = std::mem::take(&mut self.memory);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        file.write_all(&memory)?;
        file.write_all(bytes)?;
        self.in_file += memory.len() + bytes.len();
        Ok(())
    }

    /// Takes all bytes out.
    ///
    /// # Errors
    /// The error of the temporary file.
    pub fn take(&mut self) -> io::Result<Vec<u8>> {
        let memory = std::mem::take(&mut self.memory);
        let Some(file) = self.file.as_mut().filter(|_| self.in_file > 0) else {
            return Ok(memory);
        };
        let mut bytes = vec![0; self.in_file];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut bytes)?;
        file.seek(SeekFrom::Start(0))?;
        file.set_len(0)?;
        self.in_file = 0;
        bytes.extend_from_slice(&memory);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(Vec<u8>),
        Spill(Vec<u8>),
        Take,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = || vec(any::<u8>(), 0..50);
        vec(
            prop_oneof![
                bytes().prop_map(Step::Push),
                bytes().prop_map(Step::Spill),
                Just(Step::Take)
            ],
            0..30,
        )
    }

    proptest! {
        #[test]
        fn bytes_come_out_in_their_order_wherever_they_waited(steps in steps()) {
            let (mut tail, mut expected) = (Tail::default(), Vec::new());
            for step in steps {
                match step {
                    Step::Push(bytes) => {
                        tail.push(&bytes);
                        expected.extend(bytes);
                    }
                    Step::Spill(bytes) => {
                        tail.spill(&bytes).unwrap();
                        expected.extend(bytes);
                        prop_assert_eq!(tail.in_memory(), 0);
                    }
                    Step::Take => prop_assert_eq!(tail.take().unwrap(), std::mem::take(&mut expected)),
                }
                prop_assert_eq!(tail.len(), expected.len());
            }
            prop_assert_eq!(tail.take().unwrap(), expected);
        }
    }
}
