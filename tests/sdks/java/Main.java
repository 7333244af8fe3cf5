/** Uses the gateway through the AWS SDK for Java, version 2, by its four clients and its transfer manager. */
final class Main {
    private Main() {
    }

    public static void main(String[] args) {
        Report report = new Report();
        try (Desk desk = new Desk()) {
            desk.sync.createBucket(request -> request.bucket(Desk.BUCKET));
            desk.sync.waiter().waitUntilBucketExists(request -> request.bucket(Desk.BUCKET));
            new Singles(desk).run(report);
            new Lists(desk).run(report);
            new Transfers(desk).run(report);
            report.part("nothing is left", () -> {
                Report.same(desk.sync.listMultipartUploads(list -> list.bucket(Desk.BUCKET)).uploads().size(), 0,
                    "uploads");
                return "no uploads";
            });
        }
        report.exit();
    }
}
