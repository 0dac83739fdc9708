// The official Node SDK, driven by lines of JSON: see commands.md beside this file. Arguments: the endpoints, the folder with the SDK.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [endpoints, folder] = process.argv.slice(2);
const sdk = createRequire(`${folder}/`)('rocketmq-client-nodejs');
const SQL = 2; // FilterType.SQL of the protocol
const RESOLUTIONS = { UNKNOWN: 0, COMMIT: 1, ROLLBACK: 2 }; // TransactionResolution of the protocol
const logger = { info() {}, warn() {}, error() {}, debug() {} };
const opened = new Map();
const received = new Map();

const say = line => process.stdout.write(`${JSON.stringify(line)}\n`);
const bodyOf = message => (message.body.length > 1000 ? `${message.body.length} bytes` : message.body.toString());

const options = command => ({
  endpoints: command.endpoints ?? endpoints,
  namespace: command.namespace ?? '',
  requestTimeout: 1000 * (command.timeout_s ?? 3),
  sslEnabled: command.ssl ?? false,
  sessionCredentials: command.access_key ? { accessKey: command.access_key, accessSecret: command.secret_key } : undefined,
  logger,
});

function seen(message) {
  const ref = String(received.size + 1);
  received.set(ref, message);
  return {
    ref,
    topic: message.topic,
    body: bodyOf(message),
    message_id: message.messageId,
    tag: message.tag || null,
    keys: message.keys,
    message_group: message.messageGroup || null,
    properties: Object.fromEntries(message.properties),
    attempt: message.deliveryAttempt,
    born_ms: message.bornTimestamp?.getTime(),
    born_host: message.bornHost,
    delivery_ms: message.deliveryTimestamp?.getTime() ?? null,
  };
}

const subscriptions = command => new Map(Object.entries(command.subscriptions).map(([topic, one]) => [
  topic, one.startsWith('SQL:') ? new sdk.FilterExpression(one.slice(4), SQL) : new sdk.FilterExpression(one),
]));

function message(command, body) {
  return {
    topic: command.topic,
    body: command.body_bytes === undefined ? Buffer.from(body) : Buffer.alloc(command.body_bytes, 'x'),
    tag: command.tag,
    keys: command.keys,
    messageGroup: command.message_group,
    delay: command.delay_s === undefined ? undefined : 1000 * command.delay_s,
    properties: new Map(Object.entries(command.properties ?? {})),
  };
}

const ops = {
  async producer(command) {
    const checker = command.checks && {
      async check(half) {
        const resolution = command.checks[bodyOf(half)] ?? 'UNKNOWN';
        say({ event: 'check', name: command.name, body: bodyOf(half), resolution });
        return RESOLUTIONS[resolution];
      },
    };
    const producer = new sdk.Producer({ ...options(command), topics: command.topics ?? [], checker });
    await producer.startup();
    opened.set(command.name, producer);
  },
  async send(command) {
    const producer = opened.get(command.name);
    let receipt;
    if (command.transaction === undefined) {
      receipt = await producer.send(message(command, command.body ?? ''));
    } else {
      const transaction = producer.beginTransaction();
      receipt = await producer.send(message(command, command.body ?? ''), transaction);
      if (command.transaction === 'commit') await transaction.commit();
      if (command.transaction === 'rollback') await transaction.rollback();
    }
    return { message_id: receipt.messageId, recall_handle: receipt.recallHandle };
  },
  async load(command) {
    const producer = opened.get(command.name);
    const [threads, groups] = [command.threads ?? 1, command.message_groups ?? 0];
    let failed = 0;
    const start = process.hrtime.bigint();
    await Promise.all(Array.from({ length: threads }, async (_, first) => {
      for (let i = (command.first ?? 0) + first; i < command.count; i += threads) {
        const one = groups ? { ...command, message_group: `${command.message_group ?? 'g'}${i % groups}` } : command;
        for (let sent = false; !sent;) {
          try {
            await producer.send(message(one, `${command.body ?? ''}${i}`));
            sent = true;
          } catch {
            failed += 1;
            sent = !command.again;
          }
        }
      }
    }));
    return { failed, seconds: Number(process.hrtime.bigint() - start) / 1e9 };
  },
  async recall(command) {
    return (await opened.get(command.name).recallMessage(command.topic, command.handle)).messageId;
  },
  async simple(command) {
    const consumer = new sdk.SimpleConsumer({
      ...options(command), consumerGroup: command.group, subscriptions: subscriptions(command), awaitDuration: 1000 * (command.await_s ?? 5),
    });
    await consumer.startup();
    opened.set(command.name, consumer);
  },
  async receive(command) {
    const messages = await opened.get(command.name).receive(command.max ?? 32, 1000 * (command.invisible_s ?? 15));
    return messages.map(seen);
  },
  async ack(command) {
    await opened.get(command.name).ack(received.get(command.message));
  },
  async change(command) {
    await opened.get(command.name).changeInvisibleDuration(received.get(command.message), 1000 * command.invisible_s);
  },
  async drain(command) {
    const consumer = opened.get(command.name);
    let messages = 0;
    const start = process.hrtime.bigint();
    await Promise.all(Array.from({ length: command.threads ?? 1 }, async () => {
      while (messages < command.count) {
        const got = await consumer.receive(32, 30000);
        if (got.length === 0) return;
        for (const one of got) {
          await consumer.ack(one);
          messages += 1;
        }
      }
    }));
    return { messages, seconds: Number(process.hrtime.bigint() - start) / 1e9 };
  },
  async push(command) {
    const runs = new Map();
    const consumer = new sdk.PushConsumer({
      ...options(command),
      consumerGroup: command.group,
      subscriptions: subscriptions(command),
      messageListener: {
        async consume(one) {
          const body = bodyOf(one);
          runs.set(body, (runs.get(body) ?? 0) + 1);
          const failed = runs.get(body) <= (command.fails?.[body] ?? 0);
          say({ event: 'message', name: command.name, message: seen(one), failed, at_ms: Date.now() });
          if (command.runs_s) await new Promise(done => setTimeout(done, 1000 * command.runs_s));
          return failed ? sdk.ConsumeResult.FAILURE : sdk.ConsumeResult.SUCCESS;
        },
      },
    });
    await consumer.startup();
    opened.set(command.name, consumer);
  },
  async close(command) {
    const one = opened.get(command.name);
    opened.delete(command.name);
    await one.shutdown();
  },
};

const lines = createInterface({ input: process.stdin });
lines.on('line', async line => {
  const command = JSON.parse(line);
  try {
    say({ id: command.id, ok: (await ops[command.op](command)) ?? null });
  } catch (error) {
    say({ id: command.id, error: { type: error.constructor.name, code: error.code, text: String(error.message) } });
  }
});
lines.on('close', () => process.exit(0));
