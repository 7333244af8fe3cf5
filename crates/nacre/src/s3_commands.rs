//! `nacre s3`: the S3 gateway, and its users and buckets.

use crate::cli;
use crate::conf_writer::random_bytes;
use crate::connection::connect;
use crate::s3_check;
use crate::s3_keys;
use crate::s3_limits;
use crate::s3_policies;
use crate::s3_session::{open, with_store};
use anyhow::{Context, Result};
use client::Cluster;
use gateway::{AccessLog, AccessLogFormat, Certificates, Link, Server, Threads};
use s3::{Settings, Store, User};
use serde_json::json;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Threads of a gateway, where nobody chose and there are more processors: the one that talks to the cluster has to
/// keep up with them.
const THREADS_MAX: usize = 8;
/// Buckets of a new user.
const BUCKETS_MAX: u32 = 1000;

/// A new access key and its secret: 20 letters and digits, and 40 characters of base64.
fn new_key() -> Result<(String, String)> {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let access = random_bytes::<20>()?.map(|byte| char::from(DIGITS[usize::from(byte) % DIGITS.len()]));
    Ok((access.iter().collect(), types::base64::encode(&random_bytes::<30>()?)))
}

pub fn run(command: cli::S3) -> Result<()> {
    match command {
        cli::S3::Serve(options) => serve(&options),
        cli::S3::MasterKey(options) => s3_keys::make(&options.file),
        cli::S3::User(cli::S3User::Add(options)) => user_add(&options),
        cli::S3::User(cli::S3User::Ls(target)) => user_ls(&target),
        cli::S3::User(cli::S3User::Show(options)) => user_show(&options),
        cli::S3::User(cli::S3User::Suspend(options)) => user_suspended(&options, true),
        cli::S3::User(cli::S3User::Resume(options)) => user_suspended(&options, false),
        cli::S3::User(cli::S3User::Stats(options)) => s3_limits::user_stats(&options),
        cli::S3::User(cli::S3User::Quota(options)) => s3_limits::user_quota(&options),
        cli::S3::User(cli::S3User::Rate(options)) => s3_limits::user_rate(&options),
        cli::S3::User(cli::S3User::Policy(command)) => s3_policies::run(&command),
        cli::S3::User(cli::S3User::Rm(options)) => user_rm(&options),
        cli::S3::Key(cli::S3Key::Add(options)) => key_add(&options),
        cli::S3::Key(cli::S3Key::Rm(options)) => key_rm(&options),
        cli::S3::Bucket(cli::S3Bucket::Ls(options)) => bucket_ls(&options),
        cli::S3::Bucket(cli::S3Bucket::Stats(options)) => s3_limits::bucket_stats(&options),
        cli::S3::Bucket(cli::S3Bucket::Quota(options)) => s3_limits::bucket_quota(&options),
        cli::S3::Bucket(cli::S3Bucket::Rate(options)) => s3_limits::bucket_rate(&options),
        cli::S3::Bucket(cli::S3Bucket::Check(options)) => s3_check::run(&options),
    }
}

/// Serves until SIGINT or SIGTERM.
fn serve(options: &cli::S3Serve) -> Result<()> {
    crate::daemon::follow_supervisor(options.supervised_by)?;
    crate::descriptors::allow_as_many_as_possible();
    let conf = crate::connection::conf_of(&options.target)?;
    let master_keys = options.master_key.as_deref().map(s3_keys::read).transpose()?.unwrap_or_default();
    let certificates = match (&options.tls_certificate, &options.tls_key) {
        (Some(certificate), Some(key)) => Some(Certificates::read(certificate, key)?),
        _ => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let processors = || std::thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX));
    let threads = Threads::start(options.threads.map_or_else(processors, usize::from));
    let threads = Arc::new(threads.context("cannot start threads")?);
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        let cluster = connect(&conf, &options.target.login).await?;
        let settings = Settings { lifecycle_day_s: options.lifecycle_day, master_keys, ..Settings::default() };
        let store = open(&cluster, true, settings).await?;
        let server = Server::listen(store.clone(), options.listen, options.domain.as_deref()).await?;
        let server = server.with_sites(options.website_domain.as_deref(), options.website_listen).await?;
        let server = match certificates {
            Some(certificates) => server.with_tls(certificates),
            None => server,
        };
        let server = match access_log(options)? {
            Some(log) => server.with_access_log(log),
            None => server,
        };
        let (address, scheme) = (server.address()?, server.scheme());
        let count = threads.count();
        tracing::info!("session {} listens on {address}; {count} threads serve", store.session());
        let server = server.with_threads(threads.clone());
        let sites = server.sites_address()?.map(|address| format!("web sites: {scheme}://{address}\n"));
        say_once(&format!("{scheme}://{address}\n{}", sites.unwrap_or_default()));
        server.run(stop).await?;
        store.close().await?;
        Ok(())
    })
}

/// Prints `words`. A reader that has gone, or is gone by now, does not matter to a gateway, which serves others.
fn say_once(words: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    if let Err(why) = out.write_all(words.as_bytes()).and_then(|()| out.flush()) {
        tracing::info!("nobody reads standard output: {why}");
    }
}

/// Opens the log of requests, and from then on again at each SIGHUP.
fn access_log(options: &cli::S3Serve) -> Result<Option<Arc<AccessLog>>> {
    let Some(path) = &options.access_log else { return Ok(None) };
    let format = match options.access_log_format {
        cli::LogFormat::S3 => AccessLogFormat::S3,
        cli::LogFormat::Json => AccessLogFormat::Json,
    };
    let log = AccessLog::open(path, format).with_context(|| format!("cannot write {}", path.display()))?;
    let log = Arc::new(log);
    let mut told = signal(SignalKind::hangup())?;
    let followed = log.clone();
    tokio::spawn(async move {
        while told.recv().await.is_some() {
            followed.reopen();
        }
    });
    Ok(Some(log))
}

fn show(user: &User, secret: Option<&str>, as_json: bool) {
    if as_json {
        let mut shown = json!({
            "uid": user.uid, "display_name": user.display_name, "email": user.email, "suspended": user.is_suspended,
            "access_keys": user.access_keys, "buckets_max": user.buckets_max,
        });
        if let Some(secret) = secret {
            shown["secret_key"] = json!(secret);
        }
        println!("{shown}");
        return;
    }
    println!("user {} ({})", user.uid, user.display_name);
    for key in &user.access_keys {
        println!("access key {key}");
    }
    if let Some(secret) = secret {
        println!("secret key {secret}");
    }
}

/// Makes a user, with the key that is given or a new one. Gives the user and the secret.
async fn make_user(
    store: &Store<Link>,
    uid: &str,
    (name, email): (&str, Option<&str>),
    key: Option<(String, String)>,
) -> Result<(User, String)> {
    let (access, secret) = match key {
        Some(key) => key,
        None => new_key()?,
    };
    let user = User {
        uid: uid.to_owned(),
        display_name: name.to_owned(),
        email: email.map(str::to_owned),
        buckets_max: BUCKETS_MAX,
        ..User::default()
    };
    let user = store.create_user(user, (&access, &secret)).await?;
    Ok((user, secret))
}

fn user_add(options: &cli::S3UserAdd) -> Result<()> {
    with_store(&options.target, true, async |store| {
        let key = options.access_key.clone().zip(options.secret_key.clone());
        let name = options.display_name.as_deref().unwrap_or(&options.uid);
        let uid = match &options.tenant {
            Some(tenant) => s3::user_of(tenant, &options.uid),
            None => options.uid.clone(),
        };
        let (user, secret) = make_user(store, &uid, (name, options.email.as_deref()), key).await?;
        show(&user, Some(&secret), options.json);
        Ok(())
    })
}

fn user_ls(target: &cli::Target) -> Result<()> {
    with_store(target, false, async |store| {
        for uid in store.users().await? {
            println!("{uid}");
        }
        Ok(())
    })
}

fn user_show(options: &cli::S3UserName) -> Result<()> {
    with_store(&options.target, false, async |store| {
        show(&store.user(&options.uid).await?, None, false);
        Ok(())
    })
}

fn user_suspended(options: &cli::S3UserName, is_suspended: bool) -> Result<()> {
    with_store(&options.target, false, async |store| {
        store.change_user(&options.uid, |user| user.is_suspended = is_suspended).await?;
        Ok(())
    })
}

fn user_rm(options: &cli::S3UserName) -> Result<()> {
    with_store(&options.target, false, async |store| Ok(store.remove_user(&options.uid).await?))
}

fn key_add(options: &cli::S3KeyAdd) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let key = options.access_key.clone().zip(options.secret_key.clone());
        let (access, secret) = match key {
            Some(key) => key,
            None => new_key()?,
        };
        store.add_key(&options.uid, (&access, &secret)).await?;
        println!("access key {access}\nsecret key {secret}");
        Ok(())
    })
}

fn key_rm(options: &cli::S3KeyRm) -> Result<()> {
    with_store(&options.target, false, async |store| {
        store.remove_key(&options.uid, &options.access_key).await?;
        Ok(())
    })
}

fn bucket_ls(options: &cli::S3BucketLs) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let users = match &options.uid {
            Some(uid) => vec![uid.clone()],
            None => store.users().await?,
        };
        for uid in users {
            for bucket in store.buckets(&uid).await? {
                println!("{}\t{uid}", bucket.name);
            }
        }
        Ok(())
    })
}

/// The user of `nacre up --s3-port`, who is made if there is none, with an access key and its secret.
pub async fn first_user(cluster: &Cluster) -> Result<(String, String)> {
    const UID: &str = "nacre";
    let store = open(cluster, true, Settings::default()).await?;
    let key = match store.user_if_any(UID).await? {
        Some(user) => match user.access_keys.first() {
            Some(access) => (access.clone(), store.access_key(access).await?.0.secret),
            None => {
                let (access, secret) = new_key()?;
                store.add_key(UID, (&access, &secret)).await?;
                (access, secret)
            }
        },
        None => {
            let (user, secret) = make_user(&store, UID, ("made by nacre up", None), None).await?;
            (user.access_keys.concat(), secret)
        }
    };
    store.close().await?;
    Ok(key)
}
