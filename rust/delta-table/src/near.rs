//! Names that are like another one, for the errors of names that are not known.

/// Letters to change, to leave out, to add or to swap with the next one.
pub(crate) use strsim::osa_distance as distance;

/// Of these names the ones that are most like another: two at most, which differ from it in case or in few letters.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let letters = lower.chars().count();
    let most = (letters / 3).max(1);
    nearest(known, |known| {
        if known.chars().count().abs_diff(letters) > most {
            return None;
        }
        let distance = distance(&known.to_lowercase(), &lower);
        (distance <= most).then_some(distance)
    })
}

/// The two names of the least rank; one without a rank is left out.
pub(crate) fn nearest<'a>(
    known: impl IntoIterator<Item = &'a str>,
    rank: impl Fn(&str) -> Option<usize>,
) -> Vec<&'a str> {
    let known = known.into_iter();
    let mut like: Vec<_> = known.filter_map(|known| Some((rank(known)?, known))).collect();
    like.sort_unstable();
    like.into_iter().take(2).map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_near_that_differ_in_case_or_in_few_letters() {
        let known = ["day", "days", "customer_id", "Name", "x"];
        assert_eq!(near("custmer_id", known), ["customer_id"]);
        assert_eq!(near("name", known), ["Name"]);
        assert_eq!(near("dya", known), ["day"]);
        assert_eq!(near("dayz", known), ["day", "days"]);
        assert!(near("amount", known).is_empty());
    }
}
