import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;
import org.apache.hadoop.mapreduce.lib.output.TextOutputFormat;
import org.apache.hadoop.mapreduce.task.JobContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;

/** A job whose tasks are done by attempts that may end at any step, as one that is killed there does. */
final class Attempts {
    private final Configuration conf;
    private final Path output;
    private final String name;
    private final JobID id;
    private final JobContext context;
    private final OutputCommitter committer;

    Attempts(Configuration conf, Path output, String name) throws Exception {
        this.conf = conf;
        this.output = output;
        this.name = name;
        id = new JobID(name, 1);
        conf.setInt("mapreduce.job.application.attempt.id", 1);
        conf.set("mapreduce.output.fileoutputformat.outputdir", output.toString());
        context = new JobContextImpl(conf, id);
        committer = PathOutputCommitterFactory.createCommitter(output, attemptContext(0, 0));
    }

    private TaskAttemptContext attemptContext(int task, int attempt) {
        TaskAttemptID attemptId = new TaskAttemptID(new TaskID(id, TaskType.MAP, task), attempt);
        Configuration own = new Configuration(conf);
        own.set("mapreduce.task.attempt.id", attemptId.toString());
        own.set("mapreduce.task.id", attemptId.getTaskID().toString());
        own.set("mapreduce.job.id", id.toString());
        return new TaskAttemptContextImpl(own, attemptId);
    }

    /** The name by which another process may join. */
    String name() {
        return name;
    }

    void setUp() throws Exception {
        committer.setupJob(context);
    }

    void commit() throws Exception {
        committer.commitJob(context);
    }

    void abort(JobStatus.State state) throws Exception {
        committer.abortJob(context, state);
    }

    /** Sets an attempt up. */
    Attempt attempt(int task, int attempt) throws Exception {
        return new Attempt(task, attempt);
    }

    /** What an attempt writes in all: rows that differ by task, attempt and number. */
    static String rows(int task, int attempt, int rows) {
        Random random = new Random(1000 * task + attempt);
        StringBuilder text = new StringBuilder();
        for (int row = 0; row < rows; row++) {
            text.append(key(task, attempt, row)).append('\t').append(value(random)).append('\n');
        }
        return text.toString();
    }

    private static String key(int task, int attempt, int row) {
        return task + "." + attempt + "." + row;
    }

    private static String value(Random random) {
        return String.format("%016x", random.nextLong()).repeat(6);
    }

    /** One attempt of a task. */
    final class Attempt {
        private final int task;
        private final int attempt;
        private final TaskAttemptContext context;
        private final OutputCommitter committer;
        private final RecordWriter<Text, Text> writer;
        private final Random random;
        private int rows;

        private Attempt(int task, int attempt) throws Exception {
            this.task = task;
            this.attempt = attempt;
            context = attemptContext(task, attempt);
            TextOutputFormat<Text, Text> format = new TextOutputFormat<>();
            committer = format.getOutputCommitter(context);
            committer.setupTask(context);
            writer = format.getRecordWriter(context);
            random = new Random(1000 * task + attempt);
        }

        /** Writes so many rows more. */
        Attempt write(int more) throws Exception {
            for (int i = 0; i < more; i++, rows++) {
                writer.write(new Text(key(task, attempt, rows)), new Text(value(random)));
            }
            return this;
        }

        Attempt close() throws Exception {
            writer.close(context);
            return this;
        }

        void commit() throws Exception {
            Report.check(committer.needsTaskCommit(context), "an attempt has nothing to commit: " + task);
            committer.commitTask(context);
        }

        void abort() throws Exception {
            committer.abortTask(context);
        }

        @Override
        public String toString() {
            return output + ": attempt " + attempt + " of task " + task;
        }
    }
}
