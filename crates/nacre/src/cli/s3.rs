//! Flags of `nacre s3`.

use super::Target;
use crate::byte_size::ByteSize;
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub enum S3 {
    /// Run a gateway. Any number of them may serve one cluster.
    Serve(S3Serve),
    /// Make a file with a master key, by which gateways encrypt objects whose clients bring no key.
    MasterKey(S3MasterKey),
    /// Make, show and remove users.
    #[command(subcommand)]
    User(S3User),
    /// Make and remove access keys of users.
    #[command(subcommand)]
    Key(S3Key),
    /// Show and check buckets.
    #[command(subcommand)]
    Bucket(S3Bucket),
}

#[derive(Args, Debug)]
pub struct S3Serve {
    /// Address and port to listen on. Beyond this machine clients should be offered TLS: see --tls-certificate.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8333")]
    pub listen: SocketAddr,
    /// Name of this service: clients may put buckets before it, as in `BUCKET.NAME:8333`.
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// Name before which buckets stand in hosts of web sites, as in `http://BUCKET.NAME:8333/`.
    #[arg(long, value_name = "NAME")]
    pub website_domain: Option<String>,
    /// Address and port that only serve web sites: the host is called like the bucket, or as --website-domain tells.
    #[arg(long, value_name = "IP:PORT")]
    pub website_listen: Option<SocketAddr>,
    /// File in PEM of the certificate for TLS, and of the chain behind it: clients then have to use https. It is read
    /// again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// File in PEM of that certificate's private key.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// File of master keys, made by 'nacre s3 master-key': objects are encrypted where clients or buckets ask for it.
    #[arg(long, value_name = "FILE")]
    pub master_key: Option<PathBuf>,
    /// File to which a line is added for each request. It is opened again on SIGHUP, for those who rotate logs.
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Form of those lines: AWS's server access logs, or JSON.
    #[arg(long, value_name = "FORMAT", default_value = "s3", requires = "access_log")]
    pub access_log_format: LogFormat,
    /// Threads that serve requests, beside one that talks to the cluster; 1 does both on one. By default as many as
    /// there are processors, and 8 at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Seconds that lifecycle rules take for a day, for tests: objects expire early.
    #[arg(long, value_name = "SECONDS", hide = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub lifecycle_day: Option<u32>,
    /// Process to end with.
    #[arg(long, hide = true)]
    pub supervised_by: Option<u32>,
    #[command(flatten)]
    pub target: Target,
}

/// Form of an access log.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub enum LogFormat {
    S3,
    Json,
}

#[derive(Args, Debug)]
pub struct S3MasterKey {
    /// File to make. All gateways of a cluster need the same one, and nobody can read what it encrypted without it.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Subcommand, Debug)]
pub enum S3User {
    /// Make a user with an access key, and print it.
    Add(S3UserAdd),
    /// List the names of users.
    Ls(Target),
    /// Show a user.
    Show(S3UserName),
    /// Let a user in no more. Gateways follow within seconds.
    Suspend(S3UserName),
    /// Let a suspended user in again.
    Resume(S3UserName),
    /// Show how much a user's buckets hold.
    Stats(S3UserStats),
    /// Show or set how much all of a user's buckets may hold together.
    Quota(S3UserQuota),
    /// Show or set how many requests and bytes a minute a user may have at each gateway.
    Rate(S3UserRate),
    /// Show, set and remove policies of users, which bind them beside those of buckets.
    #[command(subcommand)]
    Policy(S3UserPolicy),
    /// Remove a user who has no buckets.
    Rm(S3UserName),
}

#[derive(Subcommand, Debug)]
pub enum S3UserPolicy {
    /// Set a policy, in the place of one of the same name. Gateways follow within seconds.
    Put(S3UserPolicyPut),
    /// Print a policy.
    Get(S3UserPolicyName),
    /// List the names of a user's policies.
    Ls(S3UserName),
    /// Remove a policy.
    Rm(S3UserPolicyName),
}

#[derive(Args, Debug)]
pub struct S3UserPolicyName {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    /// Name of the policy.
    #[arg(value_name = "NAME")]
    pub policy: String,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3UserPolicyPut {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    /// Name of the policy.
    #[arg(value_name = "NAME")]
    pub policy: String,
    /// File with the policy in AWS's language, without principals; '-' for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3UserAdd {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    /// Tenant of the user, which has names of buckets and users of its own. To all other commands the user is
    /// 'TENANT$UID' then, and a bucket TENANT:BUCKET.
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Name for people. [default: UID]
    #[arg(long, value_name = "NAME")]
    pub display_name: Option<String>,
    /// Address by which grants may name the user.
    #[arg(long, value_name = "ADDRESS")]
    pub email: Option<String>,
    /// Access key. [default: a random one]
    #[arg(long, value_name = "KEY", requires = "secret_key")]
    pub access_key: Option<String>,
    /// Secret of the access key.
    #[arg(long, value_name = "SECRET", requires = "access_key")]
    pub secret_key: Option<String>,
    /// For programs.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3UserName {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Subcommand, Debug)]
pub enum S3Key {
    /// Give a user one more access key, and print it.
    Add(S3KeyAdd),
    /// Remove an access key.
    Rm(S3KeyRm),
}

#[derive(Args, Debug)]
pub struct S3KeyAdd {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    /// Access key. [default: a random one]
    #[arg(long, value_name = "KEY", requires = "secret_key")]
    pub access_key: Option<String>,
    /// Secret of the access key.
    #[arg(long, value_name = "SECRET", requires = "access_key")]
    pub secret_key: Option<String>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3KeyRm {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    #[arg(value_name = "KEY")]
    pub access_key: String,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Subcommand, Debug)]
pub enum S3Bucket {
    /// List buckets and their owners.
    Ls(S3BucketLs),
    /// Show how much a bucket holds.
    Stats(S3BucketStats),
    /// Show or set how much a bucket may hold.
    Quota(S3BucketQuota),
    /// Show or set how many requests and bytes a minute a bucket may have at each gateway.
    Rate(S3BucketRate),
    /// Compare a bucket's index with its objects; all buckets, and what lies in their pools, without a name.
    Check(S3BucketCheck),
}

#[derive(Args, Debug)]
pub struct S3BucketLs {
    /// Only the buckets of this user.
    #[arg(value_name = "UID")]
    pub uid: Option<String>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3BucketStats {
    #[arg(value_name = "BUCKET")]
    pub bucket: String,
    /// For programs.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3BucketQuota {
    #[arg(value_name = "BUCKET")]
    pub bucket: String,
    #[command(flatten)]
    pub quota: S3Quota,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3BucketRate {
    #[arg(value_name = "BUCKET")]
    pub bucket: String,
    #[command(flatten)]
    pub rate: S3Rate,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3UserStats {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    /// For programs.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3UserQuota {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    #[command(flatten)]
    pub quota: S3Quota,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct S3UserRate {
    /// Name of the user.
    #[arg(value_name = "UID")]
    pub uid: String,
    #[command(flatten)]
    pub rate: S3Rate,
    #[command(flatten)]
    pub target: Target,
}

/// An upper bound, or `none`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound(pub Option<u64>);

/// Reads a number or `none`.
fn number_bound(text: &str) -> Result<Bound, String> {
    if text == "none" {
        return Ok(Bound(None));
    }
    text.parse().map(|number| Bound(Some(number))).map_err(|_| format!("'{text}' is neither a number nor 'none'"))
}

/// Reads a size or `none`.
fn size_bound(text: &str) -> Result<Bound, String> {
    if text == "none" {
        return Ok(Bound(None));
    }
    text.parse().map(|ByteSize(bytes)| Bound(Some(bytes)))
}

/// A quota that is to be set; without any of these it is shown.
#[derive(Args, Debug)]
pub struct S3Quota {
    /// Bytes of all versions and of parts of uploads under way; 'none' for any number.
    #[arg(long, value_name = "SIZE", value_parser = size_bound)]
    pub max_size: Option<Bound>,
    /// Versions of objects; 'none' for any number.
    #[arg(long, value_name = "NUMBER", value_parser = number_bound)]
    pub max_objects: Option<Bound>,
    /// Keep the bounds, but do not act on them until some are set again.
    #[arg(long, conflicts_with_all = ["max_size", "max_objects"])]
    pub off: bool,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

/// A rate limit that is to be set; without any of these it is shown.
#[derive(Args, Debug)]
pub struct S3Rate {
    /// GET and HEAD requests a minute; 'none' for any number.
    #[arg(long, value_name = "NUMBER", value_parser = number_bound)]
    pub reads: Option<Bound>,
    /// Other requests a minute; 'none' for any number.
    #[arg(long, value_name = "NUMBER", value_parser = number_bound)]
    pub writes: Option<Bound>,
    /// Bytes a minute that GET requests are answered with; 'none' for any number.
    #[arg(long, value_name = "SIZE", value_parser = size_bound)]
    pub read_bytes: Option<Bound>,
    /// Bytes a minute that other requests bring; 'none' for any number.
    #[arg(long, value_name = "SIZE", value_parser = size_bound)]
    pub write_bytes: Option<Bound>,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct S3BucketCheck {
    /// The bucket. [default: all of them, and then every object of their pools: bytes that nothing names are found]
    #[arg(value_name = "BUCKET")]
    pub bucket: Option<String>,
    /// Write entries of the index that are wrong or missing anew, from the objects, and counts from the index; remove
    /// bytes that nothing has named for ten minutes.
    #[arg(long, visible_alias = "fix")]
    pub repair: bool,
    /// For programs.
    #[arg(long)]
    pub json: bool,
    /// Seconds in the place of ten minutes, for tests.
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub orphan_age: Option<u32>,
    #[command(flatten)]
    pub target: Target,
}
