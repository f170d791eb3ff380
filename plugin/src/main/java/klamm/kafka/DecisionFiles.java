package klamm.kafka;

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The closed files of a decision log, named as Klamm's own, so that both may lie in one folder. */
final class DecisionFiles {
    private static final Logger LOG = LoggerFactory.getLogger(DecisionFiles.class);
    private static final AtomicLong NUMBER = new AtomicLong();
    private static final DateTimeFormatter START =
        DateTimeFormatter.ofPattern("uuuuMMdd'T'HHmmss.SSSSSS'Z'").withZone(ZoneOffset.UTC);
    private static final String UNFINISHED = "_broker-decisions-";
    private static final long LEAST_BYTES = 4_096;
    private static final long LEFT_OVER_MS = 600_000;

    private final Bounds bounds;

    /** @param retentionBytes how much is kept; the newest file in any case */
    record Bounds(Path folder, long retentionBytes) {}

    private record Kept(Path path, long bytes) {}

    DecisionFiles(Bounds bounds) {
        this.bounds = bounds;
    }

    /** One more file, which is there as a whole or not at all. Without lines there is none. */
    void write(List<String> lines) throws IOException {
        if (lines.isEmpty()) {
            return;
        }
        String name =
            START.format(Instant.now()) + "-" + ProcessHandle.current().pid() + "-" + NUMBER.incrementAndGet();
        Path unfinished = bounds.folder.resolve(UNFINISHED + name);
        Path file = bounds.folder.resolve("decisions-" + name + ".jsonl");
        try {
            try (BufferedWriter out = Files.newBufferedWriter(
                unfinished, StandardCharsets.UTF_8, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
                for (String line : lines) {
                    out.write(line);
                    out.write('\n');
                }
            }
            Files.setPosixFilePermissions(unfinished, PosixFilePermissions.fromString("rw-r-----"));
            if (Files.exists(file)) {
                throw new FileAlreadyExistsException(file.toString());
            }
            Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException fault) {
            Files.deleteIfExists(unfinished);
            throw fault;
        }
        tidy();
    }

    /** Deletes the oldest closed files beyond the bound, and what processes that were killed left unfinished. */
    private void tidy() throws IOException {
        List<Kept> closed = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(bounds.folder)) {
            for (Path each : all) {
                look(each, closed);
            }
        }
        closed.sort(Comparator.comparing((Kept each) -> each.path.getFileName().toString()).reversed());
        long kept = 0;
        int deleted = 0;
        for (Kept each : closed) {
            kept += Math.max(each.bytes, LEAST_BYTES);
            if (kept > bounds.retentionBytes && each != closed.get(0) && Files.deleteIfExists(each.path)) {
                deleted++;
            }
        }
        if (deleted > 0) {
            LOG.warn("{} files of the decision log were deleted, as all are more than {}; some may not have been read",
                deleted, Settings.DECISION_LOG_BYTES);
        }
    }

    private static void look(Path path, List<Kept> closed) throws IOException {
        String name = path.getFileName().toString();
        try {
            if (name.startsWith("decisions-") && (name.endsWith(".jsonl") || name.endsWith(".jsonl.gz"))) {
                closed.add(new Kept(path, Files.size(path)));
            } else if (name.startsWith(UNFINISHED)
                && System.currentTimeMillis() - Files.getLastModifiedTime(path).toMillis() > LEFT_OVER_MS) {
                Files.deleteIfExists(path);
            }
        } catch (NoSuchFileException gone) {
            // Somebody else has taken it.
            return;
        }
    }
}
