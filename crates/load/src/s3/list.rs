//! Pages of lists, as `ListObjectsV2` answers them.
//!
//! Names of a load's objects take no escaping, so they are read as they stand; one that does take some is none of them.

use crate::objects::ListedPage;

/// The text of the first element of this name, and what follows it.
fn element<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (_, behind) = text.split_once(&format!("<{name}>"))?;
    behind.split_once(&format!("</{name}>"))
}

/// The code of an error's document.
pub fn code_of(document: &str) -> Option<&str> {
    element(document, "Code").map(|(code, _)| code)
}

/// The page that a document is; `None` if it is none.
pub fn page_of(document: &str) -> Option<ListedPage> {
    let (_, list) = document.split_once("<ListBucketResult")?;
    let (more, _) = element(list, "IsTruncated")?;
    let mut objects = Vec::new();
    let mut rest = list;
    while let Some((entry, behind)) = element(rest, "Contents") {
        let ((key, _), (size, _)) = (element(entry, "Key")?, element(entry, "Size")?);
        objects.push((key.to_owned(), size.parse().ok()?));
        rest = behind;
    }
    Some(ListedPage { objects, more: more == "true" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let document = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Name>b</Name><Prefix>p.</Prefix><IsTruncated>true</IsTruncated>\
             <Contents><Key>p.1</Key><Size>4096</Size><ETag>&quot;e&quot;</ETag></Contents>\
             <Contents><ETag>e</ETag><Size>0</Size><Key>p.2</Key></Contents></ListBucketResult>";
        let objects = vec![("p.1".into(), 4096), ("p.2".into(), 0)];
        assert_eq!(page_of(document), Some(ListedPage { objects, more: true }));
        let last = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        assert_eq!(page_of(last), Some(ListedPage { objects: Vec::new(), more: false }));
        for wrong in ["", "<Error><Code>NoSuchBucket</Code></Error>", "<ListBucketResult></ListBucketResult>"] {
            assert_eq!(page_of(wrong), None);
        }
        assert_eq!(code_of("<Error><Code>NoSuchBucket</Code></Error>"), Some("NoSuchBucket"));
        assert_eq!(page_of(&document.replace("4096", "many")), None);
        assert_eq!(page_of(&document.replace("<Key>p.2</Key>", "")), None);
    }
}
