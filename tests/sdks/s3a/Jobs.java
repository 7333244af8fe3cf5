import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathExistsException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.commit.files.SuccessData;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;

/** Jobs whose output one of S3A's committers makes seen: all of it when the job is committed, and none before. */
final class Jobs {
    private static final int INPUTS = 10;
    private static final int REDUCERS = 3;
    private static final int TASKS = 10;
    private static final int ROWS = 60_000;

    private final S3AFileSystem fs;
    private final String committer;
    private int jobs;

    Jobs(S3AFileSystem fs, String committer) {
        this.fs = fs;
        this.committer = committer;
    }

    void run(Report report) {
        report.part(committer + ": word count", this::wordCount);
        report.part(committer + ": attempts that die", this::deaths);
        report.part(committer + ": a job that is aborted", this::abort);
        if (committer.equals("directory")) {
            report.part(committer + ": output that is there", this::conflicts);
        }
    }

    private Path path(String name) {
        return new Path(Settings.ROOT, "jobs/" + committer + "/" + name);
    }

    private Configuration configuration() {
        Configuration conf = Settings.configuration();
        conf.set("fs.s3a.committer.name", committer);
        conf.set("fs.s3a.committer.staging.tmp.path", "file://" + Report.environment("SDK_FOLDER") + "/staging");
        conf.set("mapreduce.framework.name", "local");
        // Names of files then have the number of their task alone, and an attempt's file may replace another's.
        conf.setBoolean("fs.s3a.committer.staging.unique-filenames", false);
        conf.setInt("mapreduce.local.map.tasks.maximum", 3);
        conf.setInt("mapreduce.local.reduce.tasks.maximum", 2);
        return conf;
    }

    /** Tells words apart. */
    public static final class Words extends Mapper<Object, Text, Text, IntWritable> {
        @Override
        protected void map(Object at, Text line, Context context) throws java.io.IOException, InterruptedException {
            for (String word : line.toString().split(" ")) {
                context.write(new Text(word), new IntWritable(1));
            }
        }
    }

    /** Adds up. */
    public static final class Sums extends Reducer<Text, IntWritable, Text, IntWritable> {
        @Override
        protected void reduce(Text word, Iterable<IntWritable> counts, Context context)
                throws java.io.IOException, InterruptedException {
            int sum = 0;
            for (IntWritable count : counts) {
                sum += count.get();
            }
            context.write(word, new IntWritable(sum));
        }
    }

    private String wordCount() throws Exception {
        TreeMap<String, Integer> expected = new TreeMap<>();
        Random random = new Random(11);
        for (int input = 0; input < INPUTS; input++) {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < 20_000; i++) {
                String word = "word" + random.nextInt(5000);
                expected.merge(word, 1, Integer::sum);
                text.append(word).append(i % 10 == 9 ? '\n' : ' ');
            }
            Files.write(fs, path("words/" + input), text.toString().getBytes(StandardCharsets.UTF_8));
        }
        Job job = Job.getInstance(configuration(), "word count");
        job.setJarByClass(Jobs.class);
        job.setMapperClass(Words.class);
        job.setCombinerClass(Sums.class);
        job.setReducerClass(Sums.class);
        job.setNumReduceTasks(REDUCERS);
        job.setOutputKeyClass(Text.class);
        job.setOutputValueClass(IntWritable.class);
        FileInputFormat.addInputPath(job, path("words"));
        FileOutputFormat.setOutputPath(job, path("counts"));
        Report.check(job.waitForCompletion(false), "the job fails: " + job.getStatus().getFailureInfo());
        TreeMap<String, Integer> found = new TreeMap<>();
        for (String name : output(path("counts"), REDUCERS)) {
            String text = new String(Files.read(fs, path("counts/" + name)), StandardCharsets.UTF_8);
            text.lines().map(line -> line.split("\t")).forEach(line -> {
                Integer former = found.put(line[0], Integer.valueOf(line[1]));
                Report.same(former == null, true, "a word that is counted once, " + line[0]);
            });
        }
        Report.same(found, expected, "the counts");
        return INPUTS + " maps, " + REDUCERS + " reducers, " + expected.size() + " words counted right";
    }

    /** The names of a job's files. There is nothing but them and the record of success, nor any upload. */
    private List<String> output(Path folder, int files) throws Exception {
        List<String> names = new ArrayList<>();
        for (FileStatus status : fs.listStatus(folder)) {
            Report.check(status.isFile(), "a folder is left: " + status.getPath());
            names.add(status.getPath().getName());
        }
        Report.check(names.remove("_SUCCESS"), "no record of success");
        SuccessData success = SuccessData.load(fs, new Path(folder, "_SUCCESS"));
        Report.same(success.getCommitter(), committer, "the committer");
        Report.same(success.getFilenames().size(), files, "files of the record of success");
        Report.same(names.size(), files, "files");
        Report.same(Settings.uploads(fs), "[]", "uploads");
        return names;
    }

    /** A job whose attempts this program drives as the framework would. Settings are names and values in turn. */
    private Attempts begin(Path output, String... more) throws Exception {
        Configuration conf = configuration();
        for (int i = 0; i < more.length; i += 2) {
            conf.set(more[i], more[i + 1]);
        }
        Attempts attempts = new Attempts(conf, output, committer + jobs++);
        attempts.setUp();
        return attempts;
    }

    /** Is an attempt in a process of its own, which writes its rows, says that, and goes on until it is killed. */
    static void beKilled(String committer, String output, String job, int task, int rows) throws Exception {
        try (S3AFileSystem fs = Settings.fileSystem()) {
            Attempts attempts = new Attempts(new Jobs(fs, committer).configuration(), new Path(output), job);
            attempts.attempt(task, 0).write(rows);
            System.out.println("written");
            Thread.sleep(600_000);
        }
    }

    /** Starts attempt 0 of a task as a process, and kills it amid its output. */
    private void kill(Path output, Attempts job, int task, int rows) throws Exception {
        List<String> words = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow()));
        words.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        words.addAll(List.of("-cp", System.getProperty("java.class.path"), "Main", committer, output.toString(),
            job.name(), "" + task, "" + rows));
        Process process = new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            Report.same(process.inputReader().readLine(), "written", "what an attempt says");
        } finally {
            process.destroyForcibly().waitFor();
        }
        Report.same(process.exitValue(), 128 + 9, "the status of an attempt that is killed");
    }

    private String deaths() throws Exception {
        Path output = path("deaths");
        Attempts job = begin(output);
        // A process is killed amid an attempt's output. Others end after the output, and after an unheard commit.
        kill(output, job, 1, ROWS * 9 / 10);
        job.attempt(2, 0).write(ROWS).close();
        job.attempt(3, 0).write(ROWS - 1).close().commit();
        Attempts.Attempt slow = job.attempt(4, 0).write(ROWS / 2);
        for (int task = 0; task < TASKS; task++) {
            job.attempt(task, 1).write(ROWS).close().commit();
        }
        // The slower of two attempts ends, and is told that it came too late.
        slow.write(ROWS / 2).close().abort();
        Report.check(Settings.uploads(fs).contains("deaths/part-m-00007"), "no upload waits for the job");
        Report.same(visible(output), 0L, "files that are seen before the job is committed");
        job.commit();
        for (String name : output(output, TASKS)) {
            int task = Integer.parseInt(name.substring(name.length() - 5));
            String text = new String(Files.read(fs, new Path(output, name)), StandardCharsets.UTF_8);
            Report.check(text.equals(Attempts.rows(task, 1, ROWS)), "other rows of task " + task);
        }
        return TASKS + " tasks, one attempt killed, two not heard of, a slower one aborted; " + TASKS * ROWS
            + " rows are right";
    }

    /** How many files of tasks a folder has, without those below. */
    private long visible(Path folder) throws Exception {
        long count = 0;
        for (FileStatus status : fs.exists(folder) ? fs.listStatus(folder) : new FileStatus[0]) {
            count += status.isFile() ? 1 : 0;
        }
        return count;
    }

    private String abort() throws Exception {
        Path output = path("aborted");
        Attempts job = begin(output);
        job.attempt(0, 0).write(ROWS).close().commit();
        job.attempt(1, 0).write(ROWS).close();
        Report.check(Settings.uploads(fs).contains("aborted/part-m-00000"), "no upload waits for the job");
        job.abort(JobStatus.State.KILLED);
        Report.same(visible(output), 0L, "files of a job that was aborted");
        Report.same(Settings.uploads(fs), "[]", "uploads");
        return "no file and no upload is left";
    }

    private String conflicts() throws Exception {
        String option = "fs.s3a.committer.staging.conflict-mode";
        Path output = path("conflicts"), kept = new Path(output, "kept");
        Files.write(fs, kept, new byte[] {1});
        Report.refused(PathExistsException.class, () -> "" + begin(output, option, "fail"));
        Attempts job = begin(output, option, "append");
        job.attempt(0, 0).write(10).close().commit();
        job.commit();
        Report.check(fs.exists(kept), "a file is gone that was there before the job");
        job = begin(output, option, "replace");
        job.attempt(1, 0).write(10).close().commit();
        job.commit();
        Report.same(output(output, 1), List.of("part-m-00001"), "files of a job that replaces");
        return "refused, added to, replaced";
    }
}
