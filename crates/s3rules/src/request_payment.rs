//! Payers for requests (`RequestPaymentConfiguration`).

use crate::error::S3Error;
use crate::xml::Element;

/// Reads `RequestPaymentConfiguration`: true if requesters pay. Errors: `MalformedXML`.
pub fn requesters_pay_from_xml(document: &[u8]) -> Result<bool, S3Error> {
    let root = Element::parse(document, "RequestPaymentConfiguration")?;
    root.only(&["Payer"])?;
    match root.required("Payer")?.leaf()?.trim() {
        "BucketOwner" => Ok(false),
        "Requester" => Ok(true),
        other => Err(S3Error::malformed_xml(format!("there is no payer {other:?}"))),
    }
}

/// `RequestPaymentConfiguration` of an answer.
pub fn requesters_pay_xml(requesters_pay: bool) -> String {
    let payer = if requesters_pay { "Requester" } else { "BucketOwner" };
    Element::root("RequestPaymentConfiguration").with_text("Payer", payer).write()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::S3Code;

    #[test]
    fn payers_in_xml() {
        for pays in [false, true] {
            assert_eq!(requesters_pay_from_xml(requesters_pay_xml(pays).as_bytes()), Ok(pays));
        }
        for inside in ["", "<Payer>Nobody</Payer>", "<Payer/>", "<Payer>Requester</Payer><More/>"] {
            let document = format!("<RequestPaymentConfiguration>{inside}</RequestPaymentConfiguration>");
            let refused = requesters_pay_from_xml(document.as_bytes()).unwrap_err();
            assert_eq!(refused.code, S3Code::MalformedXML, "{inside}");
        }
    }
}
