//! Condition keys that policies may name.

/// Headers that are condition keys of S3 under their own names.
pub(super) const HEADER_KEYS: &[&str] = &[
    "if-match",
    "if-none-match",
    "x-amz-acl",
    "x-amz-content-sha256",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-metadata-directive",
    "x-amz-object-ownership",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
];

/// Parameters of queries that are condition keys of S3 under their own names.
pub(super) const QUERY_KEYS: &[&str] = &["prefix", "delimiter", "max-keys"];

/// Other keys of S3. A `/` at the end stands for a family: the key of a tag follows.
const S3_KEYS: &[&str] = &[
    "AccessGrantsInstanceArn",
    "AccessPointNetworkOrigin",
    "authType",
    "BucketTag/",
    "DataAccessPointAccount",
    "DataAccessPointArn",
    "destinationRegion",
    "ExistingJobOperation",
    "ExistingJobPriority",
    "ExistingObjectTag/",
    "InventoryAccessibleOptionalFields",
    "isReplicationPauseRequest",
    "JobSuspendedCause",
    "LocationConstraint",
    "object-lock-legal-hold",
    "object-lock-mode",
    "object-lock-remaining-retention-days",
    "object-lock-retain-until-date",
    "ObjectCreationOperation",
    "RequestJobOperation",
    "RequestJobPriority",
    "RequestObjectTag/",
    "RequestObjectTagKeys",
    "ResourceAccount",
    "ResourceTag/",
    "signatureAge",
    "signatureversion",
    "TlsVersion",
    "VersionId",
    "x-amz-copy-source",
];

/// Keys of all services.
const AWS_KEYS: &[&str] = &[
    "AssumedRoot",
    "CalledVia",
    "CalledViaFirst",
    "CalledViaLast",
    "ChatbotSourceArn",
    "CurrentTime",
    "Ec2InstanceSourcePrivateIPv4",
    "Ec2InstanceSourceVpc",
    "EpochTime",
    "FederatedProvider",
    "MultiFactorAuthAge",
    "MultiFactorAuthPresent",
    "PrincipalAccount",
    "PrincipalArn",
    "PrincipalIsAWSService",
    "PrincipalOrgID",
    "PrincipalOrgPaths",
    "PrincipalServiceName",
    "PrincipalServiceNamesList",
    "PrincipalTag/",
    "PrincipalType",
    "Referer",
    "RequestedRegion",
    "RequestTag/",
    "ResourceAccount",
    "ResourceOrgID",
    "ResourceOrgPaths",
    "ResourceTag/",
    "SecureTransport",
    "SourceAccount",
    "SourceArn",
    "SourceIdentity",
    "SourceIp",
    "SourceOrgID",
    "SourceOrgPaths",
    "SourceOwner",
    "SourceVpc",
    "SourceVpcArn",
    "SourceVpce",
    "TagKeys",
    "TokenIssueTime",
    "UserAgent",
    "userid",
    "username",
    "ViaAWSService",
    "VpceAccount",
    "VpceOrgID",
    "VpceOrgPaths",
    "VpcSourceIp",
];

/// True for a key that a condition may name: one of S3, one of all services, or one of another service or identity
/// provider, whose names are not looked at.
pub fn is_condition_key(key: &str) -> bool {
    let Some((service, name)) = key.split_once(':') else { return false };
    if service.is_empty() || name.is_empty() {
        return false;
    }
    let in_table = |table: &[&str]| {
        table.iter().any(|known| match name.split_once('/') {
            None => known.eq_ignore_ascii_case(name),
            Some((family, tag)) => {
                known.strip_suffix('/').is_some_and(|k| k.eq_ignore_ascii_case(family)) && !tag.is_empty()
            }
        })
    };
    match service.to_ascii_lowercase().as_str() {
        "s3" => [HEADER_KEYS, QUERY_KEYS, S3_KEYS].into_iter().any(in_table),
        "aws" => in_table(AWS_KEYS),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known() {
        for key in
            ["s3:prefix", "S3:Prefix", "aws:sourceip", "s3:ExistingObjectTag/a/b", "aws:PrincipalTag/x", "saml:aud"]
        {
            assert!(is_condition_key(key), "{key}");
        }
        for key in [
            "",
            "prefix",
            "s3:",
            "s3:suffix",
            "aws:prefix",
            "s3:ExistingObjectTag",
            "s3:ExistingObjectTag/",
            "s3:prefix/x",
            ":x",
        ] {
            assert!(!is_condition_key(key), "{key}");
        }
    }
}
