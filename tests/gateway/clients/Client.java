import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.shaded.com.google.gson.Gson;
import org.apache.rocketmq.shaded.com.google.gson.GsonBuilder;
import org.apache.rocketmq.shaded.com.google.gson.JsonArray;
import org.apache.rocketmq.shaded.com.google.gson.JsonElement;
import org.apache.rocketmq.shaded.com.google.gson.JsonObject;
import org.apache.rocketmq.shaded.com.google.gson.JsonParser;

/** The official Java SDK, driven by lines of JSON: see commands.md beside this file. Arguments: the endpoints. */
public final class Client {
    private static final ClientServiceProvider SDK = ClientServiceProvider.loadService();
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();

    private final String endpoints;
    private final Map<String, AutoCloseable> opened = new ConcurrentHashMap<>();
    private final Map<String, MessageView> received = new ConcurrentHashMap<>();
    private final AtomicLong references = new AtomicLong();
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private Client(String endpoints) {
        this.endpoints = endpoints;
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
        while (error.getCause() != null && !error.getClass().getName().contains("rocketmq.client")) {
            error = error.getCause();
        }
        JsonObject refusal = new JsonObject();
        refusal.addProperty("type", error.getClass().getSimpleName());
        String text = String.valueOf(error.getMessage());
        int code = text.indexOf("response-code=");
        if (code >= 0) {
            refusal.addProperty("code", Integer.parseInt(text.substring(code + 14, text.indexOf(']', code))));
        }
        refusal.addProperty("text", text);
        return refusal;
    }

    private static synchronized void print(JsonObject line) {
        System.out.println(GSON.toJson(line));
        System.out.flush();
    }

    private Object perform(JsonObject command) throws Exception {
        switch (text(command, "op", "")) {
            case "producer":
                return producer(command);
            case "send":
                return send(command);
            case "load":
                return load(command);
            case "recall":
                return of(Producer.class, command).recallMessage(text(command, "topic", ""), text(command, "handle", "")).getMessageId().toString();
            case "simple":
                return simple(command);
            case "receive":
                return receive(command);
            case "ack":
                of(SimpleConsumer.class, command).ack(received.get(text(command, "message", "")));
                return null;
            case "change":
                of(SimpleConsumer.class, command)
                    .changeInvisibleDuration(received.get(text(command, "message", "")), seconds(command, "invisible_s", 10));
                return null;
            case "drain":
                return drain(command);
            case "push":
                return push(command);
            case "close":
                opened.remove(text(command, "name", "")).close();
                return null;
            default:
                throw new IllegalArgumentException("unknown op: " + command);
        }
    }

    private <T> T of(Class<T> kind, JsonObject command) {
        return kind.cast(opened.get(text(command, "name", "")));
    }

    private ClientConfiguration configuration(JsonObject command) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(text(command, "endpoints", endpoints))
            .setRequestTimeout(seconds(command, "timeout_s", 3))
            .setNamespace(text(command, "namespace", ""))
            .enableSsl(command.has("ssl") && command.get("ssl").getAsBoolean());
        if (command.has("access_key")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(text(command, "access_key", ""), text(command, "secret_key", "")));
        }
        return builder.build();
    }

    private Object producer(JsonObject command) throws Exception {
        ProducerBuilder builder = SDK.newProducerBuilder().setClientConfiguration(configuration(command));
        List<String> topics = new ArrayList<>();
        for (JsonElement topic : array(command, "topics")) {
            topics.add(topic.getAsString());
        }
        builder.setTopics(topics.toArray(new String[0]));
        if (command.has("checks")) {
            JsonObject checks = command.getAsJsonObject("checks");
            builder.setTransactionChecker(message -> {
                String resolution = text(checks, body(message), "UNKNOWN");
                JsonObject event = new JsonObject();
                event.addProperty("event", "check");
                event.addProperty("name", text(command, "name", ""));
                event.addProperty("body", body(message));
                event.addProperty("resolution", resolution);
                print(event);
                return TransactionResolution.valueOf(resolution);
            });
        }
        opened.put(text(command, "name", ""), builder.build());
        return null;
    }

    private static Message message(JsonObject command, String body) {
        MessageBuilder builder = SDK.newMessageBuilder().setTopic(text(command, "topic", ""));
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        if (command.has("body_bytes")) {
            bytes = new byte[command.get("body_bytes").getAsInt()];
            Arrays.fill(bytes, (byte) 'x');
        }
        builder.setBody(bytes);
        if (command.has("tag")) {
            builder.setTag(text(command, "tag", ""));
        }
        if (command.has("keys")) {
            List<String> keys = new ArrayList<>();
            for (JsonElement key : array(command, "keys")) {
                keys.add(key.getAsString());
            }
            builder.setKeys(keys.toArray(new String[0]));
        }
        if (command.has("message_group")) {
            builder.setMessageGroup(text(command, "message_group", ""));
        }
        if (command.has("delay_s")) {
            builder.setDeliveryTimestamp(System.currentTimeMillis() + seconds(command, "delay_s", 0).toMillis());
        }
        if (command.has("properties")) {
            for (Map.Entry<String, JsonElement> property : command.getAsJsonObject("properties").entrySet()) {
                builder.addProperty(property.getKey(), property.getValue().getAsString());
            }
        }
        return builder.build();
    }

    private Object send(JsonObject command) throws Exception {
        Producer producer = of(Producer.class, command);
        Message message = message(command, text(command, "body", ""));
        SendReceipt receipt;
        if (command.has("transaction")) {
            Transaction transaction = producer.beginTransaction();
            receipt = producer.send(message, transaction);
            String end = text(command, "transaction", "");
            if (end.equals("commit")) {
                transaction.commit();
            } else if (end.equals("rollback")) {
                transaction.rollback();
            }
        } else {
            receipt = producer.send(message);
        }
        Map<String, String> sent = new HashMap<>();
        sent.put("message_id", receipt.getMessageId().toString());
        sent.put("recall_handle", receipt.getRecallHandle());
        return sent;
    }

    /** Many sends by some threads: messages PREFIX0, PREFIX1, …, round robin over the message groups. */
    private Object load(JsonObject command) throws Exception {
        Producer producer = of(Producer.class, command);
        int count = command.get("count").getAsInt();
        int workers = (int) number(command, "threads", 1);
        int groups = (int) number(command, "message_groups", 0);
        String group = text(command, "message_group", "g");
        boolean again = command.has("again") && command.get("again").getAsBoolean();
        List<Future<?>> running = new ArrayList<>();
        AtomicInteger failed = new AtomicInteger();
        long start = System.nanoTime();
        for (int worker = 0; worker < workers; worker++) {
            int first = (int) number(command, "first", 0) + worker;
            running.add(threads.submit(() -> {
                for (int i = first; i < count; i += workers) {
                    JsonObject one = command.deepCopy();
                    if (groups > 0) {
                        one.addProperty("message_group", group + i % groups);
                    }
                    for (boolean sent = false; !sent; ) {
                        try {
                            producer.send(message(one, text(command, "body", "") + i));
                            sent = true;
                        } catch (Exception error) {
                            failed.incrementAndGet();
                            sent = !again;
                        }
                    }
                }
            }));
        }
        for (Future<?> one : running) {
            one.get();
        }
        Map<String, Object> done = new HashMap<>();
        done.put("failed", failed.get());
        done.put("seconds", (System.nanoTime() - start) / 1e9);
        return done;
    }

    private static Map<String, FilterExpression> subscriptions(JsonObject command) {
        Map<String, FilterExpression> subscriptions = new HashMap<>();
        for (Map.Entry<String, JsonElement> one : command.getAsJsonObject("subscriptions").entrySet()) {
            String expression = one.getValue().getAsString();
            subscriptions.put(one.getKey(), expression.startsWith("SQL:")
                ? new FilterExpression(expression.substring(4), FilterExpressionType.SQL92)
                : new FilterExpression(expression, FilterExpressionType.TAG));
        }
        return subscriptions;
    }

    private Object simple(JsonObject command) throws Exception {
        opened.put(text(command, "name", ""), SDK.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration(command))
            .setConsumerGroup(text(command, "group", ""))
            .setAwaitDuration(seconds(command, "await_s", 5))
            .setSubscriptionExpressions(subscriptions(command))
            .build());
        return null;
    }

    private Object receive(JsonObject command) throws Exception {
        List<Object> messages = new ArrayList<>();
        for (MessageView message : of(SimpleConsumer.class, command).receive((int) number(command, "max", 32), seconds(command, "invisible_s", 15))) {
            messages.add(kept(message));
        }
        return messages;
    }

    /** Receives and acknowledges by some threads until so many messages have come, or a receive stays empty. */
    private Object drain(JsonObject command) throws Exception {
        SimpleConsumer consumer = of(SimpleConsumer.class, command);
        int count = command.get("count").getAsInt();
        int workers = (int) number(command, "threads", 1);
        AtomicInteger done = new AtomicInteger();
        List<Future<?>> running = new ArrayList<>();
        long start = System.nanoTime();
        for (int worker = 0; worker < workers; worker++) {
            running.add(threads.submit(() -> {
                while (done.get() < count) {
                    List<MessageView> messages = consumer.receive(32, Duration.ofSeconds(30));
                    if (messages.isEmpty()) {
                        break;
                    }
                    for (MessageView message : messages) {
                        consumer.ack(message);
                        done.incrementAndGet();
                    }
                }
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get();
        }
        Map<String, Object> end = new HashMap<>();
        end.put("messages", done.get());
        end.put("seconds", (System.nanoTime() - start) / 1e9);
        return end;
    }

    private Object push(JsonObject command) throws Exception {
        String name = text(command, "name", "");
        JsonObject fails = command.has("fails") ? command.getAsJsonObject("fails") : new JsonObject();
        Map<String, AtomicInteger> runs = new ConcurrentHashMap<>();
        opened.put(name, SDK.newPushConsumerBuilder()
            .setClientConfiguration(configuration(command))
            .setConsumerGroup(text(command, "group", ""))
            .setSubscriptionExpressions(subscriptions(command))
            .setConsumptionThreadCount((int) number(command, "threads", 4))
            .setEnableFifoConsumeAccelerator(command.has("accelerate") && command.get("accelerate").getAsBoolean())
            .setMessageListener(message -> {
                String body = body(message);
                int run = runs.computeIfAbsent(body, key -> new AtomicInteger()).incrementAndGet();
                boolean failure = fails.has(body) && run <= fails.get(body).getAsInt();
                long wait = (long) (1000 * number(command, "runs_s", 0));
                JsonObject event = new JsonObject();
                event.addProperty("event", "message");
                event.addProperty("name", name);
                event.add("message", GSON.toJsonTree(seen(message)));
                event.addProperty("failed", failure);
                event.addProperty("at_ms", System.currentTimeMillis());
                print(event);
                if (wait > 0) {
                    try {
                        Thread.sleep(wait);
                    } catch (InterruptedException error) {
                        Thread.currentThread().interrupt();
                    }
                }
                return failure ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            })
            .build());
        return null;
    }

    /** A message that later commands name. */
    private Map<String, Object> kept(MessageView message) {
        String reference = String.valueOf(references.incrementAndGet());
        received.put(reference, message);
        Map<String, Object> seen = seen(message);
        seen.put("ref", reference);
        return seen;
    }

    private static Map<String, Object> seen(MessageView message) {
        Map<String, Object> seen = new HashMap<>();
        seen.put("topic", message.getTopic());
        seen.put("body", body(message));
        seen.put("message_id", message.getMessageId().toString());
        seen.put("tag", message.getTag().orElse(null));
        seen.put("keys", new ArrayList<>(message.getKeys()));
        seen.put("message_group", message.getMessageGroup().orElse(null));
        seen.put("properties", message.getProperties());
        seen.put("attempt", message.getDeliveryAttempt());
        seen.put("born_ms", message.getBornTimestamp());
        seen.put("born_host", message.getBornHost());
        seen.put("delivery_ms", message.getDeliveryTimestamp().orElse(null));
        return seen;
    }

    private static String body(MessageView message) {
        ByteBuffer bytes = message.getBody();
        if (bytes.remaining() > 1_000) {
            return bytes.remaining() + " bytes";
        }
        return StandardCharsets.UTF_8.decode(bytes).toString();
    }

    private static String text(JsonObject command, String name, String otherwise) {
        return command.has(name) ? command.get(name).getAsString() : otherwise;
    }

    private static double number(JsonObject command, String name, double otherwise) {
        return command.has(name) ? command.get(name).getAsDouble() : otherwise;
    }

    private static Duration seconds(JsonObject command, String name, double otherwise) {
        return Duration.ofNanos((long) (1e9 * number(command, name, otherwise)));
    }

    private static JsonArray array(JsonObject command, String name) {
        return command.has(name) ? command.getAsJsonArray(name) : new JsonArray();
    }
}
