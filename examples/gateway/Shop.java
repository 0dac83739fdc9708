import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * A shop that sends its orders by RocketMQ's own SDK, and knows of nothing else.
 *
 * <p>It reads lines, NUMBER, MESSAGE GROUP, TAG and BODY between tabs, and sends each as a message. Those of one message group leave one
 * after the other, by the same thread. It prints each number when its message is acknowledged.
 *
 * <p>Arguments: the gateways (host:port;host:port), the topic, and how many threads.
 */
public final class Shop {
    private static final ClientServiceProvider SDK = ClientServiceProvider.loadService();

    private Shop() {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        ClientConfiguration configuration = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        Producer producer = SDK.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        ExecutorService[] threads = new ExecutorService[Integer.parseInt(arguments[2])];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = Executors.newSingleThreadExecutor();
        }
        System.err.println("the shop is open");

        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] parts = line.split("\t", 4);
            Message message = SDK.newMessageBuilder()
                .setTopic(topic)
                .setMessageGroup(parts[1])
                .setTag(parts[2])
                .addProperty("number", parts[0])
                .setBody(parts[3].getBytes(StandardCharsets.UTF_8))
                .build();
            threads[Math.floorMod(parts[1].hashCode(), threads.length)].submit(() -> send(producer, message, parts[0]));
        }
        for (ExecutorService thread : threads) {
            thread.shutdown();
        }
        for (ExecutorService thread : threads) {
            thread.awaitTermination(1, TimeUnit.DAYS);
        }
        producer.close();
    }

    /** Sends until it is acknowledged: the SDK gives up after three attempts, the shop does not. */
    private static void send(Producer producer, Message message, String number) {
        while (true) {
            try {
                producer.send(message);
                break;
            } catch (ClientException | RuntimeException failed) { // where nobody can be reached, it is gRPC's own exception
                System.err.println(number + " is sent again: " + failed.getMessage());
                pause();
            }
        }
        synchronized (System.out) {
            System.out.println(number);
            System.out.flush();
        }
    }

    private static void pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(100);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
