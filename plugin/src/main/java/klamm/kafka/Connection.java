package klamm.kafka;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * HTTP/1.1 over a socket of its own. Java's own clients tell neither whether a request may have been received, nor can
 * another thread close them while they are read without waiting; or they have threads that outlive the authorizer.
 *
 * <p>Of one thread, but for {@link #close}, which ends whatever another thread waits for here.
 */
final class Connection implements Closeable {
    private static final long NANOS_PER_MS = 1_000_000;
    private static final int BUFFER = 64 << 10;

    private final URI base;
    private final SSLSocketFactory tls;
    private final Map<String, String> headers;
    private final Timer timer;
    /** The socket below TLS: to close it is to end everything, while TLS would wait for its own locks. */
    private Socket socket;
    private boolean isClosed;
    private Socket io;
    private InputStream in;
    private long until;

    /**
     * @param headers of each request
     * @param timer closes the connection if a write takes too long, as Java has no timeout for that
     */
    Connection(URI base, SSLSocketFactory tls, Map<String, String> headers, Timer timer) {
        this.base = base;
        this.tls = tls;
        this.headers = headers;
        this.timer = timer;
    }

    /** From now on all that is waited for has this time. */
    void expireIn(long ms) {
        until = System.nanoTime() + ms * NANOS_PER_MS;
    }

    private int leftMs() throws SocketTimeoutException {
        long left = (until - System.nanoTime()) / NANOS_PER_MS;
        if (left <= 0) {
            throw new SocketTimeoutException("nothing came in time from " + base);
        }
        return (int) Math.min(Integer.MAX_VALUE, left);
    }

    /** Connect, with TLS for https. If it raises IOException, no request has been sent. */
    void connect() throws IOException {
        boolean isTls = "https".equals(base.getScheme());
        String name = base.getHost();
        String host = name.startsWith("[") ? name.substring(1, name.length() - 1) : name;
        int port = base.getPort() >= 0 ? base.getPort() : isTls ? 443 : 80;
        io = openSocket(host, port);
        if (isTls) {
            SSLSocket secured = (SSLSocket) tls.createSocket(io, host, port, true);
            SSLParameters parameters = secured.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            secured.setSSLParameters(parameters);
            secured.setSoTimeout(leftMs());
            secured.startHandshake();
            io = secured;
        }
        in = new BufferedInputStream(new Expiring(io.getInputStream()), BUFFER);
    }

    private Socket openSocket(String host, int port) throws IOException {
        IOException fault = new SocketException("`" + host + "` has no address");
        InetAddress[] addresses = InetAddress.getAllByName(host);
        for (int number = 0; number < addresses.length; number++) {
            Socket opened = new Socket();
            use(opened);
            try {
                opened.setTcpNoDelay(true);
                // An address that does not answer must leave time for the next one.
                int most = Math.max(1, leftMs() / (addresses.length - number));
                opened.connect(new InetSocketAddress(addresses[number], port), most);
                return opened;
            } catch (IOException away) {
                opened.close();
                fault = away;
            }
        }
        throw fault;
    }

    private synchronized void use(Socket opened) throws SocketException {
        if (isClosed) {
            throw new SocketException("the connection is closed");
        }
        socket = opened;
    }

    /** The answer to a request without a body. */
    Response get(String path) throws IOException {
        write(head("GET", path, "").getBytes(StandardCharsets.ISO_8859_1));
        return Response.read(in);
    }

    /**
     * Send a request with a body, but for its last byte: whoever receives that much only does nothing. If it raises
     * IOException, the request can't have been received.
     */
    void beginPost(String path, byte[] body) throws IOException {
        String more = "Content-Type: application/json\r\nContent-Length: " + body.length + "\r\n";
        write(head("POST", path, more).getBytes(StandardCharsets.ISO_8859_1));
        write(Arrays.copyOf(body, body.length - 1));
    }

    /** Send the last byte of the body. From here on nobody knows whether it was received, until the answer says so. */
    Response endPost(byte[] body) throws IOException {
        write(new byte[] {body[body.length - 1]});
        return Response.read(in);
    }

    private String head(String method, String path, String more) {
        StringBuilder head = new StringBuilder(method).append(' ').append(base.getRawPath()).append(path)
            .append(" HTTP/1.1\r\nHost: ").append(base.getRawAuthority()).append("\r\n").append(more);
        headers.forEach((name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
        return head.append("\r\n").toString();
    }

    private void write(byte[] bytes) throws IOException {
        ScheduledFuture<?> end = timer.in(leftMs(), this::close);
        try {
            OutputStream out = io.getOutputStream();
            out.write(bytes);
            out.flush();
        } finally {
            end.cancel(false);
        }
    }

    @Override
    public String toString() {
        return base.toString();
    }

    @Override
    public void close() {
        Socket open;
        synchronized (this) {
            isClosed = true;
            open = socket;
        }
        try {
            if (open != null) {
                open.close();
            }
        } catch (IOException gone) {
            // It is what was wanted.
        }
    }

    /** Each read has the time that is left. */
    private final class Expiring extends InputStream {
        private final InputStream from;

        Expiring(InputStream from) {
            this.from = from;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
        }

        @Override
        public int read(byte[] to, int at, int most) throws IOException {
            io.setSoTimeout(leftMs());
            return from.read(to, at, most);
        }
    }
}
