package klamm.kafka;

import java.math.BigInteger;
import java.util.Map;

/**
 * The store's state at an offset: what all decisions of a request are made from. Immutable, but for the clock.
 *
 * @param epochs of its history; the last one is in force
 * @param hash of the record at the offset
 * @param digest of the ACLs and properties
 */
record Image(
    Epochs epochs, long offset, byte[] hash, BigInteger digest, Map<String, String> configs, Rules rules, Index index,
    StoreTime time) {

    Token token() {
        return new Token(epochs.last(), offset);
    }

    /** Whether all that had been written up to this token is in it. */
    boolean has(Token token) {
        return epochs.has(token, offset);
    }

    /** The same state, under properties of the broker's own file, which win over the store's. */
    Image under(Map<String, String> own) {
        return new Image(epochs, offset, hash, digest, configs, Rules.of(own, configs), index, time);
    }

    /** The same state, in whose history another epoch has begun. */
    Image in(Epochs more) {
        return new Image(more, offset, hash, digest, configs, rules, index, time);
    }
}
