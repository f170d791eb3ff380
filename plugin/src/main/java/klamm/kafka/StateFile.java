package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The last image on disk: the events of its snapshot and of the changes since then, as they came. Reading it is reading
 * a stream, with all of its proofs.
 */
final class StateFile implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(StateFile.class);
    private static final int MOST_USERS = 16;
    private static final long AT_LEAST_BYTES = 8 << 20;

    private final FileChannel lock;
    private final Path file;
    private final Path unfinished;
    private OutputStream snapshot;
    private FileChannel changes;
    private long snapshotBytes;

    private StateFile(FileChannel lock, Path file) {
        this.lock = lock;
        this.file = file;
        this.unfinished = file.resolveSibling(file.getFileName() + ".new");
    }

    /**
     * A file that nobody else uses: broker and controller of one process have an authorizer each. Raises IOException if
     * there is none.
     */
    static StateFile in(Path folder) throws IOException {
        for (int number = 1; number <= MOST_USERS; number++) {
            FileChannel channel = FileChannel.open(
                folder.resolve("state-" + number + ".lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            try {
                FileLock held = channel.tryLock();
                if (held != null) {
                    return new StateFile(channel, folder.resolve("state-" + number + ".jsonl"));
                }
            } catch (OverlappingFileLockException heldByThisProcess) {
                LOG.debug("{} is in use", channel);
            }
            channel.close();
        }
        throw new IOException("all " + MOST_USERS + " state files in " + folder + " are in use");
    }

    /** Give the file's events to a feed; returns when they were last known to be the newest, or null without a file. */
    Instant load(Feed feed) throws IOException, FeedException {
        feed.begin();
        try (InputStream in = new BufferedInputStream(Files.newInputStream(file), 1 << 20)) {
            Lines lines = new Lines(in);
            for (byte[] line = lines.next(); line != null; line = lines.next()) {
                JsonNode event = Feed.parse(line, line.length);
                feed.take(event);
            }
        } catch (NoSuchFileException none) {
            return null;
        }
        if (feed.image() == null) {
            throw new FeedException("the state file holds no whole snapshot");
        }
        return Files.getLastModifiedTime(file).toInstant();
    }

    /** A snapshot begins, which takes the file's place once it is whole. */
    void begin() throws IOException {
        abandon();
        snapshot = new BufferedOutputStream(Files.newOutputStream(unfinished), 1 << 20);
        snapshotBytes = 0;
    }

    /** A part of a snapshot that has begun. */
    void part(byte[] line) throws IOException {
        snapshot.write(line);
        snapshot.write('\n');
        snapshotBytes += line.length + 1;
    }

    void commit() throws IOException {
        snapshot.close();
        snapshot = null;
        FileChannel whole = FileChannel.open(unfinished, StandardOpenOption.APPEND);
        whole.force(true);
        Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        if (changes != null) {
            changes.close();
        }
        changes = whole;
        try (FileChannel folder = FileChannel.open(file.toAbsolutePath().getParent())) {
            folder.force(true);
        }
    }

    /** A change of the image in the file. One write, so that a kill leaves it whole or not there. */
    void append(byte[] line) throws IOException {
        if (changes == null) {
            changes = FileChannel.open(file, StandardOpenOption.APPEND);
            snapshotBytes = changes.size();
        }
        ByteBuffer whole = ByteBuffer.allocate(line.length + 1).put(line).put((byte) '\n').flip();
        while (whole.hasRemaining()) {
            changes.write(whole);
        }
    }

    /** Whether the changes have become longer than what they change, so that a new snapshot would be shorter. */
    boolean isLong() throws IOException {
        return changes != null && changes.size() - snapshotBytes > Math.max(snapshotBytes, AT_LEAST_BYTES);
    }

    /** What the file holds is the store's state now. */
    void isFresh() throws IOException {
        if (changes != null || Files.exists(file)) {
            Files.setLastModifiedTime(file, FileTime.from(Instant.now()));
        }
    }

    /** Take the file away: what can't be kept up to date must not come back. */
    void discard() throws IOException {
        abandon();
        if (changes != null) {
            changes.close();
            changes = null;
        }
        Files.deleteIfExists(file);
    }

    private void abandon() throws IOException {
        if (snapshot != null) {
            snapshot.close();
            snapshot = null;
        }
    }

    @Override
    public void close() throws IOException {
        abandon();
        if (changes != null) {
            changes.close();
        }
        lock.close();
    }
}
