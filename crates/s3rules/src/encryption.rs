//! Default encryption of a bucket (`ServerSideEncryptionConfiguration`).

use crate::error::S3Error;
use crate::xml::Element;
use serde::{Deserialize, Serialize};

/// Whose key encrypts an object, where the client brings none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EncryptionAlgorithm {
    /// The gateways' own key: `AES256`.
    OwnKey,
    /// A key of a key management service: `aws:kms`, with its id.
    KeyService(Option<String>),
}

/// Encryption of new objects whose request asks for none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultEncryption {
    pub algorithm: EncryptionAlgorithm,
    /// `BucketKeyEnabled`, as it was set: it saves requests to a key management service, and changes nothing else.
    pub bucket_key: Option<bool>,
}

impl DefaultEncryption {
    /// Reads `ServerSideEncryptionConfiguration`, which has one rule. Errors: `MalformedXML`, and `InvalidArgument` for
    /// the id of a key that the algorithm has no use for.
    pub fn from_xml(document: &[u8]) -> Result<DefaultEncryption, S3Error> {
        let root = Element::parse(document, "ServerSideEncryptionConfiguration")?;
        root.only(&["Rule"])?;
        let rule = root.required("Rule")?;
        rule.only(&["ApplyServerSideEncryptionByDefault", "BucketKeyEnabled"])?;
        let default = rule.required("ApplyServerSideEncryptionByDefault")?;
        default.only(&["SSEAlgorithm", "KMSMasterKeyID"])?;
        let key = default.text_of("KMSMasterKeyID")?.filter(|key| !key.is_empty());
        let algorithm = match (default.required("SSEAlgorithm")?.leaf()?.trim(), key) {
            ("AES256", None) => EncryptionAlgorithm::OwnKey,
            ("AES256", Some(_)) => return Err(S3Error::invalid_argument("AES256 takes no KMSMasterKeyID")),
            ("aws:kms", key) => EncryptionAlgorithm::KeyService(key),
            (other, _) => return Err(S3Error::malformed_xml(format!("there is no SSEAlgorithm {other:?}"))),
        };
        Ok(DefaultEncryption { algorithm, bucket_key: rule.flag_of("BucketKeyEnabled")? })
    }

    /// `ServerSideEncryptionConfiguration` of an answer.
    pub fn to_xml(&self) -> String {
        let default = Element::new("ApplyServerSideEncryptionByDefault");
        let default = match &self.algorithm {
            EncryptionAlgorithm::OwnKey => default.with_text("SSEAlgorithm", "AES256"),
            EncryptionAlgorithm::KeyService(key) => {
                default.with_text("SSEAlgorithm", "aws:kms").with_optional("KMSMasterKeyID", key.as_deref())
            }
        };
        let rule = Element::new("Rule").with(default);
        let rule = rule.with_optional("BucketKeyEnabled", self.bucket_key.map(|enabled| enabled.to_string()));
        Element::root("ServerSideEncryptionConfiguration").with(rule).write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::S3Code;

    fn document(default: &str, rest: &str) -> String {
        format!(
            "<ServerSideEncryptionConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule>\
             <ApplyServerSideEncryptionByDefault>{default}</ApplyServerSideEncryptionByDefault>{rest}</Rule>\
             </ServerSideEncryptionConfiguration>"
        )
    }

    #[test]
    fn configurations_are_read_and_written() {
        let check = |default: &str, rest: &str, algorithm, bucket_key| {
            let read = DefaultEncryption::from_xml(document(default, rest).as_bytes()).expect("it is right");
            assert_eq!(read, DefaultEncryption { algorithm, bucket_key });
            assert_eq!(DefaultEncryption::from_xml(read.to_xml().as_bytes()), Ok(read));
        };
        let flag = "<BucketKeyEnabled>true</BucketKeyEnabled>";
        check("<SSEAlgorithm>AES256</SSEAlgorithm>", "", EncryptionAlgorithm::OwnKey, None);
        check("<SSEAlgorithm>aws:kms</SSEAlgorithm>", flag, EncryptionAlgorithm::KeyService(None), Some(true));
        let with_key = "<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>k 1</KMSMasterKeyID>";
        check(with_key, "", EncryptionAlgorithm::KeyService(Some("k 1".into())), None);
    }

    #[test]
    fn wrong_configurations_are_refused() {
        let check = |document: &str, code| {
            let error = DefaultEncryption::from_xml(document.as_bytes()).expect_err("refused");
            assert_eq!(error.code, code, "{document}");
        };
        check(&document("<SSEAlgorithm>AES128</SSEAlgorithm>", ""), S3Code::MalformedXML);
        check(&document("", ""), S3Code::MalformedXML);
        check(&document("<SSEAlgorithm>AES256</SSEAlgorithm><Other/>", ""), S3Code::MalformedXML);
        check("<ServerSideEncryptionConfiguration/>", S3Code::MalformedXML);
        check("<Rule/>", S3Code::MalformedXML);
        let with_key = "<SSEAlgorithm>AES256</SSEAlgorithm><KMSMasterKeyID>k</KMSMasterKeyID>";
        check(&document(with_key, ""), S3Code::InvalidArgument);
    }
}
