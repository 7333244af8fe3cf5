import java.util.Arrays;
import java.util.Objects;
import java.util.Random;

/** Runs the parts of a program and prints a line for each. */
final class Report {
    private int failed;

    /** A part's work. It returns a few words about what it did, and throws what went wrong. */
    interface Part {
        String run() throws Exception;
    }

    /** Runs a part and prints {@code ok NAME: WORDS} or {@code FAILED NAME: ERROR}; the others go on in either case. */
    void part(String name, Part part) {
        long start = System.nanoTime();
        try {
            String words = part.run();
            System.out.printf("ok %s: %s (%.1f s)%n", name, words, (System.nanoTime() - start) / 1e9);
        } catch (Exception | AssertionError error) {
            failed++;
            error.printStackTrace();
            System.out.printf("FAILED %s: %s%n", name, String.valueOf(error).lines().findFirst().orElse(""));
        }
    }

    /** Ends the program, with status 1 if a part has failed. */
    void exit() {
        System.out.flush();
        System.exit(failed == 0 ? 0 : 1);
    }

    static void check(boolean isTrue, String otherwise) {
        if (!isTrue) {
            throw new AssertionError(otherwise);
        }
    }

    static void same(Object found, Object expected, String of) {
        check(Objects.equals(found, expected), of + ": " + found + ", not " + expected);
    }

    static void sameBytes(byte[] found, byte[] expected, String of) {
        int at = Arrays.mismatch(found, expected);
        check(at < 0, of + ": " + found.length + " bytes, not " + expected.length + ", other from byte " + at + " on");
    }

    /** Runs what has to be refused, and returns the error. */
    static <E extends Throwable> E refused(Class<E> kind, Part body) throws Exception {
        String words;
        try {
            words = body.run();
        } catch (Throwable error) {
            if (kind.isInstance(error)) {
                return kind.cast(error);
            }
            throw new AssertionError("refused by another error than " + kind.getName(), error);
        }
        throw new AssertionError("not refused: " + words);
    }

    /** Bytes of which no part is like another, the same for a seed each time. */
    static byte[] noise(int count, long seed) {
        byte[] bytes = new byte[count];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    static String environment(String name) {
        String value = System.getenv(name);
        check(value != null, name + " is not set");
        return value;
    }
}
