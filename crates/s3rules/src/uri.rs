//! Percent-encoding.

/// Decodes the value of a form: `+` is a space, `%hh` a byte. `None` if the bytes are no UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let digit = |at: usize| char::from(digits[at]).to_digit(16);
                u8::try_from(digit(0)? * 16 + digit(1)?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Decodes a path: as [`percent_decode`], but a plus sign stands for itself.
pub fn percent_decode_path(text: &str) -> Option<String> {
    percent_decode(&text.replace('+', "%2B"))
}

/// Encodes all but letters, digits, `-._~` and what `also` holds.
pub fn percent_encode(text: &str, also: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let character = char::from(byte);
        if character.is_ascii_alphanumeric() || "-._~".contains(character) || also.contains(character) {
            out.push(character);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encoded_and_decoded() {
        assert_eq!(percent_encode("a b/ä~", "/"), "a%20b/%C3%A4~");
        assert_eq!(percent_encode("a/b", ""), "a%2Fb");
        for (text, decoded) in
            [("a+b%2f", Some("a b/")), ("%", None), ("%1", None), ("%g0", None), ("%ff", None), ("%+1", None)]
        {
            assert_eq!(percent_decode(text).as_deref(), decoded, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_again(text in "\\PC{0,30}") {
            prop_assert_eq!(percent_decode(&percent_encode(&text, "/")), Some(text));
        }
    }
}
