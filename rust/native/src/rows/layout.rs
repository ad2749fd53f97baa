//! Direct access to the memory of a `str`, an `int` and a `float`: a call of the stable ABI would take as long as all
//! else that is done for a cell.
//!
//! Only the layouts of versions of `CPython` that are tested are tried, and each is verified: it has to read what the
//! stable ABI says of values of all sizes, and to decline what it does not understand. In other versions, and for a
//! value that is declined, the stable ABI is called.

use std::ffi::c_char;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyString};

/// The versions whose layouts are known and tested, as the minor versions of 3.
const KNOWN: std::ops::RangeInclusive<u8> = 11..=13;
/// The offset of what follows the head of each object.
const HEAD: usize = 16;
/// Text: its length, and flags behind the hash.
const LENGTH: usize = HEAD;
const STATE: usize = HEAD + 16;
/// The flags of compact ASCII text (one byte a character, compact, ASCII), and those that are compared. The two bits
/// before them say whether it is interned.
const ASCII_FLAGS: u32 = 0b1_1001 << 2;
const FLAG_BITS: u32 = 0b1_1111 << 2;
/// Compact ASCII text follows the flags; in 3.11, a pointer that is not used comes first.
const ASCII_STARTS: [usize; 2] = [40, 48];
/// Integers: their sign and number of digits, and the first of these.
const SIZE: usize = HEAD;
const DIGITS: usize = HEAD + 8;
const DIGIT_BITS: u32 = 30;

/// The layouts that were verified. Those that were not decline every value.
#[derive(Clone, Copy, Default)]
pub(super) struct VerifiedLayouts {
    /// The offset of compact ASCII text.
    ascii: Option<usize>,
    int: Option<Int>,
    float: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Int {
    /// The number of digits, negative for negative integers.
    Signed,
    /// The sign in two bits, and the number of digits behind a third: 3.12 and later.
    Tagged,
}

static LAYOUT: PyOnceLock<VerifiedLayouts> = PyOnceLock::new();

impl VerifiedLayouts {
    /// The layouts of the interpreter, which are verified by the first call.
    pub fn get(py: Python<'_>) -> PyResult<Self> {
        LAYOUT.get_or_try_init(py, || Self::verified(py)).copied()
    }

    /// Text of ASCII; none where the stable ABI has to be asked. It is valid as long as the str.
    #[inline]
    pub fn ascii<'a>(&self, text: *mut ffi::PyObject) -> Option<&'a str> {
        let offset = self.ascii?;
        // SAFETY: the object is a str and somebody holds it. Its flags say that it has this layout, as was verified.
        #[expect(
            unsafe_code,
            reason = "a third of the time of a call, for every key and most cells"
        )]
        unsafe {
            if field::<u32>(text, STATE) & FLAG_BITS != ASCII_FLAGS {
                return None;
            }
            let start = text.cast::<u8>().cast_const().add(offset);
            let bytes = std::slice::from_raw_parts(start, field(text, LENGTH));
            Some(std::str::from_utf8_unchecked(bytes))
        }
    }

    /// An integer of up to two digits, which is below 2^60; none where the stable ABI has to be asked.
    #[inline]
    pub fn int(&self, int: *mut ffi::PyObject) -> Option<i64> {
        let layout = self.int?;
        // SAFETY: the object is an int and somebody holds it. It has as many digits as are read, as was verified.
        #[expect(unsafe_code, reason = "half of the time of a call")]
        unsafe {
            let size: i64 = field(int, SIZE);
            let (digits, negative) = match layout {
                Int::Signed => (size.unsigned_abs(), size < 0),
                Int::Tagged => (size.cast_unsigned() >> 3, size & 3 == 2),
            };
            let value = match digits {
                0 => 0,
                1 => field::<u32>(int, DIGITS).into(),
                2 => {
                    i64::from(field::<u32>(int, DIGITS + 4)) << DIGIT_BITS
                        | i64::from(field::<u32>(int, DIGITS))
                }
                _ => return None,
            };
            Some(if negative { -value } else { value })
        }
    }

    /// A float; none where the stable ABI has to be asked.
    #[inline]
    pub fn float(&self, float: *mut ffi::PyObject) -> Option<f64> {
        // SAFETY: the object is a float and somebody holds it. Its value is here, as was verified.
        #[expect(unsafe_code, reason = "half of the time of a call")]
        self.float.then(|| unsafe { field(float, HEAD) })
    }

    fn verified(py: Python<'_>) -> PyResult<Self> {
        let version = py.version_info();
        let heads = [
            py.get_type::<PyFloat>()
                .getattr("__basicsize__")?
                .extract::<usize>()?
                == HEAD + 8,
            py.get_type::<PyInt>()
                .getattr("__itemsize__")?
                .extract::<usize>()?
                == 4,
            py.import("sys")?
                .getattr("implementation")?
                .getattr("name")?
                .eq("cpython")?,
        ];
        let is_known = version.major == 3 && KNOWN.contains(&version.minor) && size_of::<usize>() == 8;
        if !is_known || heads.contains(&false) {
            return Ok(Self::default());
        }
        Ok(Self {
            ascii: ascii_layout(py)?,
            int: int_layout(py)?,
            float: float_layout(py),
        })
    }
}

/// Reads a field of an object.
///
/// # Safety
/// The object has a field of this type at `offset`, in bytes.
#[expect(unsafe_code, reason = "what the layouts are made of")]
#[inline]
unsafe fn field<T: Copy>(object: *mut ffi::PyObject, offset: usize) -> T {
    // SAFETY: as the caller says; fields are aligned.
    unsafe { object.byte_add(offset).cast::<T>().read() }
}

/// The layout that reads texts of ASCII, some of them interned, and declines all others.
fn ascii_layout(py: Python<'_>) -> PyResult<Option<usize>> {
    let mut probes = Vec::new();
    for length in (0..40).chain([255, 256, 1000, 70_000]) {
        let text: String = ('a'..='z').cycle().take(length).collect();
        probes.push(PyString::new(py, &text));
        probes.push(PyString::intern(py, &text));
        for other in ['\u{7f}', '\0', '\u{80}', 'é', '\u{100}', '中', '😀'] {
            probes.push(PyString::new(py, &format!("{text}{other}")));
            probes.push(PyString::intern(py, &format!("{other}{text}")));
        }
    }
    for text in probes.clone() {
        probes.push(text.add("-")?.cast_into()?);
    }
    for offset in ASCII_STARTS {
        let layout = VerifiedLayouts {
            ascii: Some(offset),
            ..VerifiedLayouts::default()
        };
        let is_right = |probe: &Bound<'_, PyString>| -> bool {
            let mut size = 0;
            // SAFETY: the probe is a str and is held.
            #[expect(unsafe_code, reason = "the length is compared before any text is read")]
            let (said, bytes) = unsafe {
                let said: *const c_char = ffi::PyUnicode_AsUTF8AndSize(probe.as_ptr(), &raw mut size);
                let bytes = std::slice::from_raw_parts(said.cast::<u8>(), size.unsigned_abs());
                (said.cast::<u8>(), bytes)
            };
            // The text that the ABI lends is the object's own.
            match layout.ascii(probe.as_ptr()) {
                Some(text) => text.as_ptr() == said && text.len() == bytes.len() && bytes.is_ascii(),
                None => !bytes.is_ascii(),
            }
        };
        if probes.iter().all(is_right) {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// The layout that reads integers of up to two digits, and declines all others.
fn int_layout(py: Python<'_>) -> PyResult<Option<Int>> {
    let mut values = vec![i64::MIN, i64::MAX];
    for bit in 0..63 {
        let power = 1_i64 << bit;
        values.extend([power - 1, power, power + 1]);
    }
    values.extend((0..300).chain([1 << 30 | 1, 0x0123_4567_89ab_cdef]));
    let negatives: Vec<_> = values.iter().map(|value| value.wrapping_neg()).collect();
    values.extend(negatives);
    let probes = values
        .iter()
        .map(|value| Ok((*value, value.into_pyobject(py)?)))
        .collect::<PyResult<Vec<_>>>()?;
    let found = [Int::Signed, Int::Tagged].into_iter().find(|int| {
        let layout = VerifiedLayouts {
            int: Some(*int),
            ..VerifiedLayouts::default()
        };
        probes.iter().all(|(value, probe)| {
            let expected = (value.unsigned_abs() >> (2 * DIGIT_BITS) == 0).then_some(*value);
            layout.int(probe.as_ptr()) == expected
        })
    });
    Ok(found)
}

fn float_layout(py: Python<'_>) -> bool {
    let layout = VerifiedLayouts {
        float: true,
        ..VerifiedLayouts::default()
    };
    [
        0.0,
        -0.0,
        1.0,
        -1.5,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
        0.1,
    ]
    .into_iter()
    .all(|value| {
        let read = layout.float(PyFloat::new(py, value).as_ptr());
        read.map(f64::to_bits) == Some(value.to_bits())
    })
}
