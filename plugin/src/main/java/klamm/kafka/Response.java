package klamm.kafka;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.ProtocolException;
import java.util.Locale;

/**
 * An answer of HTTP/1.1.
 *
 * @param isReusable whether the connection can be used again once the body was read to its end
 */
record Response(int status, InputStream body, boolean isReusable) {
    static final int OK = 200;
    private static final int MOST_OF_HEAD = 64 << 10;
    private static final int MOST_INFORMATIONAL = 16;
    private static final int FIRST_FINAL = 200;
    private static final int NO_CONTENT = 204;
    private static final int NOT_MODIFIED = 304;

    static Response read(InputStream in) throws IOException {
        for (int number = 0; number <= MOST_INFORMATIONAL; number++) {
            Response answer = readOne(in);
            if (answer.status >= FIRST_FINAL) {
                return answer;
            }
        }
        throw new ProtocolException("more than " + MOST_INFORMATIONAL + " answers before the answer");
    }

    private static Response readOne(InputStream in) throws IOException {
        int[] left = {MOST_OF_HEAD};
        String first = line(in, left);
        String[] parts = first.split(" ", 3);
        if (!first.startsWith("HTTP/1.") || parts.length < 2 || !parts[1].matches("[1-9][0-9]{2}")) {
            throw new ProtocolException("the answer is none of HTTP/1.1");
        }
        int status = Integer.parseInt(parts[1]);
        boolean isChunked = false;
        boolean isReusable = parts[0].equals("HTTP/1.1");
        long length = -1;
        for (String field = line(in, left); !field.isEmpty(); field = line(in, left)) {
            int colon = field.indexOf(':');
            String name = field.substring(0, Math.max(0, colon)).toLowerCase(Locale.ROOT);
            String value = field.substring(colon + 1).trim().toLowerCase(Locale.ROOT);
            switch (name) {
                case "transfer-encoding" -> isChunked = value.endsWith("chunked");
                case "content-length" -> length = length(value);
                case "connection" -> isReusable &= !value.contains("close");
                default -> { }
            }
        }
        if (status < FIRST_FINAL || status == NO_CONTENT || status == NOT_MODIFIED) {
            return new Response(status, InputStream.nullInputStream(), isReusable);
        }
        if (isChunked) {
            return new Response(status, new Chunked(in), isReusable);
        }
        return length < 0 ? new Response(status, in, false) : new Response(status, new Fixed(in, length), isReusable);
    }

    private static long length(String value) throws ProtocolException {
        try {
            long length = Long.parseLong(value);
            if (length >= 0) {
                return length;
            }
        } catch (NumberFormatException notOne) {
            // Said below.
        }
        throw new ProtocolException("the answer has no valid Content-Length");
    }

    private static String line(InputStream in, int[] left) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = in.read(); next != '\n'; next = in.read()) {
            if (next < 0) {
                throw new EOFException("the connection was closed before the end of the answer");
            }
            if (left[0]-- <= 0) {
                throw new ProtocolException("the head of the answer is longer than " + MOST_OF_HEAD + " bytes");
            }
            line.append((char) next);
        }
        boolean hasReturn = line.length() > 0 && line.charAt(line.length() - 1) == '\r';
        return hasReturn ? line.substring(0, line.length() - 1) : line.toString();
    }

    /** The body, cut at a bound. */
    byte[] bytes(int most) throws IOException {
        return body.readNBytes(most);
    }

    /** A body of a length that its head has said. */
    private static final class Fixed extends InputStream {
        private final InputStream in;
        private long left;

        Fixed(InputStream in, long length) {
            this.in = in;
            this.left = length;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
        }

        @Override
        public int read(byte[] to, int at, int most) throws IOException {
            if (left == 0) {
                return -1;
            }
            int read = in.read(to, at, (int) Math.min(left, most));
            if (read < 0) {
                throw new EOFException("the connection was closed before the end of the answer");
            }
            left -= read;
            return read;
        }
    }

    /** A body in chunks. */
    private static final class Chunked extends InputStream {
        private static final int MOST_OF_LINE = 4_096;
        private static final int HEX = 16;
        private static final int DIGITS = 15;

        private final InputStream in;
        private long left;
        private boolean hasBegun;
        private boolean isDone;

        Chunked(InputStream in) {
            this.in = in;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
        }

        @Override
        public int read(byte[] to, int at, int most) throws IOException {
            if (left == 0 && !isDone) {
                nextChunk();
            }
            if (isDone) {
                return -1;
            }
            int read = in.read(to, at, (int) Math.min(left, most));
            if (read < 0) {
                throw new EOFException("the connection was closed before the end of the answer");
            }
            left -= read;
            return read;
        }

        private void nextChunk() throws IOException {
            int[] room = {MOST_OF_LINE};
            if (hasBegun && !line(in, room).isEmpty()) {
                throw new ProtocolException("a chunk of the answer is longer than its head says");
            }
            hasBegun = true;
            String size = line(in, room).split(";", 2)[0].trim();
            if (!size.matches("[0-9A-Fa-f]{1," + DIGITS + "}")) {
                throw new ProtocolException("a chunk of the answer has no valid size");
            }
            left = Long.parseLong(size, HEX);
            if (left == 0) {
                isDone = true;
                while (!line(in, room).isEmpty()) {
                    // Trailers, which say nothing here.
                }
            }
        }
    }
}
