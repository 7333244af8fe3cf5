import java.util.ArrayList;
import java.util.List;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.BucketVersioningStatus;
import software.amazon.awssdk.services.s3.model.DeleteObjectsResponse;
import software.amazon.awssdk.services.s3.model.ListObjectVersionsResponse;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;

/** Lists in pages, of objects and of versions, and deletes of many at once. */
final class Lists {
    private static final int KEYS = 230;

    private final Desk desk;

    Lists(Desk desk) {
        this.desk = desk;
    }

    void run(Report report) {
        report.part("pages", this::pages);
        report.part("versions", this::versions);
    }

    private static String key(int number) {
        return String.format("list/%d/a b+c=%%20é&%04d", number % 7, number);
    }

    private String pages() throws Exception {
        var puts = java.util.stream.IntStream.range(0, KEYS).mapToObj(i -> desk.async.putObject(put -> put
            .bucket(Desk.BUCKET).key(key(i)), AsyncRequestBody.fromString(key(i)))).toList();
        for (var put : puts) {
            Desk.answerOf(put);
        }
        List<String> found = new ArrayList<>();
        int pages = 0;
        for (ListObjectsV2Response page : desk.sync.listObjectsV2Paginator(list -> list.bucket(Desk.BUCKET)
                .prefix("list/").maxKeys(50))) {
            page.contents().forEach(object -> found.add(object.key()));
            pages++;
        }
        List<String> expected = java.util.stream.IntStream.range(0, KEYS).mapToObj(Lists::key).sorted().toList();
        Report.same(found, expected, "keys");
        Report.same(pages, 5, "pages");
        Report.same(desk.sync.listObjectsV2(list -> list.bucket(Desk.BUCKET).prefix("list/").delimiter("/"))
            .commonPrefixes().size(), 7, "folders");
        Report.same(desk.sync.listObjects(list -> list.bucket(Desk.BUCKET).prefix("list/").marker(expected.get(99)))
            .contents().get(0).key(), expected.get(100), "the key behind a marker of version 1");
        List<ObjectIdentifier> all = found.stream().map(key -> ObjectIdentifier.builder().key(key).build()).toList();
        DeleteObjectsResponse deleted = desk.sync.deleteObjects(delete -> delete.bucket(Desk.BUCKET)
            .delete(what -> what.objects(all)));
        Report.same(deleted.deleted().size(), KEYS, "keys that are deleted");
        Report.check(!deleted.hasErrors(), "errors: " + deleted.errors());
        return KEYS + " keys in " + pages + " pages, 7 folders, all deleted at once";
    }

    private String versions() throws Exception {
        String bucket = Desk.BUCKET + "-versions";
        desk.sync.createBucket(create -> create.bucket(bucket));
        desk.sync.putBucketVersioning(put -> put.bucket(bucket)
            .versioningConfiguration(set -> set.status(BucketVersioningStatus.ENABLED)));
        List<String> ids = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            String key = "key " + i % 3, text = "" + i;
            ids.add(desk.sync.putObject(put -> put.bucket(bucket).key(key), RequestBody.fromString(text))
                .versionId());
        }
        desk.sync.deleteObject(delete -> delete.bucket(bucket).key("key 1"));
        Report.same(desk.sync.getObjectAsBytes(get -> get.bucket(bucket).key("key 1").versionId(ids.get(4)))
            .asUtf8String(), "4", "an older version");
        List<String> found = new ArrayList<>();
        int markers = 0;
        for (ListObjectVersionsResponse page : desk.sync.listObjectVersionsPaginator(list -> list.bucket(bucket)
                .maxKeys(5))) {
            page.versions().forEach(version -> found.add(version.versionId()));
            markers += page.deleteMarkers().size();
            page.versions().forEach(version -> desk.sync.deleteObject(delete -> delete.bucket(bucket)
                .key(version.key()).versionId(version.versionId())));
            page.deleteMarkers().forEach(marker -> desk.sync.deleteObject(delete -> delete.bucket(bucket)
                .key(marker.key()).versionId(marker.versionId())));
        }
        Report.same(found.stream().sorted().toList(), ids.stream().sorted().toList(), "versions");
        Report.same(markers, 1, "markers");
        Report.check(!desk.sync.listObjectVersions(list -> list.bucket(bucket)).hasVersions(), "a version is left");
        return "12 versions and a marker in pages of 5, deleted while they are listed";
    }
}
