package klamm.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/** The lines of a stream of bytes, each as soon as it is there. */
final class Lines {
    private static final int MOST = 64 << 20;

    private final InputStream in;
    private byte[] bytes = new byte[64 << 10];
    private int from;
    private int looked;
    private int to;

    Lines(InputStream in) {
        this.in = in;
    }

    /** The next line without its end; null at the end of the stream. Raises IOException for a line that was cut. */
    byte[] next() throws IOException {
        while (true) {
            for (; looked < to; looked++) {
                if (bytes[looked] == '\n') {
                    byte[] line = Arrays.copyOfRange(bytes, from, looked);
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

    private boolean fill() throws IOException {
        if (from > 0) {
            System.arraycopy(bytes, from, bytes, 0, to - from);
            looked -= from;
            to -= from;
            from = 0;
        }
        if (to == bytes.length) {
            if (to >= MOST) {
                throw new IOException("a line is longer than " + MOST + " bytes, which no event is");
            }
            bytes = Arrays.copyOf(bytes, Math.min(MOST, to * 2));
        }
        int read = in.read(bytes, to, bytes.length - to);
        if (read < 0 && to > 0) {
            throw new IOException("the last line was cut");
        }
        to += Math.max(0, read);
        return read >= 0;
    }
}
