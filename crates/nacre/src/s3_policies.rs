//! `nacre s3 user policy`: policies of users.

use crate::cli::{S3UserName, S3UserPolicy, S3UserPolicyName, S3UserPolicyPut};
use crate::s3_session::with_store;
use anyhow::{Context, Result, bail};
use std::io::Read;
use std::path::Path;

pub fn run(command: &S3UserPolicy) -> Result<()> {
    match command {
        S3UserPolicy::Put(options) => put(options),
        S3UserPolicy::Get(options) => get(options),
        S3UserPolicy::Ls(options) => ls(options),
        S3UserPolicy::Rm(options) => rm(options),
    }
}

fn put(options: &S3UserPolicyPut) -> Result<()> {
    let text = if options.file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read the policy")?;
        text
    } else {
        std::fs::read_to_string(&options.file).with_context(|| format!("cannot read {}", options.file.display()))?
    };
    with_store(&options.target, false, async |store| {
        Ok(store.put_user_policy(&options.uid, &options.policy, text.trim()).await?)
    })
}

fn get(options: &S3UserPolicyName) -> Result<()> {
    with_store(&options.target, false, async |store| {
        match store.user(&options.uid).await?.policies.get(&options.policy) {
            Some(text) => println!("{text}"),
            None => bail!("user '{}' has no policy '{}'", options.uid, options.policy),
        }
        Ok(())
    })
}

fn ls(options: &S3UserName) -> Result<()> {
    with_store(&options.target, false, async |store| {
        for name in store.user(&options.uid).await?.policies.keys() {
            println!("{name}");
        }
        Ok(())
    })
}

fn rm(options: &S3UserPolicyName) -> Result<()> {
    with_store(&options.target, false, async |store| {
        Ok(store.remove_user_policy(&options.uid, &options.policy).await?)
    })
}
