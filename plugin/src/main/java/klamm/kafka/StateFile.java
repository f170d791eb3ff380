package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The last image on disk: a line of the keeper's own, then the events of the image's snapshot and of the changes since
 * then, as they came. Reading it is reading a stream, with all of its proofs.
 *
 * <p>The first line has a fixed length, and is written anew in place. It says of which Kafka cluster's node the file
 * is, and how old its state was when the upstream last said so. Files of the version before lack it.
 *
 * <p>INVARIANT: once it is closed nothing is written, as the lock is another's then.
 */
final class StateFile implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(StateFile.class);
    private static final String TYPE = "state";
    private static final int VERSION = 2;
    private static final int FIRST_LINE = 1_024;
    private static final int MOST_OF_ID = 100;
    private static final int MOST_USERS = 16;
    private static final int BUFFER = 1 << 20;
    private static final long AT_LEAST_BYTES = 8 << 20;

    private final StateFolder folder;
    private final FileChannel lock;
    private final Path file;
    private final Path unfinished;
    private String clusterId = "";
    /** The snapshot that is being written; null: none. */
    private FileChannel newChannel;
    private OutputStream snapshot;
    /** The file that stands; null: none is open. */
    private FileChannel channel;
    private boolean hasFirstLine = true;
    private long snapshotBytes;
    private volatile boolean isClosed;

    /** @param age null: nobody knows */
    record LoadedState(Image image, Duration age) {}

    private StateFile(StateFolder folder, FileChannel lock, int number) {
        this.folder = folder;
        this.lock = lock;
        this.file = folder.file("state-" + number + ".jsonl");
        this.unfinished = folder.file("state-" + number + ".jsonl.new");
    }

    /**
     * A file that nobody else uses: broker and controller of one process have an authorizer each. Raises IOException if
     * there is none, or the folder is not this user's alone.
     */
    static StateFile in(Settings.State state) throws IOException {
        StateFolder folder = new StateFolder(state);
        for (int number = 1; number <= MOST_USERS; number++) {
            FileChannel lock = folder.open(
                folder.file("state-" + number + ".lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            try {
                FileLock held = lock.tryLock();
                if (held != null) {
                    return new StateFile(folder, lock, number);
                }
            } catch (OverlappingFileLockException heldByThisProcess) {
                LOG.debug("{} is in use", lock);
            }
            lock.close();
        }
        throw new IOException("all " + MOST_USERS + " state files in " + state.folder() + " are in use");
    }

    /** Names the Kafka cluster of this node, before anything else is done. */
    void of(String cluster) {
        clusterId = cluster.substring(0, Math.min(MOST_OF_ID, cluster.length()));
    }

    /**
     * The state of the file, or null without one. Raises FeedException for a file that is damaged, is of another Kafka
     * cluster, or may have been written by others.
     */
    LoadedState load(StoreTime time) throws IOException, FeedException {
        Following following = new Following(1, null);
        Feed feed = new Feed(following, time);
        following.opened(0);
        hasFirstLine = false;
        Duration age = null;
        try (FileChannel source = folder.open(file, StandardOpenOption.READ);
            InputStream in = new BufferedInputStream(Channels.newInputStream(source), BUFFER)) {
            folder.check(file);
            Lines lines = new Lines(in);
            for (Lines.Line line = lines.next(); line != null; line = lines.next()) {
                checkOpen();
                JsonNode event = Json.object(line);
                if (event.path("type").asText().equals(TYPE)) {
                    hasFirstLine = true;
                    age = age(event);
                } else {
                    feed.take(event, line.length(), 0);
                }
            }
        } catch (NoSuchFileException none) {
            return null;
        }
        if (feed.image() == null) {
            throw new FeedException("the state file holds no whole snapshot");
        }
        return new LoadedState(feed.image(), age);
    }

    private Duration age(JsonNode line) throws FeedException {
        if (FeedRecord.number(line, "version") > VERSION) {
            throw new UnknownDataException("the state file is of version " + FeedRecord.number(line, "version"));
        }
        if (!FeedRecord.text(line, "kafka_cluster_id").equals(clusterId)) {
            throw new FeedException("the state file is of a node of the Kafka cluster `"
                + FeedRecord.text(line, "kafka_cluster_id") + "`, and this node is of `" + clusterId + "`");
        }
        Instant at = FeedRecord.instant(line, "at");
        if (at == null || line.path("age_ms").isNull()) {
            return null;
        }
        Duration since = Duration.between(at, Instant.now());
        // A clock that was put back does not tell how long ago that was.
        return since.isNegative() ? null : since.plusMillis(FeedRecord.number(line, "age_ms"));
    }

    /** @param ageMs null: nobody knows */
    private byte[] firstLine(Long ageMs) {
        ObjectNode line = Json.MAPPER.createObjectNode().put("type", TYPE).put("version", VERSION)
            .put("kafka_cluster_id", clusterId).put("age_ms", ageMs).put("at", Instant.now().toString());
        byte[] whole = new byte[FIRST_LINE];
        Arrays.fill(whole, (byte) ' ');
        byte[] text = line.toString().getBytes(StandardCharsets.UTF_8);
        System.arraycopy(text, 0, whole, 0, text.length);
        whole[FIRST_LINE - 1] = '\n';
        return whole;
    }

    /** Move a file away that is not to be used. */
    synchronized void setAside() throws IOException {
        checkOpen();
        if (Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
            Files.move(
                file, file.resolveSibling(file.getFileName() + ".refused"), StandardCopyOption.REPLACE_EXISTING);
        }
    }

    /** A snapshot begins, which takes the file's place once it is whole. */
    synchronized void begin() throws IOException {
        abandon();
        create();
        snapshot = new BufferedOutputStream(Channels.newOutputStream(newChannel), BUFFER);
        snapshot.write(firstLine(null));
    }

    private void create() throws IOException {
        checkOpen();
        Files.deleteIfExists(unfinished);
        newChannel = folder.open(
            unfinished, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE);
    }

    /** A part of a snapshot that has begun. */
    synchronized void part(Lines.Line line) throws IOException {
        checkOpen();
        snapshot.write(line.bytes(), line.from(), line.length());
        snapshot.write('\n');
    }

    synchronized void commit() throws IOException {
        checkOpen();
        snapshot.flush();
        snapshot = null;
        show();
        snapshotBytes = channel.size();
    }

    /** The new file takes the place of the one that stands. */
    private void show() throws IOException {
        newChannel.force(true);
        Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        if (channel != null) {
            channel.close();
        }
        channel = newChannel;
        newChannel = null;
        hasFirstLine = true;
        folder.sync();
    }

    /** A change of the image in the file. One write, so that a kill leaves it whole or not there. */
    synchronized void append(Lines.Line line) throws IOException {
        open();
        ByteBuffer whole = ByteBuffer.allocate(line.length() + 1);
        whole.put(line.bytes(), line.from(), line.length()).put((byte) '\n').flip();
        for (long at = channel.size(); whole.hasRemaining();) {
            at += channel.write(whole, at);
        }
    }

    /** So old is the state of the file, by the upstream's word. */
    synchronized void confirm(long ageMs) throws IOException {
        open();
        channel.write(ByteBuffer.wrap(firstLine(ageMs)), 0);
    }

    private void open() throws IOException {
        checkOpen();
        if (channel != null) {
            return;
        }
        FileChannel existing = folder.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE);
        channel = existing;
        snapshotBytes = existing.size();
        if (!hasFirstLine) {
            create();
            newChannel.write(ByteBuffer.wrap(firstLine(null)));
            for (long at = 0; at < existing.size();) {
                at += existing.transferTo(at, existing.size() - at, newChannel);
            }
            show();
        }
    }

    /** Whether the changes have become longer than what they change, so that a new snapshot would be shorter. */
    synchronized boolean isLong() throws IOException {
        return channel != null && channel.size() - snapshotBytes > Math.max(snapshotBytes, AT_LEAST_BYTES);
    }

    /** Take the file away: what can't be kept up to date must not come back. */
    synchronized void discard() throws IOException {
        checkOpen();
        abandon();
        if (channel != null) {
            channel.close();
            channel = null;
        }
        Files.deleteIfExists(file);
    }

    private void abandon() throws IOException {
        snapshot = null;
        if (newChannel != null) {
            newChannel.close();
            newChannel = null;
        }
    }

    private void checkOpen() throws IOException {
        if (isClosed) {
            throw new IOException("the state file is closed");
        }
    }

    @Override
    public void close() throws IOException {
        isClosed = true;
        synchronized (this) {
            abandon();
            if (channel != null) {
                channel.close();
                channel = null;
            }
            lock.close();
        }
    }
}
