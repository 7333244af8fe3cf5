/// Hexadecimal digits of bytes, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_two_digits() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0, 9, 0x0a, 0xa0, 0x7f, 0xff]), "00090aa07fff");
        assert!((0..=u8::MAX).all(|byte| u8::from_str_radix(&hex(&[byte]), 16) == Ok(byte)));
    }
}
