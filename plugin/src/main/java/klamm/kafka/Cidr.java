package klamm.kafka;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A range of addresses of one IP version (KIP-1276). Host bits are ignored.
 *
 * @param bits 32 or 128; an IPv4 address is the lower half of {@code low}
 */
record Cidr(int bits, long high, long low, long highMask, long lowMask) {
    private static final Pattern IPV4 =
        Pattern.compile("([0-9]{1,3})\\.([0-9]{1,3})\\.([0-9]{1,3})\\.([0-9]{1,3})/([0-9]{1,2})");
    private static final Pattern LENGTH = Pattern.compile("[+-]?[0-9]{1,9}");

    /** The range that an ACL's host with a slash means; null if it means none, and so matches nobody. */
    static Cidr parse(String host) {
        return host.indexOf(':') < 0 ? ipv4(host) : ipv6(host);
    }

    private static Cidr ipv4(String host) {
        Matcher found = IPV4.matcher(host);
        if (!found.matches()) {
            return null;
        }
        long address = 0;
        for (int group = 1; group <= 4; group++) {
            int octet = Integer.parseInt(found.group(group));
            if (octet > 255) {
                return null;
            }
            address = address << 8 | octet;
        }
        int length = Integer.parseInt(found.group(5));
        if (length > 32) {
            return null;
        }
        long mask = length == 0 ? 0 : -1L << 32 - length & 0xFFFFFFFFL;
        return new Cidr(32, 0, address & mask, 0, mask);
    }

    private static Cidr ipv6(String host) {
        int slash = host.indexOf('/');
        String text = host.substring(0, slash);
        String lengthText = host.substring(slash + 1);
        if (!LENGTH.matcher(lengthText).matches()) {
            return null;
        }
        int length = Integer.parseInt(lengthText);
        byte[] address = length < 0 || length > 128 ? null : address(text);
        if (address == null) {
            return null;
        }
        long highMask = length == 0 ? 0 : length >= 64 ? -1L : -1L << 64 - length;
        long lowMask = length <= 64 ? 0 : length == 128 ? -1L : -1L << 128 - length;
        return new Cidr(128, number(address, 0) & highMask, number(address, 8) & lowMask, highMask, lowMask);
    }

    private static byte[] address(String text) {
        boolean bracketed = text.startsWith("[") && text.endsWith("]");
        String literal = bracketed ? text.substring(1, text.length() - 1) : text;
        // A zone is an interface of one machine; a range looks past it.
        int zone = literal.indexOf('%');
        literal = zone < 0 ? literal : literal.substring(0, zone);
        if (literal.indexOf(':') < 0) {
            return null;
        }
        try {
            // With a colon in it, Java takes it for an address or refuses it, and never asks a name server.
            InetAddress parsed = InetAddress.getByName(literal);
            return parsed instanceof Inet6Address ? parsed.getAddress() : null;
        } catch (UnknownHostException notAnAddress) {
            return null;
        }
    }

    static long number(byte[] address, int from) {
        long number = 0;
        for (int at = from; at < Math.min(address.length, from + 8); at++) {
            number = number << 8 | address[at] & 0xFF;
        }
        return number;
    }

    /** How many addresses a range of IPv4 holds. */
    long size4() {
        return (~lowMask & 0xFFFFFFFFL) + 1;
    }

    boolean contains(byte[] address) {
        if (address.length * 8 != bits) {
            return false;
        }
        if (bits == 32) {
            return (number(address, 0) & lowMask) == low;
        }
        return (number(address, 0) & highMask) == high && (number(address, 8) & lowMask) == low;
    }
}
