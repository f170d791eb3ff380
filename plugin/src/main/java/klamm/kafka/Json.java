package klamm.kafka;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** Events of the feed as JSON. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();
    private static final int SHORT = 1 << 20;
    /** What a value takes in memory beside its text. */
    private static final long VALUE_BYTES = 64;
    private static final int SHARE_OF_HEAP = 4;

    private Json() {}

    /** Raises FeedException for what is no JSON object, or would take more memory than there may be for it. */
    static JsonNode object(Lines.Line line) throws FeedException {
        try {
            if (line.length() > SHORT) {
                measure(line);
            }
            JsonNode event = MAPPER.readTree(line.bytes(), line.from(), line.length());
            if (event != null && event.isObject()) {
                return event;
            }
        } catch (IOException notJson) {
            // Its text repeats the line, which may be long.
        }
        throw new FeedException("a line is no JSON object");
    }

    /** A line of small values takes many times its length. */
    private static void measure(Lines.Line line) throws IOException, FeedException {
        long most = Runtime.getRuntime().maxMemory() / SHARE_OF_HEAP;
        long size = 0;
        try (JsonParser parser = MAPPER.createParser(line.bytes(), line.from(), line.length())) {
            for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
                size += VALUE_BYTES + (token.isScalarValue() ? parser.getTextLength() : 0);
                if (size > most) {
                    throw new FeedException("a line takes more than " + most + " bytes, for which there is no memory");
                }
            }
        }
    }
}
