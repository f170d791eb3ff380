package klamm.kafka;

import java.io.IOException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import klamm.kafka.Decisions.Verdict;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What was decided, as lines that Klamm's pipeline reads (docs/decision-log.md): one a minute for the same question
 * with the same answer by the same ACL, with the context of the first. No decision waits for a disk.
 */
final class DecisionLog implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(DecisionLog.class);
    private static final long MINUTE_MS = 60_000;
    /** A decision that is under way when its minute ends is in its lines unless it takes longer. */
    private static final long UNDER_WAY_MS = 100;
    private static final long CLOSE_MS = 5_000;
    private static final long MOST_BYTES = 32 << 20;
    private static final int ENTRY_BYTES = 300;

    private final DecisionFiles files;
    private final String caller;
    private final Thread thread = new Thread(this::run, "klamm-decisions");
    private final CountDownLatch closing = new CountDownLatch(1);
    private final LongAdder lost = new LongAdder();
    private volatile Minute minute = new Minute();
    /** Lines that the disk did not take; at most those of one minute. */
    private List<String> waiting = List.of();

    /** Ids are 0 unless an ACL has decided. */
    private record Key(
        String principalType, String principal, List<String> groups, InetAddress host, byte operation, byte type,
        String name, Verdict verdict, long idHigh, long idLow) {}

    /** @param line without its end */
    private record Line(String line, LongAdder count) {}

    private static final class Minute {
        final Map<Key, Line> lines = new ConcurrentHashMap<>();
        final AtomicLong bytes = new AtomicLong();
        final LongAdder lost = new LongAdder();
    }

    /** @param caller what the lines say of where the question was asked */
    DecisionLog(DecisionFiles files, String caller) {
        this.files = files;
        this.caller = caller;
        this.thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /**
     * Kafka asks without either flag only where it tells a client what it might do (KIP-430). That is no use of an ACL,
     * and would make all of them look used.
     */
    static boolean isWanted(Action action) {
        return action.logIfAllowed() || action.logIfDenied();
    }

    long lost() {
        return lost.sum();
    }

    /**
     * @param acl null unless an ACL has decided
     * @param image null before the first
     */
    void take(AuthorizableRequestContext context, Action action, Verdict verdict, Acl acl, Image image) {
        if (context.clientAddress() == null) {
            // No broker asks so, and the pipeline takes no such line.
            return;
        }
        ResourcePattern resource = action.resourcePattern();
        Key key = new Key(
            context.principal().getPrincipalType(), context.principal().getName(),
            GroupPrincipal.groupsOf(context.principal()), context.clientAddress(), action.operation().code(),
            resource.resourceType().code(), resource.name(), verdict,
            acl == null ? 0 : acl.idHigh(), acl == null ? 0 : acl.idLow());
        Minute now = minute;
        Line line = now.lines.get(key);
        if (line == null) {
            if (now.bytes.get() > MOST_BYTES) {
                lost.increment();
                now.lost.increment();
                return;
            }
            line = new Line(DecisionLine.of(context, action, verdict, acl, image, caller), new LongAdder());
            Line other = now.lines.putIfAbsent(key, line);
            if (other == null) {
                now.bytes.addAndGet(ENTRY_BYTES + line.line.length() + key.principal.length() + key.name.length());
            } else {
                line = other;
            }
        }
        line.count.increment();
    }

    private void run() {
        try {
            while (!closing.await(MINUTE_MS, TimeUnit.MILLISECONDS)) {
                write();
            }
            write();
        } catch (InterruptedException asked) {
            LOG.warn("the decision log was interrupted");
        }
        lost.add(waiting.size());
    }

    private void write() throws InterruptedException {
        Minute done = minute;
        minute = new Minute();
        Thread.sleep(UNDER_WAY_MS);
        retry();
        if (done.lost.sum() > 0) {
            LOG.warn("{} decisions are not in the decision log: too many different ones in a minute", done.lost.sum());
        }
        List<String> lines = new ArrayList<>(done.lines.size());
        done.lines.values().forEach(each -> lines.add(DecisionLine.ended(each.line, each.count.sum())));
        try {
            files.write(lines);
        } catch (IOException fault) {
            LOG.error("the decision log can't be written, and is tried again in a minute: {}", fault.toString());
            waiting = lines;
        }
    }

    private void retry() {
        try {
            files.write(waiting);
        } catch (IOException fault) {
            LOG.error("{} lines of the decision log are lost: {}", waiting.size(), fault.toString());
            lost.add(waiting.size());
        }
        waiting = List.of();
    }

    @Override
    public void close() {
        closing.countDown();
        try {
            thread.join(CLOSE_MS);
        } catch (InterruptedException asked) {
            Thread.currentThread().interrupt();
        }
    }
}
