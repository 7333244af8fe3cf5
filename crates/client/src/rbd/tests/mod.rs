//! Images on a cluster in memory, with faults between their operations on objects.

mod first_write;
mod many_clients;
mod others;
mod protection;
mod trash;
mod unfinished;

use super::{Image, ImageOptions, Layout, create, feature};
use crate::Pool;
use crate::error::Error;
use crate::in_memory::Memory;
use wire::Release;

/// Size and number of an image's objects: both small.
const OBJECT: u64 = 4096;
const OBJECTS: u64 = 4;
const SIZE: u64 = OBJECT * OBJECTS;

fn options(features: u64) -> ImageOptions {
    ImageOptions { layout: Layout::plain(12), features, data_pool: None }
}

/// Content of the parent: no zeros, and no two blocks alike.
fn golden() -> Vec<u8> {
    (0..SIZE).map(|at| (at % 251 + at / OBJECT % 4 + 1) as u8).collect()
}

/// Makes image `parent` with [`golden`] in it, and its snapshot `base`.
async fn make_parent(pool: &Pool) -> Result<(), Error> {
    create(pool, "parent", SIZE, &options(feature::DEFAULT)).await?;
    let image = Image::open(pool, "parent").await?;
    image.write(0, golden()).await?;
    image.create_snapshot("base").await?;
    image.close().await
}

/// A cluster with [`make_parent`] in pool `p`, and a clone `disk` of it.
async fn with_clone(seed: u64, features: u64) -> Memory {
    let memory = Memory::start(seed, &["p"], Release::MIMIC);
    let (_, pool) = memory.pool("p").await;
    make_parent(&pool).await.expect("the parent");
    super::clone(&pool, "parent", "base", &pool, "disk", &options(features)).await.expect("the clone");
    memory
}

/// Reads the whole image. A read waits behind late operations, perhaps for longer than the client's timeout.
async fn read_all(image: &Image) -> Vec<u8> {
    for _ in 0..10 {
        match image.read(0, SIZE).await {
            Err(Error::TimedOut { .. }) => {}
            read => return read.expect("a read").to_vec(),
        }
    }
    panic!("reads are not answered");
}
