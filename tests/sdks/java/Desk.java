import java.net.URI;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;
import software.amazon.awssdk.services.s3.S3Configuration;

/** The SDK's clients, all with its defaults but for the endpoint and the style of paths. */
final class Desk implements AutoCloseable {
    static final String BUCKET = Report.environment("SDK_BUCKET");
    private static final URI ENDPOINT = URI.create(Report.environment("SDK_ENDPOINT"));

    final S3Client sync = S3Client.builder().endpointOverride(ENDPOINT).forcePathStyle(true)
        .overrideConfiguration(settings -> settings.apiCallTimeout(Duration.ofMinutes(3))).build();
    final S3Presigner presigner = S3Presigner.builder().endpointOverride(ENDPOINT)
        .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build()).build();
    /** On Netty, with uploads in parts made of single puts. */
    final S3AsyncClient async = S3AsyncClient.builder().endpointOverride(ENDPOINT).forcePathStyle(true)
        .multipartEnabled(true).build();
    /** On AWS's common runtime in C. */
    final S3AsyncClient crt = S3AsyncClient.crtBuilder().endpointOverride(ENDPOINT).forcePathStyle(true)
        .minimumPartSizeInBytes(5L << 20).build();

    byte[] get(String key) {
        return sync.getObjectAsBytes(request -> request.bucket(BUCKET).key(key)).asByteArray();
    }

    ResponseBytes<GetObjectResponse> answer(String key) {
        return sync.getObjectAsBytes(request -> request.bucket(BUCKET).key(key));
    }

    void put(String key, byte[] bytes) {
        sync.putObject(request -> request.bucket(BUCKET).key(key), RequestBody.fromBytes(bytes));
    }

    /** What a request answers. Errors: as the request's, and `TimeoutException` after two minutes. */
    static <T> T answerOf(CompletableFuture<T> request) throws Exception {
        return request.get(2, TimeUnit.MINUTES);
    }

    @Override
    public void close() {
        sync.close();
        presigner.close();
        async.close();
        crt.close();
    }
}
