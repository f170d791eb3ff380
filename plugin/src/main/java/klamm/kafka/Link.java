package klamm.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.apache.kafka.common.config.ConfigException;

/** The ways to Klamm: whom to trust there, and by what this node proves who it is. */
final class Link {
    private final Path tokenFile;
    private final SSLSocketFactory sockets;
    private final Timer timer;

    /** @param timer ends what takes too long */
    Link(Settings settings, Timer timer) {
        this.timer = timer;
        this.tokenFile = settings.tokenFile();
        this.sockets = sockets(settings);
    }

    /**
     * A connection that is not connected yet. Raises IOException without a token.
     *
     * @param more headers of each request
     */
    Connection to(URI base, Map<String, String> more) throws IOException {
        Map<String, String> headers = new LinkedHashMap<>(more);
        headers.put("Accept", "application/json, application/x-ndjson");
        headers.put("User-Agent", "klamm-kafka-authorizer");
        if (tokenFile != null) {
            headers.put("Authorization", "Bearer " + Settings.token(tokenFile));
        }
        return new Connection(base, sockets, headers, timer);
    }

    /** A text that another has sent, without the token that it may repeat. */
    String masked(String text) {
        try {
            return tokenFile == null ? text : text.replace(Settings.token(tokenFile), "***");
        } catch (IOException gone) {
            return "(not shown, as the token can't be read)";
        }
    }

    /** Null if no URL needs one. */
    private static SSLSocketFactory sockets(Settings settings) {
        Settings.Tls tls = settings.tls();
        if (tls == null) {
            boolean isNeeded = settings.urls().stream().anyMatch(url -> "https".equals(url.getScheme()));
            return isNeeded ? (SSLSocketFactory) SSLSocketFactory.getDefault() : null;
        }
        try {
            KeyStore trusted = store(tls.truststore());
            KeyStore keys = store(tls.keystore());
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(
                keys == null ? null : keyManagers(keys, tls.keystore()),
                trusted == null ? null : trustManagers(trusted), null);
            return context.getSocketFactory();
        } catch (IOException | GeneralSecurityException fault) {
            throw new ConfigException("`klamm.truststore.*` and `klamm.keystore.*` can't be used: " + fault);
        }
    }

    private static KeyManager[] keyManagers(KeyStore keys, Settings.Store store) throws GeneralSecurityException {
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(keys, store.characters());
        return factory.getKeyManagers();
    }

    private static TrustManager[] trustManagers(KeyStore trusted) throws GeneralSecurityException {
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(trusted);
        return factory.getTrustManagers();
    }

    private static KeyStore store(Settings.Store from) throws IOException, GeneralSecurityException {
        if (from == null) {
            return null;
        }
        KeyStore store = KeyStore.getInstance(from.type());
        try (InputStream in = Files.newInputStream(from.location())) {
            store.load(in, from.characters());
        }
        return store;
    }
}
