//! Block images as the target of a workload, through Nacre's own client: a group's objects are those of one image.

use bench::plan::Workload;
use bench::tool::Tool;
use bytes::Bytes;
use client::Pool;
use client::rbd::{self, Image, ImageOptions, Layout};
use tokio::sync::OnceCell;
use types::Errno;

use crate::objects::{Failure, ListedPage, Objects, SeenObject};
use crate::s3::Bucket;
use crate::task::Task;

/// An image that a group works on.
#[derive(Clone, Debug)]
pub struct ImageShape {
    pub name: String,
    pub size_bytes: u64,
    /// Size of an object of the image, a power of two.
    pub object_bytes: u64,
}

/// The images of a workload, one for each group; `None` if it works on objects.
pub fn shapes(task: &Task, workload: &Workload) -> Option<Vec<ImageShape>> {
    let shape = |group: &bench::plan::Group| ImageShape {
        name: [&task.prefix, ".", &group.name].concat(),
        size_bytes: group.objects.saturating_mul(group.object_bytes),
        object_bytes: group.object_bytes,
    };
    (workload.tool == Tool::NacreRbd).then(|| workload.groups.iter().map(shape).collect())
}

/// The target of an instance: objects of a pool or of a bucket, or an image, which is opened when it is first needed.
pub enum Target {
    Pool(Pool),
    Bucket(Bucket),
    Image { pool: Pool, shapes: Vec<ImageShape>, open: OnceCell<Opened> },
}

pub struct Opened {
    shape: ImageShape,
    image: Image,
}

impl Opened {
    /// Opens the image, and makes it if it does not exist.
    async fn new(pool: &Pool, shape: &ImageShape) -> Result<Opened, Failure> {
        let order = u8::try_from(shape.object_bytes.trailing_zeros()).expect("below 64");
        let options = ImageOptions { layout: Layout::plain(order), ..ImageOptions::default() };
        match rbd::create(pool, &shape.name, shape.size_bytes, &options).await {
            Ok(()) | Err(client::Error::Errno(Errno::EEXIST)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Opened { shape: shape.clone(), image: Image::open(pool, &shape.name).await? })
    }
}

/// The image and the offset in it that an object's name stands for.
fn place<'a>(name: &'a str, shapes: &'a [ImageShape]) -> Result<(&'a ImageShape, u64), Failure> {
    let found = name.rsplit_once('.').and_then(|(image, number)| {
        let shape = shapes.iter().find(|shape| shape.name == image)?;
        Some((shape, number.parse::<u64>().ok()?.checked_mul(shape.object_bytes)?))
    });
    found.ok_or_else(|| client::Error::Answer(format!("object {name} is of no image")).into())
}

impl Target {
    /// The image that holds an object, and the object's offset in it.
    async fn image(&self, name: &str) -> Result<(&Image, u64), Failure> {
        let Target::Image { pool, shapes, open } = self else { unreachable!("asked for with images only") };
        let (shape, start) = place(name, shapes)?;
        let opened = open.get_or_try_init(|| Opened::new(pool, shape)).await?;
        // An instance belongs to one group, which has one image.
        assert_eq!(opened.shape.name, shape.name, "an instance works on one image");
        Ok((&opened.image, start))
    }
}

impl Objects for Target {
    async fn write(&self, name: String, offset: u64, data: Bytes, whole: bool) -> Result<(), Failure> {
        match self {
            Target::Pool(pool) => return Objects::write(pool, name, offset, data, whole).await,
            Target::Bucket(bucket) => return bucket.write(name, offset, data, whole).await,
            Target::Image { .. } => {}
        }
        let (image, start) = self.image(&name).await?;
        Ok(image.write(start + offset, data).await?)
    }

    async fn read(&self, name: String, offset: u64, length: u64) -> Result<Bytes, Failure> {
        match self {
            Target::Pool(pool) => return Objects::read(pool, name, offset, length).await,
            Target::Bucket(bucket) => return bucket.read(name, offset, length).await,
            Target::Image { .. } => {}
        }
        let (image, start) = self.image(&name).await?;
        Ok(image.read(start + offset, length).await?.into_bytes())
    }

    async fn read_whole(&self, name: String, length: u64) -> Result<Bytes, Failure> {
        match self {
            Target::Bucket(bucket) => bucket.read_whole(name, length).await,
            Target::Pool(_) | Target::Image { .. } => self.read(name, 0, length).await,
        }
    }

    async fn head(&self, name: String) -> Result<SeenObject, Failure> {
        match self {
            Target::Bucket(bucket) => bucket.head(name).await,
            Target::Pool(pool) => Objects::head(pool, name).await,
            Target::Image { .. } => Err(client::Error::Answer(format!("{name} is in an image")).into()),
        }
    }

    async fn list(&self, prefix: String, after: String, max: u32) -> Result<ListedPage, Failure> {
        match self {
            Target::Bucket(bucket) => bucket.list(prefix, after, max).await,
            Target::Pool(pool) => Objects::list(pool, prefix, after, max).await,
            Target::Image { .. } => Err(client::Error::Answer(format!("{prefix} is in an image")).into()),
        }
    }

    fn only_whole_writes(&self) -> bool {
        matches!(self, Target::Bucket(_))
    }

    async fn remove(&self, name: String) -> Result<(), Failure> {
        match self {
            Target::Bucket(bucket) => bucket.remove(name).await,
            Target::Pool(pool) => Objects::remove(pool, name).await,
            // Objects of an image are removed with it.
            Target::Image { .. } => Ok(()),
        }
    }

    async fn finish(&self) -> Result<(), Failure> {
        let (pool, open) = match self {
            Target::Image { pool, open, .. } => (pool, open),
            Target::Bucket(bucket) => return bucket.finish().await,
            Target::Pool(_) => return Ok(()),
        };
        let Some(Opened { shape, image }) = open.get() else { return Ok(()) };
        image.clone().close().await?;
        match rbd::remove(pool, &shape.name).await {
            Ok(()) | Err(client::Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objects_name_is_a_place_in_an_image() {
        let shape = |name: &str| ImageShape { name: name.into(), size_bytes: 64 << 20, object_bytes: 4 << 20 };
        let shapes = [shape("run.w.0.readers"), shape("run.w.0.writers")];
        let found = place("run.w.0.writers.3", &shapes).expect("it is there");
        assert_eq!((found.0.name.as_str(), found.1), ("run.w.0.writers", 12 << 20));
        for wrong in ["run.w.0.others.3", "run.w.0.writers", "run.w.0.writers.x", "3"] {
            assert!(place(wrong, &shapes).is_err(), "{wrong}");
        }
    }
}
