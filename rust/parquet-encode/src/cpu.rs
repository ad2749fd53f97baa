//! Kernels that are compiled twice: for the baseline of the target, and for the features that most of its machines
//! have.
//!
//! A kernel is an `#[inline(always)]` function in plain Rust. [`dispatch!`] inlines it into a second function with AVX2
//! and BMI enabled, so that the compiler vectorises it for both, and picks one at run time. Both give the same bytes;
//! the tests run each encoder both ways.

/// Returns true if this machine has the features that the wide variants are compiled with.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn wide() -> bool {
    #[cfg(test)]
    if PORTABLE.get() {
        return false;
    }
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(test)]
thread_local! {
    static PORTABLE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `body` with the wide variants switched off on this thread.
#[cfg(test)]
pub(crate) fn portably<R>(body: impl FnOnce() -> R) -> R {
    PORTABLE.set(true);
    let result = body();
    PORTABLE.set(false);
    result
}

/// Defines a function that runs `kernel` in the widest variant the machine has.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$($gen:ident : $bound:path),+>)? (
        $($arg:ident : $ty:ty),* $(,)?
    ) $(-> $ret:ty)? = $kernel:path;) => {
        $(#[$meta])*
        $vis fn $name $(<$($gen: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn wide $(<$($gen: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    $kernel($($arg),*)
                }
                if $crate::cpu::wide() {
                    #[expect(unsafe_code, reason = "a safe function is called with its features checked")]
                    // SAFETY: `cpu::wide` has seen every feature that `wide` enables.
                    return unsafe { wide($($arg),*) };
                }
            }
            $kernel($($arg),*)
        }
    };
}
pub(crate) use dispatch;
