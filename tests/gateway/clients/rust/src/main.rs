//! The official Rust SDK, driven by lines of JSON: see ../../commands.md. Arguments: the endpoints.
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, LoggingFormat, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{Message, MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Map, Value};
use tokio::sync::RwLock;

/// A SimpleConsumer states its filters with each receive.
struct Receiving {
    consumer: SimpleConsumer,
    subscriptions: Vec<(String, FilterExpression)>,
    next: AtomicU64,
}

#[derive(Default)]
struct Client {
    endpoints: String,
    producers: RwLock<HashMap<String, Producer>>,
    consumers: RwLock<HashMap<String, Receiving>>,
    received: RwLock<HashMap<String, MessageView>>,
    references: AtomicU64,
}

enum Refusal {
    Sdk(ClientError),
    Unsupported(String),
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        Refusal::Sdk(error)
    }
}

fn say(line: Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("somebody reads");
}

fn text<'a>(command: &'a Value, name: &str) -> &'a str {
    command[name].as_str().unwrap_or("")
}

fn seconds(command: &Value, name: &str, otherwise: f64) -> Duration {
    Duration::from_secs_f64(command[name].as_f64().unwrap_or(otherwise))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_string)).collect()
}

fn body_of(message: &MessageView) -> String {
    match message.body() {
        long if long.len() > 1000 => format!("{} bytes", long.len()),
        body => String::from_utf8_lossy(body).into_owned(),
    }
}

/// The message of a send. The SDK takes whole seconds of a delivery's time.
fn message(command: &Value) -> Result<impl Message, ClientError> {
    let body = match command["body_bytes"].as_u64() {
        Some(bytes) => vec![b'x'; bytes as usize],
        None => text(command, "body").as_bytes().to_vec(),
    };
    let mut builder = MessageBuilder::builder().set_topic(text(command, "topic")).set_body(body).set_keys(texts(&command["keys"]));
    if let Some(tag) = command["tag"].as_str() {
        builder = builder.set_tag(tag);
    }
    if let Some(group) = command["message_group"].as_str() {
        builder = builder.set_message_group(group);
    }
    if let Some(delay_s) = command["delay_s"].as_f64() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        builder = builder.set_delivery_timestamp((now.as_secs_f64() + delay_s) as i64);
    }
    if let Some(properties) = command["properties"].as_object() {
        builder = builder.set_properties(properties.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or(""))).collect());
    }
    if command["transaction"].is_string() {
        builder = builder.enable_transaction();
    }
    builder.build()
}

impl Client {
    fn option(&self, command: &Value) -> ClientOption {
        let mut option = ClientOption::default();
        option.set_access_url(command["endpoints"].as_str().unwrap_or(&self.endpoints));
        option.set_timeout(seconds(command, "timeout_s", 3.0));
        option.set_long_polling_timeout(seconds(command, "await_s", 5.0));
        if let Some(key) = command["access_key"].as_str() {
            option.set_access_key(key);
            option.set_secret_key(text(command, "secret_key"));
        }
        option
    }

    async fn producer(&self, command: &Value) -> Result<Value, Refusal> {
        let mut option = ProducerOption::default();
        option.set_logging_format(LoggingFormat::Json);
        option.set_topics(texts(&command["topics"]));
        let client = self.option(command);
        let mut producer = match command["checks"].as_object().cloned() {
            None => Producer::new(option, client)?,
            Some(checks) => {
                let name = text(command, "name").to_string();
                Producer::new_transaction_producer(option, client, Box::new(move |_, half| check(&name, &checks, &half)))?
            }
        };
        producer.start().await?;
        self.producers.write().await.insert(text(command, "name").to_string(), producer);
        Ok(Value::Null)
    }

    async fn send(&self, command: &Value) -> Result<Value, Refusal> {
        let producers = self.producers.read().await;
        let producer = &producers[text(command, "name")];
        let made = message(command)?;
        let message_id = if command["transaction"].is_string() {
            let transaction = producer.send_transaction_message(made).await?;
            let message_id = transaction.message_id().to_string();
            match text(command, "transaction") {
                "commit" => transaction.commit().await?,
                "rollback" => transaction.rollback().await?,
                _ => (),
            }
            message_id
        } else {
            producer.send(made).await?.message_id().to_string()
        };
        Ok(json!({"message_id": message_id, "recall_handle": null}))
    }

    async fn simple(&self, command: &Value) -> Result<Value, Refusal> {
        let stated = command["subscriptions"].as_object().into_iter().flatten();
        let subscriptions: Vec<_> = stated
            .map(|(topic, expression)| {
                let expression = expression.as_str().unwrap_or("*");
                let filter = match expression.strip_prefix("SQL:") {
                    Some(sql) => FilterExpression::new(FilterType::Sql, sql),
                    None => FilterExpression::new(FilterType::Tag, expression),
                };
                (topic.clone(), filter)
            })
            .collect();
        let mut option = SimpleConsumerOption::default();
        option.set_logging_format(LoggingFormat::Json);
        option.set_consumer_group(text(command, "group"));
        option.set_topics(subscriptions.iter().map(|(topic, _)| topic.clone()).collect());
        let mut consumer = SimpleConsumer::new(option, self.option(command))?;
        consumer.start().await?;
        let receiving = Receiving { consumer, subscriptions, next: AtomicU64::new(0) };
        self.consumers.write().await.insert(text(command, "name").to_string(), receiving);
        Ok(Value::Null)
    }

    async fn receive(&self, command: &Value) -> Result<Value, Refusal> {
        let consumers = self.consumers.read().await;
        let one = &consumers[text(command, "name")];
        let turn = one.next.fetch_add(1, Ordering::Relaxed) as usize % one.subscriptions.len();
        let (topic, filter) = &one.subscriptions[turn];
        let most = command["max"].as_i64().unwrap_or(32) as i32;
        let messages = one.consumer.receive_with(topic, filter, most, seconds(command, "invisible_s", 15.0)).await?;
        let mut got = Vec::new();
        for message in messages {
            let reference = self.references.fetch_add(1, Ordering::Relaxed).to_string();
            got.push(json!({
                "ref": &reference,
                "topic": message.topic(),
                "body": body_of(&message),
                "message_id": message.message_id(),
                "tag": message.tag(),
                "keys": message.keys(),
                "message_group": message.message_group(),
                "properties": message.properties(),
                "attempt": message.delivery_attempt(),
                "born_ms": message.born_timestamp() * 1000,
                "born_host": message.born_host(),
                "delivery_ms": message.delivery_timestamp().map(|second| second * 1000),
            }));
            self.received.write().await.insert(reference, message);
        }
        Ok(Value::Array(got))
    }

    async fn ack(&self, command: &Value) -> Result<Value, Refusal> {
        let consumers = self.consumers.read().await;
        let received = self.received.read().await;
        consumers[text(command, "name")].consumer.ack(&received[text(command, "message")]).await?;
        Ok(Value::Null)
    }

    async fn close(&self, command: &Value) -> Result<Value, Refusal> {
        if let Some(producer) = self.producers.write().await.remove(text(command, "name")) {
            producer.shutdown().await?;
        }
        if let Some(one) = self.consumers.write().await.remove(text(command, "name")) {
            one.consumer.shutdown().await?;
        }
        Ok(Value::Null)
    }

    async fn answer(&self, command: Value) {
        let done = match text(&command, "op") {
            "producer" => self.producer(&command).await,
            "send" => self.send(&command).await,
            "simple" => self.simple(&command).await,
            "receive" => self.receive(&command).await,
            "ack" => self.ack(&command).await,
            "close" => self.close(&command).await,
            other => Err(Refusal::Unsupported(format!("this program has no {other}"))),
        };
        let id = &command["id"];
        say(match done {
            Ok(value) => json!({"id": id, "ok": value}),
            Err(Refusal::Unsupported(said)) => json!({"id": id, "error": {"type": "unsupported", "text": said}}),
            // Of the server's code the SDK tells the name, and not the number.
            Err(Refusal::Sdk(error)) => json!({"id": id, "error": {"type": format!("{:?}", error.kind()), "text": error.to_string()}}),
        });
    }
}

fn check(name: &str, checks: &Map<String, Value>, half: &MessageView) -> TransactionResolution {
    let body = body_of(half);
    let resolution = checks.get(&body).and_then(Value::as_str).unwrap_or("UNKNOWN");
    say(json!({"event": "check", "name": name, "body": &body, "resolution": resolution}));
    match resolution {
        "COMMIT" => TransactionResolution::COMMIT,
        "ROLLBACK" => TransactionResolution::ROLLBACK,
        _ => TransactionResolution::UNKNOWN,
    }
}

#[tokio::main]
async fn main() {
    std::fs::create_dir_all("logs").expect("the SDK writes its log there");
    let endpoints = std::env::args().nth(1).expect("the endpoints");
    let client = Arc::new(Client { endpoints, ..Client::default() });
    let running = tokio::runtime::Handle::current();
    let reading = tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines() {
            let command = serde_json::from_str(&line.expect("text")).expect("JSON");
            let client = Arc::clone(&client);
            running.spawn(async move { client.answer(command).await });
        }
        std::process::exit(0);
    });
    reading.await.expect("the reader ends the program");
}
