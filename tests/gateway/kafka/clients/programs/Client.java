import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own client, driven by lines of JSON: see commands.md beside this file. Arguments: the address. */
public final class Client {
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();

    private final String address;
    private final Map<String, Consumer<byte[], byte[]>> members = new ConcurrentHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private Client(String address) {
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        new Client(arguments[0]).serve();
    }

    private void serve() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            threads.submit(() -> answer(command));
        }
        System.exit(0);
    }

    private void answer(JsonObject command) {
        JsonObject answer = new JsonObject();
        answer.add("id", command.get("id"));
        try {
            answer.add("ok", GSON.toJsonTree(perform(command)));
        } catch (Throwable error) {
            answer.add("error", refusal(error));
        }
        print(answer);
    }

    private static JsonObject refusal(Throwable thrown) {
        Throwable error = thrown;
        while (error.getCause() != null) {
            error = error.getCause();
        }
        JsonObject refusal = new JsonObject();
        refusal.addProperty("type", error.getClass().getSimpleName());
        refusal.addProperty("code", Errors.forException(error).code());
        refusal.addProperty("text", String.valueOf(error.getMessage()));
        return refusal;
    }

    private static synchronized void print(JsonObject line) {
        System.out.println(GSON.toJson(line));
        System.out.flush();
    }

    private Object perform(JsonObject command) throws Exception {
        switch (text(command, "op", "")) {
            case "produce":
                return produce(command);
            case "read":
                return read(command);
            case "offset":
                try (Consumer<byte[], byte[]> consumer = consumer(command)) {
                    return offset(consumer, partition(command), command.get("at"));
                }
            case "create":
                return create(command);
            case "delete":
                try (Admin admin = Admin.create(properties(command))) {
                    admin.deleteTopics(Set.of(text(command, "topic", ""))).all().get();
                }
                return null;
            case "join":
                return join(command);
            case "poll":
                return poll(members.get(text(command, "name", "")), command);
            case "seek":
                Consumer<byte[], byte[]> member = members.get(text(command, "name", ""));
                member.seek(partition(command), offset(member, partition(command), command.get("at")));
                return null;
            case "commit":
                members.get(text(command, "name", "")).commitSync();
                return null;
            case "close":
                members.remove(text(command, "name", "")).close();
                return null;
            case "committed":
                try (Consumer<byte[], byte[]> consumer = consumer(command)) {
                    OffsetAndMetadata found = consumer.committed(Set.of(partition(command))).get(partition(command));
                    return found == null ? null : found.offset();
                }
            default:
                throw new IllegalArgumentException("no op: " + command);
        }
    }

    private Properties properties(JsonObject command) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        int patienceMs = (int) (1000 * number(command, "timeout_s", 60));
        properties.put("default.api.timeout.ms", patienceMs);
        properties.put("request.timeout.ms", Math.min(patienceMs, 30_000));
        return properties;
    }

    private List<Object> produce(JsonObject command) throws Exception {
        Properties properties = properties(command);
        properties.remove("default.api.timeout.ms");
        properties.put("linger.ms", 0);
        properties.put("max.block.ms", (int) (1000 * number(command, "timeout_s", 60)));
        properties.put("delivery.timeout.ms", (int) (1000 * number(command, "timeout_s", 60)));
        properties.put("batch.size", (int) number(command, "batch_bytes", 16_384));
        properties.put("compression.type", text(command, "compression", "none"));
        properties.put("enable.idempotence", flag(command, "idempotent") || command.has("transactional_id"));
        if (command.has("transactional_id")) {
            properties.put("transactional.id", text(command, "transactional_id", ""));
        }
        List<Object> places = new ArrayList<>();
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (command.has("transactional_id")) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonElement one : command.getAsJsonArray("records")) {
                sent.add(producer.send(record(text(command, "topic", ""), one.getAsJsonObject())));
                if (flag(command, "one_by_one")) {
                    sent.get(sent.size() - 1).get();
                }
            }
            for (Future<RecordMetadata> one : sent) {
                places.add(Map.of("partition", one.get().partition(), "offset", one.get().offset()));
            }
            if (command.has("transactional_id")) {
                producer.commitTransaction();
            }
        }
        return places;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonObject said) {
        Integer partition = isThere(said, "partition") ? said.get("partition").getAsInt() : null;
        Long timeMs = isThere(said, "time_ms") ? said.get("time_ms").getAsLong() : null;
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition, timeMs, bytes(said, "key"), bytes(said, "value"));
        if (isThere(said, "headers")) {
            for (JsonElement header : said.getAsJsonArray("headers")) {
                record.headers().add(text(header.getAsJsonObject(), "name", ""), bytes(header.getAsJsonObject(), "value"));
            }
        }
        return record;
    }

    private Consumer<byte[], byte[]> consumer(JsonObject command) {
        Properties properties = properties(command);
        properties.put("enable.auto.commit", false);
        properties.put("auto.offset.reset", "earliest");
        if (command.has("group")) {
            properties.put("group.id", text(command, "group", ""));
        }
        if (command.has("instance_id")) {
            properties.put("group.instance.id", text(command, "instance_id", ""));
        }
        if (command.has("session_timeout_s")) {
            int sessionMs = (int) (1000 * number(command, "session_timeout_s", 45));
            properties.put("session.timeout.ms", sessionMs);
            properties.put("heartbeat.interval.ms", sessionMs / 3);
        }
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private List<Object> read(JsonObject command) {
        try (Consumer<byte[], byte[]> consumer = consumer(command)) {
            TopicPartition partition = partition(command);
            consumer.assign(List.of(partition));
            Long start = offset(consumer, partition, command.get("at"));
            if (start == null) {
                return List.of();
            }
            consumer.seek(partition, start);
            return poll(consumer, command);
        }
    }

    private static Long offset(Consumer<byte[], byte[]> consumer, TopicPartition partition, JsonElement at) {
        if (at.isJsonObject()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, at.getAsJsonObject().get("time_ms").getAsLong())).get(partition);
            return found == null ? null : found.offset();
        }
        if (at.getAsString().equals("earliest")) {
            return consumer.beginningOffsets(Set.of(partition)).get(partition);
        }
        if (at.getAsString().equals("latest")) {
            return consumer.endOffsets(Set.of(partition)).get(partition);
        }
        return at.getAsLong();
    }

    private static List<Object> poll(Consumer<byte[], byte[]> consumer, JsonObject command) {
        long end = System.nanoTime() + (long) (1e9 * number(command, "timeout_s", 60));
        int count = (int) number(command, "count", 1);
        List<Object> came = new ArrayList<>();
        while (came.size() < count && System.nanoTime() < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                came.add(seen(record));
            }
        }
        return came;
    }

    private static Map<String, Object> seen(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            Map<String, Object> one = new HashMap<>();
            one.put("name", header.key());
            one.put("value", base64(header.value()));
            headers.add(one);
        }
        Map<String, Object> seen = new HashMap<>();
        seen.put("topic", record.topic());
        seen.put("partition", record.partition());
        seen.put("offset", record.offset());
        seen.put("key", base64(record.key()));
        seen.put("value", base64(record.value()));
        seen.put("headers", headers);
        seen.put("time_ms", record.timestamp());
        return seen;
    }

    private Object create(JsonObject command) throws Exception {
        Map<String, String> configs = new HashMap<>();
        if (isThere(command, "configs")) {
            command.getAsJsonObject("configs").asMap().forEach((name, value) -> configs.put(name, value.getAsString()));
        }
        NewTopic topic = new NewTopic(text(command, "topic", ""), (int) number(command, "partitions", 1), (short) 1).configs(configs);
        try (Admin admin = Admin.create(properties(command))) {
            admin.createTopics(Set.of(topic)).all().get();
        }
        return null;
    }

    private Object join(JsonObject command) {
        Consumer<byte[], byte[]> consumer = consumer(command);
        List<String> topics = new ArrayList<>();
        for (JsonElement topic : command.getAsJsonArray("topics")) {
            topics.add(topic.getAsString());
        }
        consumer.subscribe(topics);
        members.put(text(command, "name", ""), consumer);
        return null;
    }

    private static TopicPartition partition(JsonObject command) {
        return new TopicPartition(text(command, "topic", ""), (int) number(command, "partition", 0));
    }

    private static boolean isThere(JsonObject said, String name) {
        return said.has(name) && !(said.get(name) instanceof JsonNull);
    }

    private static byte[] bytes(JsonObject said, String name) {
        return isThere(said, name) ? Base64.getDecoder().decode(said.get(name).getAsString()) : null;
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static String text(JsonObject command, String name, String otherwise) {
        return isThere(command, name) ? command.get(name).getAsString() : otherwise;
    }

    private static double number(JsonObject command, String name, double otherwise) {
        return isThere(command, name) ? command.get(name).getAsDouble() : otherwise;
    }

    private static boolean flag(JsonObject command, String name) {
        return command.has(name) && command.get(name).getAsBoolean();
    }
}
