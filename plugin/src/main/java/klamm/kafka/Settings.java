package klamm.kafka;

import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigException;

/**
 * What the broker's file says. Every wrong setting is refused in one sentence, which stops the broker's start.
 *
 * @param urls where Klamm is, to be tried one after another
 * @param tokenFile null: no token is sent
 * @param stateDir null: nothing is kept, and a broker that starts needs Klamm
 * @param maxStalenessMs null: the last image decides for as long as it has to
 * @param principal whose updates they are at Klamm; null: the requester's
 * @param own the properties that win over those of Klamm's store
 * @param decisionLog null: there is none
 */
record Settings(
    List<URI> urls, Path tokenFile, Map<String, String> tls, Path stateDir, Long maxStalenessMs, String principal,
    Map<String, String> own, DecisionFiles.Bounds decisionLog) {

    static final String URLS = "klamm.urls";
    static final String TOKEN_FILE = "klamm.token.file";
    static final String STATE_DIR = "klamm.state.dir";
    static final String MAX_STALENESS_MS = "klamm.max.staleness.ms";
    static final String PRINCIPAL = "klamm.principal";
    static final String DECISION_LOG = "klamm.decision.log.path";
    static final String DECISION_LOG_BYTES = "klamm.decision.log.retention.bytes";
    static final Set<String> TLS = Set.of(
        "klamm.truststore.location", "klamm.truststore.password", "klamm.truststore.type", "klamm.keystore.location",
        "klamm.keystore.password", "klamm.keystore.type");
    static final Set<String> DYNAMIC =
        Set.of(Rules.SUPER_USERS, Rules.ALLOW_EVERYONE, MAX_STALENESS_MS);
    private static final Set<String> NAMES = Set.of(
        URLS, TOKEN_FILE, STATE_DIR, MAX_STALENESS_MS, PRINCIPAL, DECISION_LOG, DECISION_LOG_BYTES);
    private static final String LOG_BYTES = String.valueOf(1 << 30);

    static Settings of(Map<String, ?> configs) {
        Map<String, String> tls = new HashMap<>();
        for (Map.Entry<String, ?> each : configs.entrySet()) {
            String name = each.getKey();
            if (TLS.contains(name)) {
                tls.put(name, text(configs, name));
            } else if (name.startsWith("klamm.") && !NAMES.contains(name)) {
                throw new ConfigException("`" + name + "` is no setting of this plugin; the settings are "
                    + String.join(", ", sorted()));
            }
        }
        Path tokenFile = path(configs, TOKEN_FILE);
        if (tokenFile != null) {
            token(tokenFile);
        }
        Path stateDir = path(configs, STATE_DIR);
        if (stateDir != null) {
            check(STATE_DIR, stateDir);
        }
        return new Settings(
            urls(text(configs, URLS)), tokenFile, Map.copyOf(tls), stateDir,
            number(configs, MAX_STALENESS_MS, null, 1, "milliseconds"), principal(text(configs, PRINCIPAL)),
            own(configs), decisionLog(configs));
    }

    private static DecisionFiles.Bounds decisionLog(Map<String, ?> configs) {
        Path folder = path(configs, DECISION_LOG);
        if (folder == null) {
            return null;
        }
        check(DECISION_LOG, folder);
        return new DecisionFiles.Bounds(folder, number(configs, DECISION_LOG_BYTES, LOG_BYTES, 4_096, "bytes"));
    }

    private static List<String> sorted() {
        List<String> names = new ArrayList<>(NAMES);
        names.addAll(TLS);
        names.sort(null);
        return names;
    }

    private static String text(Map<String, ?> configs, String name) {
        Object value = configs.get(name);
        String text = value == null ? "" : value.toString().trim();
        return text.isEmpty() ? null : text;
    }

    private static Path path(Map<String, ?> configs, String name) {
        String text = text(configs, name);
        return text == null ? null : Path.of(text);
    }

    private static void check(String name, Path folder) {
        try {
            Files.createDirectories(folder);
        } catch (IOException fault) {
            throw new ConfigException("`" + name + "`: the folder " + folder + " can't be made: " + fault);
        }
        if (!Files.isWritable(folder)) {
            throw new ConfigException("`" + name + "`: the folder " + folder + " can't be written to");
        }
    }

    /** The token, read anew each time, so that it can be changed while the broker runs. */
    static String token(Path file) {
        String token;
        try {
            token = Files.readString(file).trim();
        } catch (IOException fault) {
            throw new ConfigException("`" + TOKEN_FILE + "`: the file " + file + " can't be read: " + fault);
        }
        if (token.isEmpty() || !token.chars().allMatch(each -> each > ' ' && each < 0x7F)) {
            throw new ConfigException("`" + TOKEN_FILE + "`: the file " + file + " must hold one token and nothing else");
        }
        return token;
    }

    private static List<URI> urls(String text) {
        if (text == null) {
            throw new ConfigException(
                "`" + URLS + "` is missing; name where Klamm is, such as http://127.0.0.1:8080, several with commas");
        }
        List<URI> urls = new ArrayList<>();
        for (String part : text.split(",")) {
            String url = part.trim();
            if (!url.isEmpty()) {
                urls.add(url(url.endsWith("/") ? url.substring(0, url.length() - 1) : url));
            }
        }
        if (urls.isEmpty()) {
            throw new ConfigException("`" + URLS + "` names no URL");
        }
        return List.copyOf(urls);
    }

    private static URI url(String text) {
        URI url;
        try {
            url = URI.create(text);
        } catch (IllegalArgumentException notOne) {
            throw new ConfigException("`" + URLS + "`: `" + text + "` is no URL");
        }
        boolean isHttp = "http".equals(url.getScheme());
        if (!isHttp && !"https".equals(url.getScheme()) || url.getHost() == null || url.getRawQuery() != null
            || url.getRawFragment() != null || url.getRawUserInfo() != null) {
            throw new ConfigException("`" + URLS + "`: `" + text + "` is not of the form https://host:port");
        }
        if (isHttp && !isLoopback(url.getHost())) {
            throw new ConfigException("`" + URLS + "`: `" + text
                + "` would carry ACLs and the token over a network in the open; http is for loopback only, use https");
        }
        return url;
    }

    private static boolean isLoopback(String host) {
        // Names are not resolved, but for the one that every machine has.
        boolean isLiteral = host.startsWith("[") || host.matches("[0-9.]+");
        try {
            return host.equals("localhost") || isLiteral && InetAddress.getByName(host).isLoopbackAddress();
        } catch (IOException notAnAddress) {
            return false;
        }
    }

    private static Long number(Map<String, ?> configs, String name, String unset, long least, String unit) {
        String given = text(configs, name);
        String text = given == null ? unset : given;
        if (text == null) {
            return null;
        }
        try {
            long value = Long.parseLong(text);
            if (value >= least) {
                return value;
            }
        } catch (NumberFormatException notOne) {
            // Said below.
        }
        throw new ConfigException("`" + name + "`: `" + text + "` is no number of " + unit + " from " + least + " on");
    }

    private static String principal(String text) {
        if (text != null && text.indexOf(':') < 0) {
            throw new ConfigException("`" + PRINCIPAL + "`: `" + text + "` is not of the form User:name");
        }
        return text;
    }

    private static Map<String, String> own(Map<String, ?> configs) {
        Map<String, String> own = new HashMap<>();
        for (String name : List.of(Rules.SUPER_USERS, Rules.ALLOW_EVERYONE)) {
            Object value = configs.get(name);
            if (value != null) {
                own.put(name, value.toString());
            }
        }
        for (String user : own.getOrDefault(Rules.SUPER_USERS, "").split(";")) {
            if (!user.isBlank() && user.indexOf(':') < 0) {
                // As Kafka's own authorizer refuses it.
                throw new IllegalArgumentException(
                    "expected a string in format principalType:principalName but got " + user.trim());
            }
        }
        return Map.copyOf(own);
    }
}
