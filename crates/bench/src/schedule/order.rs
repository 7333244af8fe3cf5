//! The order of a group's objects in lists, which is that of their names: numbers as texts, `1` before `10` before `2`.

/// The object whose name is the next one behind that of `object`, among `objects` from 0 on. `None` behind the last.
pub fn following(object: u64, objects: u64) -> Option<u64> {
    if object == 0 {
        return (objects > 1).then_some(1);
    }
    // Names that go on where this one ends come first.
    if let Some(longer) = object.checked_mul(10).filter(|longer| *longer < objects) {
        return Some(longer);
    }
    let mut number = object;
    while number > 0 {
        if number % 10 != 9 && number + 1 < objects {
            return Some(number + 1);
        }
        number /= 10;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_names() {
        for objects in (1..=130).chain([999, 1000, 1001, 1010, 12_345]) {
            let mut names: Vec<String> = (0..objects).map(|object| object.to_string()).collect();
            names.sort();
            let walked: Vec<String> =
                std::iter::successors(Some(0), |at| following(*at, objects)).map(|object| object.to_string()).collect();
            assert_eq!(walked, names, "{objects}");
        }
        assert_eq!(following(u64::MAX / 2, u64::MAX), Some(u64::MAX / 2 + 1));
    }
}
