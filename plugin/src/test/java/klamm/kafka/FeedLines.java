package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HexFormat;

/**
 * Reads a feed's events from standard input, and writes for each what came of it: the state's token, hash, digest and
 * count of ACLs, or why it was refused. A line `canonical` before a transaction writes its first record's bytes.
 */
public final class FeedLines {
    private FeedLines() {}

    public static void main(String[] arguments) throws Exception {
        Following following = new Following(1, null);
        Feed feed = new Feed(following, new StoreTime());
        following.opened(0);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("canonical")) {
                JsonNode event = Stores.JSON.readTree(lines.readLine());
                FeedRecord record = FeedRecord.of(
                    event.path("records").get(0), event.path("first_offset").asLong(),
                    event.path("last_offset").asLong(), Instant.parse(event.path("recorded_at").asText()));
                System.out.println(HexFormat.of().formatHex(Proof.canonical(record)));
                continue;
            }
            byte[] bytes = line.getBytes(StandardCharsets.UTF_8);
            try {
                feed.take(Json.object(new Lines.Line(bytes, 0, bytes.length)), bytes.length, 0);
                Image image = feed.image();
                System.out.println(image == null ? "-" : image.token() + " " + Proof.hex(image.hash()) + " "
                    + Proof.hex(image.digest()) + " " + image.index().count());
            } catch (FeedException refusal) {
                // As after another request: for a snapshot, where one is needed.
                following.opened(0);
                System.out.println("refused: " + refusal.getMessage());
            }
        }
    }
}
