import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.ChecksumMode;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.transfer.s3.S3TransferManager;
import software.amazon.awssdk.transfer.s3.model.FileDownload;
import software.amazon.awssdk.transfer.s3.model.ResumableFileDownload;

/** The transfer manager, with each of the asynchronous clients below it. */
final class Transfers {
    private static final int LARGE_BYTES = 40_000_000;

    private final Desk desk;
    private final Path folder = Path.of(Report.environment("SDK_FOLDER"));

    Transfers(Desk desk) {
        this.desk = desk;
    }

    void run(Report report) {
        for (Map.Entry<String, S3AsyncClient> one : new TreeMap<>(Map.of("common runtime", desk.crt, "java",
                desk.async)).entrySet()) {
            report.part("transfers by the client in " + one.getKey(), () -> transfers(one.getKey(), one.getValue()));
            report.part("folders by the client in " + one.getKey(), () -> folders(one.getKey(), one.getValue()));
        }
    }

    private String transfers(String name, S3AsyncClient client) throws Exception {
        byte[] bytes = Report.noise(LARGE_BYTES, 1);
        Path source = folder.resolve(name + " source"), target = folder.resolve(name + " target");
        Files.write(source, bytes);
        ExecutorService pool = Executors.newSingleThreadExecutor();
        try (S3TransferManager manager = S3TransferManager.builder().s3Client(client).build()) {
            for (ChecksumAlgorithm algorithm : List.of(ChecksumAlgorithm.CRC32, ChecksumAlgorithm.CRC64_NVME,
                    ChecksumAlgorithm.SHA256)) {
                String key = name + "/large by " + algorithm;
                Desk.answerOf(manager.uploadFile(upload -> upload.source(source).putObjectRequest(put -> put
                    .bucket(Desk.BUCKET).key(key).checksumAlgorithm(algorithm))).completionFuture());
                HeadObjectResponse head = desk.sync.headObject(request -> request.bucket(Desk.BUCKET).key(key)
                    .checksumMode(ChecksumMode.ENABLED).partNumber(1));
                Report.check(head.partsCount() != null && head.partsCount() > 1, key + " has not several parts");
                Files.deleteIfExists(target);
                Desk.answerOf(manager.downloadFile(download -> download.destination(target).getObjectRequest(get -> get
                    .bucket(Desk.BUCKET).key(key))).completionFuture());
                Report.sameBytes(Files.readAllBytes(target), bytes, key);
            }
            String streamed = name + "/streamed", copied = name + "/copied";
            Desk.answerOf(manager.upload(upload -> upload.putObjectRequest(put -> put.bucket(Desk.BUCKET).key(streamed))
                .requestBody(AsyncRequestBody.fromInputStream(settings -> settings.inputStream(
                new java.io.ByteArrayInputStream(bytes)).executor(pool)))).completionFuture());
            Report.sameBytes(desk.get(streamed), bytes, "a stream");
            Desk.answerOf(manager.copy(copy -> copy.copyObjectRequest(request -> request.sourceBucket(Desk.BUCKET)
                .sourceKey(streamed).destinationBucket(Desk.BUCKET).destinationKey(copied))).completionFuture());
            Report.sameBytes(desk.get(copied), bytes, "a copy");
            FileDownload begun = manager.downloadFile(download -> download.destination(target)
                .getObjectRequest(get -> get.bucket(Desk.BUCKET).key(copied)));
            ResumableFileDownload paused = begun.pause();
            Desk.answerOf(manager.resumeDownloadFile(paused).completionFuture());
            Report.sameBytes(Files.readAllBytes(target), bytes, "a download that was paused");
        } finally {
            pool.shutdown();
        }
        return LARGE_BYTES + " bytes by CRC32, CRC64NVME and SHA-256, a stream, a copy, a download that was paused";
    }

    private String folders(String name, S3AsyncClient client) throws Exception {
        Path source = folder.resolve(name + " files"), target = folder.resolve(name + " files again");
        for (int i = 0; i < 50; i++) {
            Path file = source.resolve("folder " + i % 5 + "/file+" + i);
            Files.createDirectories(file.getParent());
            Files.write(file, Report.noise(i * 1000, i));
        }
        try (S3TransferManager manager = S3TransferManager.builder().s3Client(client).build()) {
            var sent = Desk.answerOf(manager.uploadDirectory(upload -> upload.source(source).bucket(Desk.BUCKET)
                .s3Prefix(name + " files")).completionFuture());
            Report.same(sent.failedTransfers(), List.of(), "files that were not sent");
            var read = Desk.answerOf(manager.downloadDirectory(download -> download.destination(target)
                .bucket(Desk.BUCKET)
                .listObjectsV2RequestTransformer(list -> list.prefix(name + " files/").maxKeys(20)))
                .completionFuture());
            Report.same(read.failedTransfers(), List.of(), "files that were not read");
        }
        for (int i = 0; i < 50; i++) {
            byte[] found = Files.readAllBytes(target.resolve("folder " + i % 5 + "/file+" + i));
            Report.sameBytes(found, Report.noise(i * 1000, i), "file " + i);
        }
        return "50 files in 5 folders sent and read";
    }
}
