import org.apache.hadoop.fs.s3a.S3AFileSystem;

/** Uses the gateway through Hadoop's S3A: files and folders, and jobs whose output its committers commit. */
final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            Jobs.beKilled(args[0], args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]));
            return;
        }
        Report report = new Report();
        try (S3AFileSystem fs = Settings.fileSystem()) {
            Settings.client(fs).createBucket(request -> request.bucket(Settings.BUCKET));
            new Files(fs).run(report);
            for (String committer : new String[] {"magic", "directory"}) {
                new Jobs(fs, committer).run(report);
            }
            report.part("nothing is left", () -> {
                Report.same(Settings.uploads(fs), "[]", "uploads");
                return "no uploads";
            });
        }
        report.exit();
    }
}
