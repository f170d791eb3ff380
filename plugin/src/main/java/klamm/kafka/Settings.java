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
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;

/**
 * What the broker's file says. Every wrong setting is refused by a ConfigException that names it, which stops the
 * broker's start.
 *
 * @param urls where Klamm is
 * @param tokenFile null: no token is sent
 * @param tls null: the JVM's own trust
 * @param state null: nothing is kept, and a broker that starts needs Klamm
 * @param maxStalenessMs null: the last image decides for as long as it has to
 * @param principal whose updates they are at Klamm; null: the requester's
 * @param own the properties that win over those of Klamm's store
 * @param decisionLog null: there is none
 */
record Settings(
    List<URI> urls, Path tokenFile, Tls tls, State state, Long maxStalenessMs, String principal,
    Map<String, String> own, DecisionFiles.Bounds decisionLog) {

    static final String STATE_DIR = "klamm.state.dir";
    static final Set<String> DYNAMIC = Set.of(Rules.SUPER_USERS, Rules.ALLOW_EVERYONE, "klamm.max.staleness.ms");
    private static final String PREFIX = "klamm.";
    private static final String URLS = "klamm.urls";
    private static final String TOKEN_FILE = "klamm.token.file";
    private static final String STATE_GROUP = "klamm.state.group.writable";
    private static final String MAX_STALENESS_MS = "klamm.max.staleness.ms";
    private static final String PRINCIPAL = "klamm.principal";
    private static final String DECISION_LOG = "klamm.decision.log.path";
    static final String DECISION_LOG_BYTES = "klamm.decision.log.retention.bytes";
    private static final Names TRUSTSTORE =
        new Names("klamm.truststore.location", "klamm.truststore.password", "klamm.truststore.type");
    private static final Names KEYSTORE =
        new Names("klamm.keystore.location", "klamm.keystore.password", "klamm.keystore.type");
    private static final long LEAST_LOG_BYTES = 4_096;
    private static final ConfigDef DEFINITION = definition();

    /** The settings of a store of certificates and keys. */
    private record Names(String location, String password, String type) {}

    /** Either store may be null. */
    record Tls(Store truststore, Store keystore) {}

    /** @param password null: none */
    record Store(Path location, Password password, String type) {
        char[] characters() {
            return password == null ? null : password.value().toCharArray();
        }
    }

    /** @param isGroupTrusted whether the group of folder and files may write to them */
    record State(Path folder, boolean isGroupTrusted) {}

    private static ConfigDef definition() {
        ConfigDef definition = new ConfigDef()
            .define(URLS, Type.LIST, ConfigDef.NO_DEFAULT_VALUE, valid(value -> urls((List<?>) value)), Importance.HIGH,
                "Where Klamm is, such as https://klamm-1.example.com:8443; several are separated by commas.")
            .define(TOKEN_FILE, Type.STRING, null, Importance.HIGH, "A file with a caller's token.")
            .define(STATE_DIR, Type.STRING, null, Importance.HIGH, "A folder for the last state.")
            .define(STATE_GROUP, Type.BOOLEAN, false, Importance.LOW,
                "Whether the state is used although the group of its folder and files may write to them.")
            .define(MAX_STALENESS_MS, Type.LONG, null, valid(value -> atLeast((Long) value, 1)), Importance.MEDIUM,
                "For how long decisions are made by a state that is not known to be the newest.")
            .define(PRINCIPAL, Type.STRING, null, valid(value -> checkPrincipal((String) value)), Importance.MEDIUM,
                "The principal that makes the changes at Klamm.")
            .define(DECISION_LOG, Type.STRING, null, Importance.MEDIUM, "A folder for a decision log.")
            .define(DECISION_LOG_BYTES, Type.LONG, 1L << 30, valid(value -> atLeast((Long) value, LEAST_LOG_BYTES)),
                Importance.LOW, "The size of the decision log that is kept.")
            .define(Rules.SUPER_USERS, Type.STRING, null, valid(value -> checkSuperUsers((String) value)),
                Importance.HIGH, "Principals that may do everything, separated by semicolons.")
            .define(Rules.ALLOW_EVERYONE, Type.BOOLEAN, null, Importance.HIGH,
                "Whether what no ACL speaks of is allowed.");
        for (Names store : List.of(TRUSTSTORE, KEYSTORE)) {
            definition
                .define(store.location, Type.STRING, null, Importance.HIGH, "A file with certificates or keys.")
                .define(store.password, Type.PASSWORD, null, Importance.HIGH, "Its password.")
                .define(store.type, Type.STRING, "PKCS12", Importance.LOW, "Its type.");
        }
        return definition;
    }

    /** A check that raises IllegalArgumentException, of a value that may be null. */
    private static ConfigDef.Validator valid(Consumer<Object> check) {
        return (name, value) -> {
            try {
                if (value != null) {
                    check.accept(value);
                }
            } catch (IllegalArgumentException wrong) {
                throw new ConfigException(name, value, wrong.getMessage());
            }
        };
    }

    static Settings of(Map<String, ?> configs) {
        checkNames(configs.keySet());
        Map<String, Object> values = DEFINITION.parse(without(configs));
        Path tokenFile = path(values, TOKEN_FILE);
        if (tokenFile != null) {
            try {
                token(tokenFile);
            } catch (IOException fault) {
                throw new ConfigException(TOKEN_FILE, tokenFile, fault.getMessage());
            }
        }
        Store truststore = store(values, TRUSTSTORE);
        Store keystore = store(values, KEYSTORE);
        return new Settings(
            urls((List<?>) values.get(URLS)), tokenFile,
            truststore == null && keystore == null ? null : new Tls(truststore, keystore), state(values),
            (Long) values.get(MAX_STALENESS_MS), (String) values.get(PRINCIPAL), own(values), decisionLog(values));
    }

    private static void checkNames(Set<String> names) {
        for (String name : names) {
            if (name.startsWith(PREFIX) && !DEFINITION.names().contains(name)) {
                Set<String> known = new TreeSet<>(DEFINITION.names());
                known.removeIf(each -> !each.startsWith(PREFIX));
                throw new ConfigException("`" + name + "` is no setting of this plugin; the settings are "
                    + String.join(", ", known));
            }
        }
    }

    /** The settings that this plugin reads, without those of its own that are empty. */
    private static Map<String, Object> without(Map<String, ?> configs) {
        Map<String, Object> kept = new HashMap<>();
        for (String name : DEFINITION.names()) {
            Object value = configs.get(name);
            boolean isEmpty = name.startsWith(PREFIX) && !name.equals(URLS) && value instanceof String text
                && text.isBlank();
            if (value != null && !isEmpty) {
                kept.put(name, value);
            }
        }
        return kept;
    }

    private static Store store(Map<String, Object> values, Names names) {
        Path location = path(values, names.location);
        return location == null
            ? null : new Store(location, (Password) values.get(names.password), (String) values.get(names.type));
    }

    private static State state(Map<String, Object> values) {
        Path folder = path(values, STATE_DIR);
        if (folder == null) {
            return null;
        }
        check(STATE_DIR, folder);
        return new State(folder, (Boolean) values.get(STATE_GROUP));
    }

    private static DecisionFiles.Bounds decisionLog(Map<String, Object> values) {
        Path folder = path(values, DECISION_LOG);
        if (folder == null) {
            return null;
        }
        check(DECISION_LOG, folder);
        return new DecisionFiles.Bounds(folder, (Long) values.get(DECISION_LOG_BYTES));
    }

    private static Path path(Map<String, Object> values, String name) {
        String text = (String) values.get(name);
        return text == null ? null : Path.of(text);
    }

    private static void check(String name, Path folder) {
        try {
            Files.createDirectories(folder);
        } catch (IOException fault) {
            throw new ConfigException(name, folder, "the folder can't be made: " + fault);
        }
        if (!Files.isWritable(folder)) {
            throw new ConfigException(name, folder, "the folder can't be written to");
        }
    }

    /** The token, read anew each time, so that it can be changed while the broker runs. Raises IOException. */
    static String token(Path file) throws IOException {
        String token;
        try {
            token = Files.readString(file).trim();
        } catch (IOException fault) {
            throw new IOException("the file of the token can't be read: " + fault);
        }
        if (token.isEmpty() || !token.chars().allMatch(each -> each > ' ' && each < 0x7F)) {
            throw new IOException("the file of the token must hold one token and nothing else");
        }
        return token;
    }

    private static List<URI> urls(List<?> texts) {
        List<URI> urls = new ArrayList<>();
        for (Object text : texts) {
            String url = text.toString().trim();
            if (!url.isEmpty()) {
                urls.add(url(url.endsWith("/") ? url.substring(0, url.length() - 1) : url));
            }
        }
        if (urls.isEmpty()) {
            throw new IllegalArgumentException("name where Klamm is, such as http://127.0.0.1:8080");
        }
        return List.copyOf(urls);
    }

    private static URI url(String text) {
        URI url;
        try {
            url = URI.create(text);
        } catch (IllegalArgumentException notOne) {
            throw new IllegalArgumentException("`" + text + "` is no URL");
        }
        boolean isHttp = "http".equals(url.getScheme());
        if (!isHttp && !"https".equals(url.getScheme()) || url.getHost() == null || url.getRawQuery() != null
            || url.getRawFragment() != null || url.getRawUserInfo() != null) {
            throw new IllegalArgumentException("`" + text + "` is not of the form https://host:port");
        }
        if (isHttp && !isLoopback(url.getHost())) {
            throw new IllegalArgumentException("`" + text
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

    private static void atLeast(long value, long least) {
        if (value < least) {
            throw new IllegalArgumentException("it must be at least " + least);
        }
    }

    private static void checkPrincipal(String text) {
        if (text.indexOf(':') < 0) {
            throw new IllegalArgumentException("it is not of the form User:name");
        }
    }

    private static void checkSuperUsers(String text) {
        for (String user : text.split(";")) {
            if (!user.isBlank() && user.indexOf(':') < 0) {
                // In the words of Kafka's own authorizer.
                throw new IllegalArgumentException(
                    "expected a string in format principalType:principalName but got " + user.trim());
            }
        }
    }

    private static Map<String, String> own(Map<String, Object> values) {
        Map<String, String> own = new HashMap<>();
        for (String name : List.of(Rules.SUPER_USERS, Rules.ALLOW_EVERYONE)) {
            Object value = values.get(name);
            if (value != null) {
                own.put(name, value.toString());
            }
        }
        return Map.copyOf(own);
    }
}
