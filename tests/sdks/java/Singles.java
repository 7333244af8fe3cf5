import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.ContentStreamProvider;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.ChecksumMode;
import software.amazon.awssdk.services.s3.model.GetObjectAttributesResponse;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.NoSuchBucketException;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.ObjectAttributes;
import software.amazon.awssdk.services.s3.model.PutObjectResponse;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.presigner.model.PresignedGetObjectRequest;
import software.amazon.awssdk.services.s3.presigner.model.PresignedPutObjectRequest;

/** Single objects: checksums, conditions, ranges, addresses that are signed, and errors. */
final class Singles {
    private final Desk desk;

    Singles(Desk desk) {
        this.desk = desk;
    }

    void run(Report report) {
        report.part("checksums", this::checksums);
        report.part("streams", this::streams);
        report.part("asynchronous puts and reads", () -> together(desk.async));
        report.part("puts and reads by the common runtime", () -> together(desk.crt));
        report.part("checksums of reads by the common runtime", this::runtimeChecksums);
        report.part("conditions", this::conditions);
        report.part("ranges, metadata, tags and copies", this::details);
        report.part("addresses that are signed", this::presigned);
        report.part("refusals", this::refusals);
    }

    private String checksums() throws Exception {
        byte[] bytes = Report.noise(300_000, 1);
        PutObjectResponse first = desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key("by default"),
            RequestBody.fromBytes(bytes));
        Report.check(first.checksumCRC32() != null, "the answer to a put has no CRC32: " + first);
        String read = desk.sync.getObjectAsBytes(get -> get.bucket(Desk.BUCKET).key("by default")
            .checksumMode(ChecksumMode.ENABLED)).response().checksumCRC32();
        Report.same(read, first.checksumCRC32(), "CRC32 of a read");
        for (ChecksumAlgorithm algorithm : List.of(ChecksumAlgorithm.CRC32, ChecksumAlgorithm.CRC32_C,
                ChecksumAlgorithm.SHA1, ChecksumAlgorithm.SHA256, ChecksumAlgorithm.CRC64_NVME)) {
            String key = "by " + algorithm;
            desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key(key).checksumAlgorithm(algorithm),
                RequestBody.fromBytes(bytes));
            Report.sameBytes(desk.get(key), bytes, key);
        }
        HeadObjectResponse head = desk.sync.headObject(request -> request.bucket(Desk.BUCKET).key("by SHA256")
            .checksumMode(ChecksumMode.ENABLED));
        byte[] digest = java.security.MessageDigest.getInstance("SHA-256").digest(bytes);
        Report.same(head.checksumSHA256(), Base64.getEncoder().encodeToString(digest), "SHA-256 of a head");
        GetObjectAttributesResponse told = desk.sync.getObjectAttributes(request -> request.bucket(Desk.BUCKET)
            .key("by CRC64NVME").objectAttributes(ObjectAttributes.CHECKSUM, ObjectAttributes.OBJECT_SIZE));
        Report.check(told.checksum().checksumCRC64NVME() != null && told.objectSize() == bytes.length,
            "attributes: " + told);
        S3Exception wrong = Report.refused(S3Exception.class, () -> "" + desk.sync.putObject(put -> put
            .bucket(Desk.BUCKET).key("wrong").checksumCRC32("AAAAAA=="), RequestBody.fromBytes(bytes)));
        Report.same(wrong.awsErrorDetails().errorCode(), "BadDigest", "the code of a wrong checksum");
        Report.refused(NoSuchKeyException.class, () -> "" + desk.get("wrong").length);
        return "CRC32 by default, CRC32C, SHA-1, SHA-256, CRC64NVME; a wrong one refused, nothing stored";
    }

    /** A stream's checksum comes behind it, in a trailer. */
    private String streams() throws Exception {
        byte[] bytes = Report.noise(3_000_000, 2);
        ContentStreamProvider again = ContentStreamProvider.fromInputStreamSupplier(
            () -> new ByteArrayInputStream(bytes));
        desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key("streamed"),
            RequestBody.fromContentProvider(again, bytes.length, "a/b"));
        Report.sameBytes(desk.get("streamed"), bytes, "a stream");
        desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key("streamed 2"),
            RequestBody.fromContentProvider(again, "a/b"));
        Report.sameBytes(desk.get("streamed 2"), bytes, "a stream of a length that is not told");
        desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key("empty"), RequestBody.empty());
        Report.sameBytes(desk.get("empty"), new byte[0], "an empty object");
        return "with and without a length; an empty object";
    }

    private String together(S3AsyncClient client) throws Exception {
        var puts = java.util.stream.IntStream.range(0, 60).mapToObj(i -> client.putObject(put -> put
            .bucket(Desk.BUCKET).key("together/" + i), AsyncRequestBody.fromBytes(Report.noise(i * 3001, i)))).toList();
        for (var put : puts) {
            Desk.answerOf(put);
        }
        var gets = java.util.stream.IntStream.range(0, 60).mapToObj(i -> client.getObject(get -> get
            .bucket(Desk.BUCKET).key("together/" + i), AsyncResponseTransformer.toBytes())).toList();
        for (int i = 0; i < 60; i++) {
            Report.sameBytes(Desk.answerOf(gets.get(i)).asByteArray(), Report.noise(i * 3001, i), "object " + i);
        }
        ExecutionException absent = Report.refused(ExecutionException.class, () -> "" + Desk.answerOf(client.getObject(
            get -> get.bucket(Desk.BUCKET).key("not there"), AsyncResponseTransformer.toBytes())));
        // The common runtime asks for the head first, whose answer has no body, and so no code.
        Report.check(absent.getCause() instanceof S3Exception error && error.statusCode() == 404
            && (client == desk.crt || error instanceof NoSuchKeyException), "an absent key: " + absent.getCause());
        return "60 at once, written and read";
    }

    /** The common runtime asks for checksums by {@code enabled}, where others write {@code ENABLED}. */
    private String runtimeChecksums() throws Exception {
        var head = desk.crt.headObject(request -> request.bucket(Desk.BUCKET).key("by default")
            .checksumMode("enabled"));
        Report.check(Desk.answerOf(head).checksumCRC32() != null, "a head has no CRC32");
        return "told for 'enabled', too";
    }

    private String conditions() throws Exception {
        String key = "conditions";
        String etag = desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key(key).ifNoneMatch("*"),
            RequestBody.fromString("first")).eTag();
        S3Exception second = Report.refused(S3Exception.class, () -> "" + desk.sync.putObject(put -> put
            .bucket(Desk.BUCKET).key(key).ifNoneMatch("*"), RequestBody.fromString("second")));
        Report.same(second.statusCode(), 412, "the status of a second put");
        desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key(key).ifMatch(etag), RequestBody.fromString("third"));
        Report.refused(S3Exception.class, () -> "" + desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key(key)
            .ifMatch(etag), RequestBody.fromString("fourth")));
        S3Exception other = Report.refused(S3Exception.class, () -> "" + desk.sync.getObjectAsBytes(get -> get
            .bucket(Desk.BUCKET).key(key).ifMatch(etag)));
        Report.same(other.statusCode(), 412, "the status of a read by an older ETag");
        String now = desk.answer(key).response().eTag();
        S3Exception known = Report.refused(S3Exception.class, () -> "" + desk.sync.getObjectAsBytes(get -> get
            .bucket(Desk.BUCKET).key(key).ifNoneMatch(now)));
        Report.same(known.statusCode(), 304, "the status of a read of what is known");
        Report.refused(S3Exception.class, () -> "" + desk.sync.deleteObject(delete -> delete.bucket(Desk.BUCKET)
            .key(key).ifMatch(etag)));
        Report.same(new String(desk.get(key)), "third", "the object");
        desk.sync.deleteObject(delete -> delete.bucket(Desk.BUCKET).key(key).ifMatch(now));
        Report.refused(NoSuchKeyException.class, () -> "" + desk.get(key).length);
        return "puts, reads and deletes by ETag and by absence";
    }

    private String details() throws Exception {
        byte[] bytes = Report.noise(100_000, 4);
        String key = "details/ä +%2F&?=\t.txt";
        desk.sync.putObject(put -> put.bucket(Desk.BUCKET).key(key).contentType("text/x").cacheControl("no-store")
            .metadata(Map.of("one", "1", "two-words", "a b")).tagging("a=b&c=d%20e"), RequestBody.fromBytes(bytes));
        var some = desk.sync.getObjectAsBytes(get -> get.bucket(Desk.BUCKET).key(key).range("bytes=100-199"));
        Report.sameBytes(some.asByteArray(), Arrays.copyOfRange(bytes, 100, 200), "a range");
        Report.same(some.response().contentRange(), "bytes 100-199/100000", "its place");
        Report.same(some.response().metadata(), Map.of("one", "1", "two-words", "a b"), "metadata");
        Report.same(desk.sync.getObjectTagging(get -> get.bucket(Desk.BUCKET).key(key)).tagSet().size(), 2, "tags");
        desk.sync.copyObject(copy -> copy.sourceBucket(Desk.BUCKET).sourceKey(key).destinationBucket(Desk.BUCKET)
            .destinationKey("details/copy"));
        var copied = desk.answer("details/copy");
        Report.sameBytes(copied.asByteArray(), bytes, "a copy");
        Report.same(copied.response().cacheControl(), "no-store", "a header of a copy");
        return "a key with what is seldom in names";
    }

    private String presigned() throws Exception {
        byte[] bytes = Report.noise(50_000, 5);
        PresignedPutObjectRequest put = desk.presigner.presignPutObject(sign -> sign
            .signatureDuration(Duration.ofMinutes(5)).putObjectRequest(request -> request.bucket(Desk.BUCKET)
            .key("signed & sent").contentType("a/b")));
        HttpClient http = HttpClient.newHttpClient();
        HttpRequest sent = HttpRequest.newBuilder(put.url().toURI()).header("Content-Type", "a/b")
            .PUT(HttpRequest.BodyPublishers.ofByteArray(bytes)).build();
        HttpResponse<String> answer = http.send(sent, HttpResponse.BodyHandlers.ofString());
        Report.same(answer.statusCode(), 200, "the status of a put: " + answer.body());
        PresignedGetObjectRequest get = desk.presigner.presignGetObject(sign -> sign
            .signatureDuration(Duration.ofMinutes(5)).getObjectRequest(request -> request.bucket(Desk.BUCKET)
            .key("signed & sent")));
        HttpResponse<byte[]> read = http.send(HttpRequest.newBuilder(get.url().toURI()).build(),
            HttpResponse.BodyHandlers.ofByteArray());
        Report.sameBytes(read.body(), bytes, "what was read");
        URI other = URI.create(get.url().toString().replace("sent", "bent"));
        int status = http.send(HttpRequest.newBuilder(other).build(), HttpResponse.BodyHandlers.ofString())
            .statusCode();
        Report.same(status, 403, "the status of another key");
        return "put and read, another key refused";
    }

    private String refusals() throws Exception {
        Report.refused(NoSuchBucketException.class, () -> "" + desk.sync.listObjectsV2(list -> list
            .bucket("no-such-bucket")));
        Report.refused(NoSuchKeyException.class, () -> "" + desk.sync.headObject(head -> head.bucket(Desk.BUCKET)
            .key("not there")));
        S3Exception full = Report.refused(S3Exception.class, () -> "" + desk.sync.deleteBucket(delete -> delete
            .bucket(Desk.BUCKET)));
        Report.same(full.awsErrorDetails().errorCode(), "BucketNotEmpty", "the code of a full bucket");
        Report.check(full.requestId() != null, "an error without a request's id");
        return "absent keys and buckets are told by types, a full bucket stays";
    }
}
