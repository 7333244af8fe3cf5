//! Lengths of time such as `90`, `1h30m`, `2 days`.

/// Units by their spellings, with their seconds.
const UNITS: [(&[&str], i64); 7] = [
    (&["s", "sec", "second", "seconds"], 1),
    (&["m", "min", "minute", "minutes"], 60),
    (&["h", "hr", "hour", "hours"], 3600),
    (&["d", "day", "days"], 86_400),
    (&["w", "wk", "week", "weeks"], 604_800),
    (&["mo", "month", "months"], 2_592_000),
    (&["y", "yr", "year", "years"], 31_536_000),
];

/// Returns the seconds. Error: a sentence.
pub(super) fn parse(text: &str) -> Result<i64, String> {
    let mut total: i64 = 0;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err("expected digit".to_owned());
        }
        let (number, behind) = rest.split_at(digits);
        let invalid = || format!("The option value '{number}' seems to be invalid");
        let number: i64 = number.parse().map_err(|_| invalid())?;
        let behind = behind.trim_start();
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, behind) = behind.split_at(letters);
        let seconds = match UNITS.iter().find(|(spellings, _)| spellings.contains(&unit)) {
            Some((_, seconds)) => *seconds,
            None if !unit.is_empty() => return Err(format!("unrecogized unit '{unit}'")),
            None if behind.is_empty() => 1,
            None => return Err(format!("unexpected trailing '{behind}'")),
        };
        // A Ceph lets the sum run over and keeps a negative time.
        let part = number.checked_mul(seconds).and_then(|part| total.checked_add(part));
        total = part.ok_or_else(|| format!("The option value '{text}' seems to be invalid"))?;
        rest = behind.trim_start();
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units_are_added_up() {
        let check = |text: &str, seconds| assert_eq!(parse(text), Ok(seconds), "{text}");
        check("", 0);
        check("90", 90);
        check(" 1h 30 min", 5400);
        check("2days1w", 777_600);
        check("1m 2", 62);
        assert!(parse("9223372036854775807y").is_err());
        assert!(parse("1.5h").is_err());
        assert!(parse("-1").is_err());
    }
}
