package klamm.kafka;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** What ACLs say to clients by their addresses: exact ones, as Kafka writes them, and ranges. */
final class Hosts {
    private static final Pattern IPV4 = Pattern.compile("(0|[1-9][0-9]{0,2})(\\.(0|[1-9][0-9]{0,2})){3}");
    private static final Comparator<Range> ORDER =
        Comparator.<Range>comparingLong(each -> each.cidr.low()).thenComparing(each -> -each.cidr.size4());
    private static final Range[] NO_RANGES = {};

    /** Where a part of all IPv4 addresses begins, rising, and what is said to that part. */
    private final long[] starts;
    private final long[] masks;
    /** For IPv6: an address with a zone equals no other, so texts are compared. */
    private final Map<String, Long> texts;
    private final Range[] ranges;

    private record Range(Cidr cidr, long mask) {}

    /** The last address of a range, and what is said to all of it. */
    private record Part(long last, long mask) {}

    /** @param all masks by host, of which none is {@code *} */
    Hosts(Map<String, Long> all) {
        List<Range> parts = new ArrayList<>();
        List<Range> others = new ArrayList<>();
        Map<String, Long> exact = new HashMap<>();
        all.forEach((host, mask) -> {
            Cidr cidr = cidr(host);
            if (cidr != null) {
                (cidr.bits() == 32 ? parts : others).add(new Range(cidr, mask));
            } else if (host.indexOf(':') >= 0 && host.indexOf('/') < 0) {
                exact.put(host, mask);
            }
        });
        texts = Map.copyOf(exact);
        ranges = others.toArray(NO_RANGES);
        starts = new long[2 * parts.size()];
        masks = new long[2 * parts.size()];
        Arrays.fill(starts, Long.MAX_VALUE);
        parts.sort(ORDER);
        split(parts);
    }

    /** Null for what is no IPv4 address as Java writes it, and no range. */
    private static Cidr cidr(String host) {
        if (host.indexOf('/') >= 0) {
            return Cidr.parse(host);
        }
        return IPV4.matcher(host).matches() ? Cidr.parse(host + "/32") : null;
    }

    /** Two ranges are apart, or one is within the other: so the ones that hold an address are a stack. */
    private void split(List<Range> parts) {
        Deque<Part> open = new ArrayDeque<>();
        int count = 0;
        for (Range range : parts) {
            count = closed(open, range.cidr.low(), count);
            long around = open.isEmpty() ? 0 : open.peek().mask;
            Part part = new Part(range.cidr.low() + range.cidr.size4() - 1, range.mask | around);
            open.push(part);
            count = begun(range.cidr.low(), part.mask, count);
        }
        closed(open, Long.MAX_VALUE, count);
    }

    /** End what ends before an address. */
    private int closed(Deque<Part> open, long before, int count) {
        int now = count;
        while (!open.isEmpty() && open.peek().last < before) {
            long next = open.pop().last + 1;
            now = begun(next, open.isEmpty() ? 0 : open.peek().mask, now);
        }
        return now;
    }

    private int begun(long start, long mask, int count) {
        int at = count > 0 && starts[count - 1] == start ? count - 1 : count;
        starts[at] = start;
        masks[at] = mask;
        return at + 1;
    }

    long mask(InetAddress address) {
        return address instanceof Inet4Address ipv4 ? mask4(ipv4.getAddress()) : mask6(address);
    }

    /** Allocates nothing: the array never leaves the caller's frame. */
    private long mask4(byte[] raw) {
        if (starts.length == 0) {
            return 0;
        }
        long address = (raw[0] & 0xFFL) << 24 | (raw[1] & 0xFF) << 16 | (raw[2] & 0xFF) << 8 | raw[3] & 0xFF;
        int low = 0;
        int high = starts.length;
        while (low < high) {
            int middle = low + high >>> 1;
            if (starts[middle] <= address) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low == 0 ? 0 : masks[low - 1];
    }

    private long mask6(InetAddress address) {
        long mask = 0;
        if (!texts.isEmpty()) {
            Long found = texts.get(address.getHostAddress());
            mask = found == null ? 0 : found;
        }
        if (ranges.length > 0) {
            byte[] raw = address.getAddress();
            for (Range range : ranges) {
                if (range.cidr.contains(raw)) {
                    mask |= range.mask;
                }
            }
        }
        return mask;
    }
}
