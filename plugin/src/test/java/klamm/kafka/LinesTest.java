package klamm.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

final class LinesTest {
    private static Lines lines(String text, int most) {
        return new Lines(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)), most);
    }

    private static String text(Lines.Line line) {
        return new String(line.bytes(), line.from(), line.length(), StandardCharsets.UTF_8);
    }

    @Test
    void linesComeOneAfterAnother() throws Exception {
        String long1 = "x".repeat(300_000);
        Lines lines = lines("a\n\n" + long1 + "\nb\n", 1 << 20);
        for (String wanted : new String[] {"a", "", long1, "b"}) {
            assertEquals(wanted, text(lines.next()));
        }
        assertNull(lines.next());
    }

    @Test
    void aLineThatWasCutIsNone() throws Exception {
        Lines lines = lines("a\nb", 1 << 20);
        assertEquals("a", text(lines.next()));
        assertThrows(IOException.class, lines::next);
    }

    @Test
    void aLineWithoutRoomIsRefused() throws Exception {
        Lines lines = lines("a\n" + "x".repeat(200_001) + "\n", 200_000);
        assertEquals("a", text(lines.next()));
        assertThrows(FeedException.class, lines::next);
    }

    @Test
    void aLineOfSmallValuesWithoutRoomIsRefused() {
        byte[] line = ("{\"a\":[" + "{},".repeat(2 << 20) + "{}]}").getBytes(StandardCharsets.UTF_8);
        FeedException refusal =
            assertThrows(FeedException.class, () -> Json.object(new Lines.Line(line, 0, line.length)));
        assertEquals(true, refusal.getMessage().contains("no memory"), refusal::getMessage);
    }
}
