// kafkajs, driven by lines of JSON: see commands.md beside this file. Arguments: the address, the folder with kafkajs.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [address, folder] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { CompressionCodecs, CompressionTypes, Kafka, Partitioners, logLevel } = require('kafkajs');
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy'); // it has gzip alone by itself
const COMPRESSIONS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };

const members = new Map();
let names = 0;

const bytes = text => (text === null || text === undefined ? null : Buffer.from(text, 'base64'));
const base64 = content => (content === null || content === undefined ? null : Buffer.from(content).toString('base64'));

const kafka = command => new Kafka({
  brokers: address.split(','),
  logLevel: logLevel.NOTHING,
  retry: { retries: 5, initialRetryTime: 100, maxRetryTime: 1000 * (command.timeout_s ?? 60) },
});

// Headers of one name are an array, and the order of names is all that is left of theirs.
function headersOf(record) {
  const headers = {};
  for (const { name, value } of record.headers ?? []) {
    headers[name] = name in headers ? [headers[name], bytes(value)].flat() : bytes(value);
  }
  return headers;
}

const seen = (topic, partition, message) => ({
  topic,
  partition,
  offset: Number(message.offset),
  key: base64(message.key),
  value: base64(message.value),
  headers: Object.entries(message.headers ?? {}).flatMap(([name, values]) => [values].flat().map(value => ({ name, value: base64(value) }))),
  time_ms: Number(message.timestamp),
});

async function closing(client, work) {
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.disconnect();
  }
}

async function offsetAt(admin, command) {
  const { topic, partition = 0, at } = command;
  if (typeof at === 'number') return at;
  if (typeof at === 'object') {
    const found = (await admin.fetchTopicOffsetsByTimestamp(topic, at.time_ms)).find(one => one.partition === partition);
    const offset = Number(found.offset); // the end where there is none
    return offset === await offsetAt(admin, { ...command, at: 'latest' }) ? undefined : offset;
  }
  const found = (await admin.fetchTopicOffsets(topic)).find(one => one.partition === partition);
  return Number(at === 'earliest' ? found.low : found.high);
}

// A consumer without a group it has not: this one joins one of its own, and seeks.
async function join(command, group, topics) {
  const session = 1000 * (command.session_timeout_s ?? 30);
  const consumer = kafka(command).consumer({ groupId: group, sessionTimeout: session, heartbeatInterval: session / 10, maxWaitTimeInMs: 100 });
  const member = { consumer, came: [], polled: [], wake: () => {} };
  await consumer.connect();
  await consumer.subscribe({ topics, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    async eachMessage({ topic, partition, message }) {
      member.came.push(seen(topic, partition, message));
      member.wake();
    },
  });
  return member;
}

async function poll(member, command, wanted = () => true) {
  const end = Date.now() + 1000 * (command.timeout_s ?? 60);
  const count = command.count ?? 1;
  for (;;) {
    const there = member.came.filter(wanted);
    if (there.length >= count || Date.now() >= end) {
      const taken = there.slice(0, count);
      member.came = member.came.filter(one => !taken.includes(one));
      member.polled.push(...taken);
      return taken;
    }
    await new Promise(done => {
      const timer = setTimeout(done, end - Date.now());
      member.wake = () => { clearTimeout(timer); done(); };
    });
  }
}

const ops = {
  produce(command) {
    const producer = kafka(command).producer({
      idempotent: command.idempotent ?? false,
      transactionalId: command.transactional_id,
      allowAutoTopicCreation: command.create_topics ?? false,
      createPartitioner: Partitioners.DefaultPartitioner,
    });
    return closing(producer, async () => {
      const sender = command.transactional_id ? await producer.transaction() : producer;
      const compression = COMPRESSIONS[command.compression ?? 'none'];
      const places = [];
      const messages = command.records.map(one => ({
        partition: one.partition ?? undefined, key: bytes(one.key), value: bytes(one.value), headers: headersOf(one), timestamp: one.time_ms?.toString(),
      }));
      for (const batch of command.one_by_one ? messages.map(one => [one]) : [messages]) {
        const told = await sender.send({ topic: command.topic, compression, messages: batch });
        const next = new Map(told.map(one => [one.partition, Number(one.baseOffset)]));
        for (const { partition } of batch) {
          places.push({ partition, offset: next.get(partition) });
          next.set(partition, next.get(partition) + 1);
        }
      }
      if (command.transactional_id) await sender.commit();
      return places;
    });
  },
  async read(command) {
    const { topic, partition = 0 } = command;
    const start = await closing(kafka(command).admin(), admin => offsetAt(admin, command));
    if (start === undefined) return [];
    names += 1;
    const member = await join(command, `read-${process.pid}-${names}`, [topic]);
    member.consumer.seek({ topic, partition, offset: String(start) });
    try {
      return await poll(member, command, one => one.partition === partition && one.offset >= start);
    } finally {
      await member.consumer.disconnect();
    }
  },
  async offset(command) {
    return (await closing(kafka(command).admin(), admin => offsetAt(admin, command))) ?? null;
  },
  create(command) {
    const configEntries = Object.entries(command.configs ?? {}).map(([name, value]) => ({ name, value }));
    const topics = [{ topic: command.topic, numPartitions: command.partitions ?? 1, replicationFactor: 1, configEntries }];
    return closing(kafka(command).admin(), async admin => {
      if (!await admin.createTopics({ topics })) throw Object.assign(new Error(`${command.topic} exists`), { code: 36 });
    });
  },
  delete(command) {
    return closing(kafka(command).admin(), admin => admin.deleteTopics({ topics: [command.topic] }));
  },
  async join(command) {
    members.set(command.name, await join(command, command.group, command.topics));
  },
  poll: command => poll(members.get(command.name), command),
  async seek(command) {
    const { topic, partition = 0 } = command;
    const offset = await closing(kafka(command).admin(), admin => offsetAt(admin, command));
    const member = members.get(command.name);
    member.came = member.came.filter(one => one.partition !== partition);
    member.consumer.seek({ topic, partition, offset: String(offset) });
  },
  async commit(command) {
    const { consumer, polled } = members.get(command.name);
    await consumer.commitOffsets(polled.splice(0).map(({ topic, partition, offset }) => ({ topic, partition, offset: String(offset + 1) })));
  },
  async close(command) {
    const { consumer } = members.get(command.name);
    members.delete(command.name);
    await consumer.disconnect();
  },
  async committed(command) {
    const [found] = await closing(kafka(command).admin(), admin => admin.fetchOffsets({ groupId: command.group, topics: [command.topic] }));
    const { offset } = found.partitions.find(one => one.partition === (command.partition ?? 0));
    return Number(offset) < 0 ? null : Number(offset);
  },
};

function rootOf(error) {
  const inner = error.errors?.[0] ?? error.cause;
  return inner ? rootOf(inner) : error;
}

const lines = createInterface({ input: process.stdin });
lines.on('line', async line => {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { ok: (await ops[command.op](command)) ?? null };
  } catch (error) {
    const root = rootOf(error);
    const code = typeof root.code === 'number' ? root.code : null;
    answer = { error: { type: root.constructor.name, code, text: String(root.message) } };
  }
  process.stdout.write(`${JSON.stringify({ id: command.id, ...answer })}\n`);
});
lines.on('close', () => process.exit(0));
