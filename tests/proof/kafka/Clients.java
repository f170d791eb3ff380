import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Applications of Kafka, one a line of standard input: its kind, its user's properties, then its names. Each is answered
 * by `done`, or by the exceptions that it ended with, outermost first.
 *
 * Argument: the broker's address.
 */
public class Clients {
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static String address;
    private static int streams;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String said = "done";
            try {
                run(words[0], user(words[1]), Arrays.copyOfRange(words, 2, words.length));
            } catch (Exception refused) {
                List<String> names = new ArrayList<>();
                for (Throwable each = refused; each != null; each = each.getCause()) {
                    names.add(each.getClass().getSimpleName());
                }
                said = String.join(" ", names) + " " + refused.getMessage().replace('\n', ' ');
            }
            System.out.println(said);
        }
    }

    private static void run(String kind, Properties user, String[] names) throws Exception {
        switch (kind) {
            case "topics" -> topics(user, names);
            case "produce" -> produce(user, names[0]);
            case "consume" -> consume(user, names[0], names[1]);
            case "transact" -> transact(user, names[0], names[1], names[2], names[3]);
            case "share" -> share(user, names[0], names[1]);
            case "stream" -> stream(user, names[0], names[1], names[2]);
            default -> throw new IllegalArgumentException(kind);
        }
    }

    private static Properties user(String name) {
        Properties user = new Properties();
        user.put("bootstrap.servers", address);
        user.put("security.protocol", "SASL_PLAINTEXT");
        user.put("sasl.mechanism", "PLAIN");
        user.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\""
            + name + "\" password=\"" + name + "-knows\";");
        user.put("auto.offset.reset", "earliest");
        user.put("default.api.timeout.ms", "20000");
        user.put("request.timeout.ms", "15000");
        user.put("max.block.ms", "20000");
        return user;
    }

    /** Make topics, of which the last is a share group's name. */
    private static void topics(Properties user, String[] names) throws Exception {
        try (Admin admin = Admin.create(user)) {
            for (String name : Arrays.copyOf(names, names.length - 1)) {
                admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
            }
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, names[names.length - 1]);
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            admin.incrementalAlterConfigs(
                Map.of(group, List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
        }
    }

    private static void produce(Properties user, String topic) throws Exception {
        try (Producer<String, String> producer =
                new KafkaProducer<>(user, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "key", "value")).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (ExecutionException refused) {
            throw (Exception) refused.getCause();
        }
    }

    private static void consume(Properties user, String topic, String group) {
        user.put("group.id", group);
        try (Consumer<String, String> consumer =
                new KafkaConsumer<>(user, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                check(until);
            }
            consumer.commitSync();
        }
    }

    private static void check(long until) {
        if (System.nanoTime() > until) {
            throw new IllegalStateException("nothing came");
        }
    }

    private static void transact(Properties user, String topic, String from, String id, String group) throws Exception {
        user.put("transactional.id", id);
        user.put("group.id", group);
        try (Producer<String, String> producer =
                    new KafkaProducer<>(user, new StringSerializer(), new StringSerializer());
                Consumer<String, String> consumer =
                    new KafkaConsumer<>(user, new StringDeserializer(), new StringDeserializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "key", "value"));
            consumer.subscribe(List.of(from));
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(from, 0), new OffsetAndMetadata(1)), consumer.groupMetadata());
            producer.commitTransaction();
        }
    }

    private static void share(Properties user, String topic, String group) {
        user.remove("auto.offset.reset");
        user.put("group.id", group);
        try (ShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(user, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                check(until);
            }
            consumer.commitSync();
        }
    }

    /** Counts words, by way of a repartition topic and a changelog. Each is new: its name is only the beginning. */
    private static void stream(Properties user, String name, String from, String to) throws Exception {
        String id = name + "-" + ++streams;
        user.put("application.id", id);
        user.put("commit.interval.ms", "100");
        user.put("statestore.cache.max.bytes", "0");
        user.put("state.dir", java.nio.file.Files.createTempDirectory("streams").toString());
        CompletableFuture<Void> over = new CompletableFuture<>();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(from, Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, value) -> value, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().to(to, Produced.with(Serdes.String(), Serdes.Long()));
        try (KafkaStreams running = new KafkaStreams(builder.build(), user)) {
            running.setUncaughtExceptionHandler(fault -> {
                over.completeExceptionally(fault);
                return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse
                    .SHUTDOWN_CLIENT;
            });
            running.start();
            Properties reader = user("broker");
            reader.put("group.id", "reader-of-" + id);
            try (Consumer<String, byte[]> consumer = new KafkaConsumer<>(
                    reader, new StringDeserializer(), new org.apache.kafka.common.serialization.ByteArrayDeserializer())) {
                consumer.assign(List.of(new TopicPartition(to, 0)));
                consumer.seekToEnd(List.of(new TopicPartition(to, 0)));
                consumer.position(new TopicPartition(to, 0));
                long until = System.nanoTime() + 2 * PATIENCE.toNanos();
                while (!over.isDone() && consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                    check(until);
                    produce(user("broker"), from);
                }
            }
            if (over.isDone()) {
                over.get();
            }
        } catch (ExecutionException refused) {
            throw (Exception) refused.getCause();
        }
    }
}
