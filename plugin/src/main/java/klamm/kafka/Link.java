package klamm.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Map;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.apache.kafka.common.config.ConfigException;

/**
 * HTTP to Klamm, one connection a request. {@link HttpURLConnection} has a timeout for every single read, and no
 * threads of its own, which would outlive the authorizer.
 */
final class Link {
    private static final int CONNECT_MS = 3_000;

    private final Path tokenFile;
    private final SSLSocketFactory sockets;

    Link(Settings settings) {
        this.tokenFile = settings.tokenFile();
        this.sockets = settings.tls().isEmpty() ? null : sockets(settings.tls());
    }

    HttpURLConnection open(URI base, String path, int readMs) throws IOException {
        URL url = URI.create(base + path).toURL();
        HttpURLConnection connection = (HttpURLConnection) url.openConnection(Proxy.NO_PROXY);
        if (sockets != null && connection instanceof HttpsURLConnection secured) {
            secured.setSSLSocketFactory(sockets);
        }
        connection.setConnectTimeout(CONNECT_MS);
        connection.setReadTimeout(readMs);
        connection.setInstanceFollowRedirects(false);
        connection.setUseCaches(false);
        // A connection that is kept has a thread that waits for its end.
        connection.setRequestProperty("Connection", "close");
        connection.setRequestProperty("Accept", "application/json, application/x-ndjson");
        if (tokenFile != null) {
            connection.setRequestProperty("Authorization", "Bearer " + Settings.token(tokenFile));
        }
        return connection;
    }

    /** Send a body. After this call nobody knows whether it was received, until the answer says so. */
    static void send(HttpURLConnection connection, byte[] body) throws IOException {
        connection.setRequestProperty("Content-Type", "application/json");
        connection.setDoOutput(true);
        // With a fixed length Java never sends a request a second time by itself.
        connection.setFixedLengthStreamingMode(body.length);
        connection.connect();
        try (OutputStream out = connection.getOutputStream()) {
            out.write(body);
        }
    }

    /** The body of an answer of any status, cut at a bound. */
    static byte[] body(HttpURLConnection connection, int most) throws IOException {
        boolean isRefusal = connection.getResponseCode() >= 400;
        try (InputStream in = isRefusal ? connection.getErrorStream() : connection.getInputStream()) {
            return in == null ? new byte[0] : in.readNBytes(most);
        }
    }

    private static SSLSocketFactory sockets(Map<String, String> tls) {
        try {
            KeyStore trusted = store(tls, "klamm.truststore.");
            KeyStore keys = store(tls, "klamm.keystore.");
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(keys == null ? null : keyManagers(keys, tls), trusted == null ? null : trustManagers(trusted), null);
            return context.getSocketFactory();
        } catch (IOException | GeneralSecurityException fault) {
            throw new ConfigException("`klamm.truststore.*` and `klamm.keystore.*` can't be used: " + fault);
        }
    }

    private static KeyManager[] keyManagers(KeyStore keys, Map<String, String> tls) throws GeneralSecurityException {
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(keys, password(tls, "klamm.keystore."));
        return factory.getKeyManagers();
    }

    private static TrustManager[] trustManagers(KeyStore trusted) throws GeneralSecurityException {
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(trusted);
        return factory.getTrustManagers();
    }

    private static KeyStore store(Map<String, String> tls, String prefix) throws IOException, GeneralSecurityException {
        String location = tls.get(prefix + "location");
        if (location == null) {
            return null;
        }
        KeyStore store = KeyStore.getInstance(tls.getOrDefault(prefix + "type", "PKCS12"));
        try (InputStream in = Files.newInputStream(Path.of(location))) {
            store.load(in, password(tls, prefix));
        }
        return store;
    }

    private static char[] password(Map<String, String> tls, String prefix) {
        String password = tls.get(prefix + "password");
        return password == null ? null : password.toCharArray();
    }
}
