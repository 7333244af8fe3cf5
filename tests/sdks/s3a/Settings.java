import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.services.s3.S3Client;

/** How Hadoop is told about the gateway: nothing but its endpoint, keys and sizes that a small test reaches. */
final class Settings {
    static final String BUCKET = Report.environment("SDK_BUCKET");
    static final Path ROOT = new Path("s3a://" + BUCKET + "/");
    /** The smallest part that S3 allows. */
    static final int PART_BYTES = 5 << 20;

    private Settings() {
    }

    static Configuration configuration() {
        Configuration conf = new Configuration();
        conf.set("fs.s3a.endpoint", Report.environment("SDK_ENDPOINT"));
        conf.set("fs.s3a.endpoint.region", "us-east-1");
        conf.set("fs.s3a.path.style.access", "true");
        conf.set("fs.s3a.access.key", Report.environment("AWS_ACCESS_KEY_ID"));
        conf.set("fs.s3a.secret.key", Report.environment("AWS_SECRET_ACCESS_KEY"));
        conf.set("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider");
        conf.setInt("fs.s3a.multipart.size", PART_BYTES);
        conf.setInt("fs.s3a.multipart.threshold", 3 * PART_BYTES);
        // Lists take several pages.
        conf.setInt("fs.s3a.paging.maximum", 100);
        conf.setInt("fs.s3a.attempts.maximum", 2);
        conf.setInt("fs.s3a.retry.limit", 2);
        conf.set("hadoop.tmp.dir", Report.environment("SDK_FOLDER"));
        return conf;
    }

    /** A file system of its own with some settings more, given as names and values in turn. */
    static S3AFileSystem fileSystem(String... more) throws Exception {
        Configuration conf = configuration();
        for (int i = 0; i < more.length; i += 2) {
            conf.set(more[i], more[i + 1]);
        }
        return (S3AFileSystem) FileSystem.newInstance(new URI(ROOT.toString()), conf);
    }

    /** The SDK's client that S3A itself uses. */
    static S3Client client(S3AFileSystem fs) {
        return fs.getS3AInternals().getAmazonS3Client("the test");
    }

    /** The keys and ids of uploads that are neither completed nor aborted, as S3 lists them. */
    static String uploads(S3AFileSystem fs) {
        return client(fs).listMultipartUploads(request -> request.bucket(BUCKET)).uploads().toString();
    }

    static <T> int count(RemoteIterator<T> found) throws Exception {
        int count = 0;
        for (; found.hasNext(); found.next()) {
            count++;
        }
        return count;
    }
}
