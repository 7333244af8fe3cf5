import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.AccessDeniedException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.PartHandle;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.UploadHandle;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.services.s3.model.S3Exception;

/** Hadoop's calls on files and folders. */
final class Files {
    static final int TREE_FILES = 300;
    static final int TREE_FOLDERS = 15;
    static final int LARGE_BYTES = 64 << 20;

    private final S3AFileSystem fs;

    Files(S3AFileSystem fs) {
        this.fs = fs;
    }

    void run(Report report) {
        report.part("tree of files", this::tree);
        report.part("deletes", this::deletes);
        report.part("large files", this::large);
        report.part("reads in random places", this::reads);
        report.part("checksums of S3A", this::checksums);
        report.part("keys of customers", this::encryption);
        report.part("creation under a condition", this::conditions);
        report.part("uploads by hand", this::uploads);
        report.part("refusals", this::refusals);
    }

    private static Path path(String name) {
        return new Path(Settings.ROOT, name);
    }

    static void write(S3AFileSystem fs, Path path, byte[] bytes) throws IOException {
        try (FSDataOutputStream out = fs.create(path, true)) {
            out.write(bytes);
        }
    }

    static byte[] read(S3AFileSystem fs, Path path) throws IOException {
        try (FSDataInputStream in = fs.open(path)) {
            return in.readAllBytes();
        }
    }

    /** The bytes of a file of the tree: none, or up to 20 kB. */
    private static byte[] leaf(int file) {
        return Report.noise(file % 9 == 0 ? 0 : file * 37 % 20_000, file);
    }

    /** The path of a file below the folder of the tree, with what is seldom in names. */
    private static String leafName(int file) {
        return "folder " + file % TREE_FOLDERS + "/below+é/file=" + file + "%20&#.txt";
    }

    private void together(int count, IntWork work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        try {
            List<Future<Void>> all = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                int number = i;
                all.add(pool.submit(() -> {
                    work.run(number);
                    return null;
                }));
            }
            for (Future<Void> one : all) {
                one.get();
            }
        } finally {
            pool.shutdown();
        }
    }

    interface IntWork {
        void run(int number) throws Exception;
    }

    private String tree() throws Exception {
        Path before = path("tree"), after = path("moved/tree");
        together(TREE_FILES, file -> write(fs, new Path(before, leafName(file)), leaf(file)));
        Map<String, Long> expected = new TreeMap<>();
        for (int file = 0; file < TREE_FILES; file++) {
            expected.put(leafName(file), (long) leaf(file).length);
        }
        Report.same(listed(before), expected, "the list of the tree");
        Report.same(fs.listStatus(before).length, TREE_FOLDERS, "folders");
        Report.same(fs.getContentSummary(before).getFileCount(), (long) TREE_FILES, "files of the summary");
        Report.same(fs.globStatus(new Path(before, "folder 1*/*/file=1*")).length, globbed(), "files of the pattern");
        fs.mkdirs(after.getParent());
        Report.check(fs.rename(before, after), "the tree is not renamed");
        Report.check(!fs.exists(before), "the former tree is there");
        Report.same(listed(after), expected, "the list of the tree that was moved");
        together(TREE_FILES, file -> Report.sameBytes(read(fs, new Path(after, leafName(file))), leaf(file),
            leafName(file)));
        fs.mkdirs(path("empty/folder"));
        Report.check(fs.getFileStatus(path("empty/folder")).isDirectory(), "an empty folder is none");
        Report.check(fs.rename(path("empty"), path("empty 2")), "an empty folder is not renamed");
        Report.check(fs.getFileStatus(path("empty 2/folder")).isDirectory(), "an empty folder is lost");
        return TREE_FILES + " files in " + TREE_FOLDERS + " folders written, listed, renamed and read";
    }

    private int globbed() {
        int count = 0;
        for (int file = 0; file < TREE_FILES; file++) {
            count += leafName(file).matches("folder 1.*/file=1.*") ? 1 : 0;
        }
        return count;
    }

    /** Names below a folder and their sizes. */
    private Map<String, Long> listed(Path folder) throws IOException {
        Map<String, Long> found = new TreeMap<>();
        int prefix = folder.toUri().getPath().length() + 1;
        RemoteIterator<LocatedFileStatus> files = fs.listFiles(folder, true);
        while (files.hasNext()) {
            LocatedFileStatus file = files.next();
            found.put(file.getPath().toUri().getPath().substring(prefix), file.getLen());
        }
        return found;
    }

    private String deletes() throws Exception {
        Path folder = path("moved/tree");
        List<Path> some = new ArrayList<>();
        for (int file = 0; file < 60; file++) {
            some.add(new Path(folder, leafName(file)));
        }
        some.add(new Path(folder, "never there"));
        try (BulkDelete bulk = fs.createBulkDelete(folder)) {
            Report.same(bulk.bulkDelete(some), List.of(), "files that a bulk delete left");
        }
        Report.same(listed(folder).size(), TREE_FILES - 60, "files beside those deleted");
        IOException full = Report.refused(IOException.class, () -> "" + fs.delete(path("moved"), false));
        Report.check(fs.delete(path("moved"), true), "the tree is not deleted");
        Report.check(!fs.exists(folder) && listedKeys("moved").isEmpty(), "something of the tree is left");
        Report.check(!fs.delete(path("moved"), true), "a folder that is not there is deleted");
        return "60 of " + TREE_FILES + " files at once, then the folder; not one that is full: " + full.getMessage();
    }

    /** What S3 lists below a prefix, markers of folders among it. */
    private List<String> listedKeys(String prefix) {
        return Settings.client(fs).listObjectsV2Paginator(list -> list.bucket(Settings.BUCKET).prefix(prefix))
            .contents().stream().map(object -> object.key()).toList();
    }

    private String large() throws Exception {
        byte[] bytes = Report.noise(LARGE_BYTES, 64);
        Path file = path("large/a"), renamed = path("large/b");
        try (FSDataOutputStream out = fs.create(file, true)) {
            for (int at = 0; at < LARGE_BYTES; at += 1_000_003) {
                out.write(bytes, at, Math.min(1_000_003, LARGE_BYTES - at));
                Report.check(!fs.exists(file), "a file is seen before it is closed");
            }
        }
        Report.same(fs.getFileStatus(file).getLen(), (long) LARGE_BYTES, "its length");
        Report.sameBytes(read(fs, file), bytes, "a large file");
        Report.same(partsOf("large/a"), (LARGE_BYTES + Settings.PART_BYTES - 1) / Settings.PART_BYTES, "its parts");
        Report.check(fs.rename(file, renamed), "a large file is not renamed");
        Report.sameBytes(read(fs, renamed), bytes, "a large file that was renamed");
        byte[] small = Report.noise(12_345, 1);
        write(fs, renamed, small);
        Report.sameBytes(read(fs, renamed), small, "a small file in the place of a large one");
        Report.same(Settings.uploads(fs), "[]", "uploads");
        return (LARGE_BYTES >> 20) + " MiB in parts of 5 MiB written, read, renamed, replaced";
    }

    private int partsOf(String key) {
        return Settings.client(fs).headObject(head -> head.bucket(Settings.BUCKET).key(key).partNumber(1))
            .partsCount();
    }

    private String reads() throws Exception {
        byte[] bytes = Report.noise(20 << 20, 20);
        Path file = path("reads");
        int vectors = 0;
        for (String stream : List.of("classic", "analytics", "prefetch")) {
            try (S3AFileSystem own = Settings.fileSystem("fs.s3a.input.stream.type", stream)) {
                write(own, file, bytes);
                for (String policy : List.of("random", "vector", "sequential", "adaptive", "whole-file", "parquet")) {
                    vectors += reads(own, file, bytes, policy);
                }
                changeAmidReads(own, file, bytes, stream);
            }
        }
        return "3 kinds of streams, 6 policies with 20 reads each, " + vectors + " ranges in vectors; changes are seen";
    }

    private int reads(S3AFileSystem own, Path file, byte[] bytes, String policy) throws Exception {
        Random random = new Random(3);
        FileStatus status = own.getFileStatus(file);
        try (FSDataInputStream in = own.openFile(file).withFileStatus(status)
                .opt("fs.option.openfile.read.policy", policy).build().get()) {
            for (int i = 0; i < 20; i++) {
                int at = random.nextInt(bytes.length), count = random.nextInt(200_000);
                count = Math.min(count, bytes.length - at);
                byte[] some = new byte[count];
                in.readFully(at, some);
                Report.sameBytes(some, Arrays.copyOfRange(bytes, at, at + count), policy + " at " + at);
            }
            int vectors = vector(in, bytes, random, policy);
            in.seek(bytes.length - 1);
            Report.same(in.read(), bytes[bytes.length - 1] & 0xff, "the last byte");
            Report.same(in.read(), -1, "the end");
            return vectors;
        }
    }

    /** Hadoop reads by If-Match: it tells that a file has become another one, or has read ahead, and mixes no bytes. */
    private void changeAmidReads(S3AFileSystem own, Path file, byte[] before, String stream) throws Exception {
        int at = 15 << 20;
        try (FSDataInputStream in = own.open(file)) {
            in.read();
            write(own, file, Report.noise(before.length, 21));
            in.seek(at);
            Report.same(in.read(), before[at] & 0xff, stream + ": a byte of what was opened");
            Report.check(!stream.equals("classic"), "a stream that does not read ahead has what is gone");
        } catch (IOException refusal) {
            // The streams tell it by different errors. The gateway's is below each of them.
            Throwable error = refusal;
            while (error != null && !(error instanceof S3Exception || error instanceof RemoteFileChangedException)) {
                error = error.getCause();
            }
            Report.check(error instanceof RemoteFileChangedException
                || error instanceof S3Exception answer && answer.statusCode() == 412, stream + ": " + refusal);
        }
    }

    private int vector(FSDataInputStream in, byte[] bytes, Random random, String policy) throws Exception {
        List<FileRange> ranges = new ArrayList<>();
        int at = random.nextInt(1_000_000);
        while (at < bytes.length - 100_000) {
            int count = 1 + random.nextInt(100_000);
            ranges.add(FileRange.createFileRange(at, count));
            // Some ranges adjoin or are so close that S3A reads them together.
            at += count + (random.nextInt(3) == 0 ? 0 : random.nextInt(2_000_000));
        }
        in.readVectored(ranges, ByteBuffer::allocate);
        for (FileRange range : ranges) {
            ByteBuffer data = range.getData().get();
            byte[] some = new byte[data.remaining()];
            data.get(some);
            int begin = (int) range.getOffset();
            Report.sameBytes(some, Arrays.copyOfRange(bytes, begin, begin + range.getLength()), policy + " of vectors");
        }
        return ranges.size();
    }

    /** S3A with the SDK's checksums, which it leaves out by default. */
    private String checksums() throws Exception {
        List<String> done = new ArrayList<>();
        byte[] bytes = Report.noise(17_000_000, 5);
        for (String algorithm : List.of("CRC32", "CRC32C", "SHA1", "SHA256")) {
            try (S3AFileSystem own = Settings.fileSystem("fs.s3a.create.checksum.algorithm", algorithm,
                    "fs.s3a.checksum.generation", "true", "fs.s3a.checksum.validation", "true")) {
                Path file = path("checksums/" + algorithm);
                write(own, file, bytes);
                write(own, file.suffix(".small"), new byte[] {1, 2, 3});
                Report.sameBytes(read(own, file), bytes, algorithm);
                Report.check(own.rename(file, file.suffix(".copy")), algorithm + ": not renamed");
                Report.sameBytes(read(own, file.suffix(".copy")), bytes, algorithm + ", a copy");
                Report.sameBytes(read(own, file.suffix(".small")), new byte[] {1, 2, 3}, algorithm + ", a small one");
                Report.check(own.delete(path("checksums"), true), algorithm + ": not deleted");
            }
            done.add(algorithm);
        }
        return String.join(", ", done);
    }

    private String encryption() throws Exception {
        byte[] bytes = Report.noise(16 << 20, 7);
        Path file = path("secret");
        String key = java.util.Base64.getEncoder().encodeToString(Report.noise(32, 8));
        byte[] small = Report.noise(Settings.PART_BYTES - 1, 9);
        // S3A brings the key at the end of an upload only where it has checksums.
        try (S3AFileSystem own = Settings.fileSystem("fs.s3a.encryption.algorithm", "SSE-C",
                "fs.s3a.encryption.key", key)) {
            write(own, path("small secret"), small);
            Report.sameBytes(read(own, path("small secret")), small, "a small file by SSE-C");
            write(own, path("parts without checksums"), bytes);
            Report.sameBytes(read(own, path("parts without checksums")), bytes, "parts by SSE-C without checksums");
        }
        try (S3AFileSystem own = Settings.fileSystem("fs.s3a.encryption.algorithm", "SSE-C",
                "fs.s3a.encryption.key", key, "fs.s3a.create.checksum.algorithm", "CRC32C")) {
            write(own, file, bytes);
            Report.check(own.rename(file, path("secret 2")), "not renamed");
            Report.sameBytes(read(own, path("secret 2")), bytes, "what a customer's key has sealed");
        }
        Report.refused(IOException.class, () -> "" + read(fs, path("secret 2")).length);
        try (S3AFileSystem own = Settings.fileSystem("fs.s3a.encryption.algorithm", "AES256")) {
            write(own, file, bytes);
        }
        Report.sameBytes(read(fs, file), bytes, "what the master key has sealed");
        return "5 MiB and, in parts with and without checksums, 16 MiB by SSE-C, renamed, not read without the key; "
                + "by SSE-S3";
    }

    private String conditions() throws Exception {
        Path file = path("conditions");
        byte[] first = Report.noise(100, 1), second = Report.noise(16 << 20, 2);
        create(file, "fs.option.create.conditional.overwrite", "true", first);
        IOException small = Report.refused(IOException.class, () -> create(file,
            "fs.option.create.conditional.overwrite", "true", Report.noise(10, 3)));
        // A large one is refused when its upload is completed.
        Report.refused(IOException.class, () -> create(file, "fs.option.create.conditional.overwrite", "true", second));
        Report.sameBytes(read(fs, file), first, "what was there first");
        String etag = ((org.apache.hadoop.fs.EtagSource) fs.getFileStatus(file)).getEtag();
        create(file, "fs.option.create.conditional.overwrite.etag", etag, second);
        Report.sameBytes(read(fs, file), second, "what replaces it by its ETag");
        Report.refused(IOException.class, () -> create(file, "fs.option.create.conditional.overwrite.etag", etag,
            first));
        Report.sameBytes(read(fs, file), second, "what an older ETag does not replace");
        Report.refused(FileAlreadyExistsException.class, () -> {
            fs.create(file, false).close();
            return "created";
        });
        Report.same(Settings.uploads(fs), "[]", "uploads");
        return "by absence and by ETag, small and in parts; " + small.getClass().getSimpleName();
    }

    private String create(Path file, String option, String value, byte[] bytes) throws Exception {
        FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(file).overwrite(true);
        builder.must(option, value);
        try (FSDataOutputStream out = builder.build()) {
            out.write(bytes);
        }
        return "created";
    }

    private String uploads() throws Exception {
        byte[] bytes = Report.noise(2 * Settings.PART_BYTES + 1000, 9);
        Path file = path("by hand/a");
        try (MultipartUploader uploader = fs.createMultipartUploader(file.getParent()).build()) {
            UploadHandle upload = uploader.startUpload(file).get();
            Map<Integer, PartHandle> parts = new HashMap<>();
            for (int part : new int[] {3, 1, 2}) {
                int at = (part - 1) * Settings.PART_BYTES, end = Math.min(at + Settings.PART_BYTES, bytes.length);
                ByteArrayInputStream in = new ByteArrayInputStream(bytes, at, end - at);
                parts.put(part, uploader.putPart(upload, part, part == 3, file, in, end - at).get());
            }
            uploader.complete(upload, file, parts).get();
            Report.sameBytes(read(fs, file), bytes, "parts sent in disorder");
            UploadHandle aborted = uploader.startUpload(file).get();
            uploader.putPart(aborted, 1, true, file, new ByteArrayInputStream(new byte[10]), 10).get();
            uploader.abort(aborted, file).get();
            for (int i = 0; i < 3; i++) {
                uploader.startUpload(path("by hand/left " + i)).get();
            }
            Report.same(Settings.count(fs.listUploads("by hand/")), 3, "uploads that are left");
            Report.same(uploader.abortUploadsUnderPath(path("by hand")).get(), 3, "uploads that are aborted");
        }
        Report.same(Settings.uploads(fs), "[]", "uploads");
        Report.sameBytes(read(fs, file), bytes, "a file after an upload to it was aborted");
        return "parts in disorder, an abort, three aborted below a folder";
    }

    private String refusals() throws Exception {
        Path file = path("refusals");
        write(fs, file, new byte[] {1});
        Report.refused(UnsupportedOperationException.class, () -> "" + fs.append(file));
        Report.sameBytes(read(fs, file), new byte[] {1}, "what was not appended to");
        Report.refused(FileNotFoundException.class, () -> "" + fs.open(path("not there")).read());
        Report.refused(FileNotFoundException.class, () -> "" + fs.listStatus(path("not there")).length);
        Report.refused(IOException.class, () -> "" + fs.mkdirs(new Path(file, "below a file")));
        try (S3AFileSystem other = Settings.fileSystem("fs.s3a.secret.key", "another")) {
            Report.refused(AccessDeniedException.class, () -> "" + other.getFileStatus(file));
        }
        try (S3AFileSystem other = Settings.fileSystem("fs.s3a.bucket.probe", "2")) {
            // AWS, too, has an empty name for the first region.
            Report.same(other.getS3AInternals().getBucketLocation(), "", "where the bucket lies");
        }
        return "appends, absent files, a wrong secret";
    }
}
