package klamm.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/** The lines of a stream of bytes, each as soon as it is there. */
final class Lines {
    /** What a line may have where there is memory for it: a transaction of 16 MiB, whose texts are all escaped. */
    private static final long MOST = 128L << 20;
    /** A line takes some times its length: as bytes, as JSON and as records. */
    private static final int SHARE_OF_HEAP = 8;
    private static final int FIRST = 64 << 10;

    /** A line without its end. Its bytes are valid until the next one is asked for. */
    record Line(byte[] bytes, int from, int length) {}

    private final InputStream in;
    private final int most;
    private byte[] bytes = new byte[FIRST];
    private int from;
    private int looked;
    private int to;

    Lines(InputStream in) {
        this(in, (int) Math.min(MOST, Runtime.getRuntime().maxMemory() / SHARE_OF_HEAP));
    }

    Lines(InputStream in, int most) {
        this.in = in;
        this.most = most;
    }

    /**
     * The next line; null at the end of the stream. Raises IOException for a line that was cut, FeedException for one
     * that is longer than this JVM has memory for.
     */
    Line next() throws IOException, FeedException {
        if (from == to && bytes.length > FIRST) {
            // One long line must not keep its memory.
            bytes = new byte[FIRST];
            from = looked = to = 0;
        }
        while (true) {
            for (; looked < to; looked++) {
                if (bytes[looked] == '\n') {
                    Line line = new Line(bytes, from, looked - from);
                    looked++;
                    from = looked;
                    return line;
                }
            }
            if (!fill()) {
                return null;
            }
        }
    }

    private boolean fill() throws IOException, FeedException {
        if (from > 0) {
            System.arraycopy(bytes, from, bytes, 0, to - from);
            looked -= from;
            to -= from;
            from = 0;
        }
        if (to == bytes.length) {
            if (to >= most) {
                throw new FeedException("a line is longer than " + most + " bytes, for which there is no memory");
            }
            bytes = Arrays.copyOf(bytes, (int) Math.min(most, to * 2L));
        }
        int read = in.read(bytes, to, bytes.length - to);
        if (read < 0 && to > 0) {
            throw new IOException("the last line was cut");
        }
        to += Math.max(0, read);
        return read >= 0;
    }
}
