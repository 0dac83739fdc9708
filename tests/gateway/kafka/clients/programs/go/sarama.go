package main

import (
	"context"
	"errors"
	"sync"
	"time"

	api "github.com/IBM/sarama"
)

type sarama struct{ addresses []string }

func (s sarama) config(c command) *api.Config {
	config := api.NewConfig()
	config.Metadata.AllowAutoTopicCreation = c.CreateTopics
	config.Metadata.Timeout = c.timeout()
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = api.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = c.session()
	config.Consumer.Group.Heartbeat.Interval = c.session() / 10
	config.Consumer.Group.InstanceId = c.InstanceID
	return config
}

var saramaCodecs = map[string]api.CompressionCodec{
	"":       api.CompressionNone,
	"none":   api.CompressionNone,
	"gzip":   api.CompressionGZIP,
	"snappy": api.CompressionSnappy,
	"lz4":    api.CompressionLZ4,
	"zstd":   api.CompressionZSTD,
}

func encoder(content []byte) api.Encoder {
	if content == nil {
		return nil
	}
	return api.ByteEncoder(content)
}

func (s sarama) produce(_ context.Context, c command) ([]place, error) {
	config := s.config(c)
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = api.WaitForAll
	config.Producer.Compression = saramaCodecs[c.Compression]
	config.Producer.Partitioner = api.NewManualPartitioner
	config.Producer.Retry.Max = 5
	config.Producer.Flush.MaxMessages = int(c.BatchBytes) / 100 // it bounds a batch by its records alone
	if c.Idempotent || c.TransactionalID != "" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
		config.Producer.Transaction.ID = c.TransactionalID
		config.Producer.Transaction.Retry.Max = 3
	}
	producer, err := api.NewSyncProducer(s.addresses, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	if c.TransactionalID != "" {
		if err := producer.BeginTxn(); err != nil {
			return nil, err
		}
	}
	messages := make([]*api.ProducerMessage, len(c.Records))
	for i, one := range c.Records {
		messages[i] = &api.ProducerMessage{Topic: c.Topic, Key: encoder(one.Key), Value: encoder(one.Value), Timestamp: one.time()}
		if one.Partition != nil {
			messages[i].Partition = *one.Partition
		}
		for _, h := range one.Headers {
			messages[i].Headers = append(messages[i].Headers, api.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		if c.OneByOne {
			if _, _, err := producer.SendMessage(messages[i]); err != nil {
				return nil, err
			}
		}
	}
	if !c.OneByOne {
		if err := producer.SendMessages(messages); err != nil {
			return nil, err
		}
	}
	if c.TransactionalID != "" {
		if err := producer.CommitTxn(); err != nil {
			return nil, err
		}
	}
	places := make([]place, len(messages))
	for i, one := range messages {
		places[i] = place{one.Partition, one.Offset}
	}
	return places, nil
}

func (s sarama) read(ctx context.Context, c command, offset int64) ([]record, error) {
	consumer, err := api.NewConsumer(s.addresses, s.config(c))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(c.Topic, c.Partition, offset)
	if err != nil {
		return nil, err
	}
	defer partition.AsyncClose()
	came := []record{}
	for len(came) < max(c.Count, 1) {
		select {
		case message := <-partition.Messages():
			came = append(came, saramaSeen(message))
		case err := <-partition.Errors():
			return nil, err.Err
		case <-ctx.Done():
			return came, nil
		}
	}
	return came, nil
}

func saramaSeen(m *api.ConsumerMessage) record {
	timeMS := m.Timestamp.UnixMilli()
	seen := record{m.Topic, &m.Partition, m.Offset, m.Key, m.Value, []header{}, &timeMS}
	for _, h := range m.Headers {
		seen.Headers = append(seen.Headers, header{string(h.Key), h.Value})
	}
	return seen
}

func (s sarama) offset(_ context.Context, topic string, partition int32, timeMS int64) (int64, error) {
	opened, err := api.NewClient(s.addresses, s.config(command{}))
	if err != nil {
		return -1, err
	}
	defer opened.Close()
	return opened.GetOffset(topic, partition, timeMS)
}

func (s sarama) create(_ context.Context, c command) error {
	admin, err := api.NewClusterAdmin(s.addresses, s.config(c))
	if err != nil {
		return err
	}
	defer admin.Close()
	configs := map[string]*string{}
	for name, value := range c.Configs {
		configs[name] = &value
	}
	return admin.CreateTopic(c.Topic, &api.TopicDetail{NumPartitions: max(c.Partitions, 1), ReplicationFactor: 1, ConfigEntries: configs}, false)
}

func (s sarama) delete(_ context.Context, topic string) error {
	admin, err := api.NewClusterAdmin(s.addresses, s.config(command{}))
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.DeleteTopic(topic)
}

func (s sarama) committed(_ context.Context, c command) (int64, error) {
	admin, err := api.NewClusterAdmin(s.addresses, s.config(c))
	if err != nil {
		return -1, err
	}
	defer admin.Close()
	told, err := admin.ListConsumerGroupOffsets(c.Group, map[string][]int32{c.Topic: {c.Partition}})
	if err != nil {
		return -1, err
	}
	return told.GetBlock(c.Topic, c.Partition).Offset, nil
}

func (s sarama) code(err error) (int, bool) {
	var failures api.ProducerErrors
	if errors.As(err, &failures) && len(failures) > 0 {
		err = failures[0].Err
	}
	var topic *api.TopicError
	if errors.As(err, &topic) {
		return int(topic.Err), true
	}
	var found api.KError
	if errors.As(err, &found) {
		return int(found), true
	}
	return 0, false
}

// A member whose session is in the background: what its claims give waits to be polled.
type saramaMember struct {
	group   api.ConsumerGroup
	stop    context.CancelFunc
	ended   chan struct{}
	came    chan *api.ConsumerMessage
	failed  chan error
	lock    sync.Mutex
	session api.ConsumerGroupSession
}

func (s sarama) join(c command) (member, error) {
	config := s.config(c)
	config.Consumer.Return.Errors = false // a session's troubles are logged, and it goes on
	group, err := api.NewConsumerGroup(s.addresses, c.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &saramaMember{group: group, stop: stop, ended: make(chan struct{}), came: make(chan *api.ConsumerMessage), failed: make(chan error, 64)}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			err := group.Consume(ctx, c.Topics, m) // it ends with every session, to be called again
			if err != nil && ctx.Err() == nil && !isNetworks(err) && !errors.Is(err, api.ErrOutOfBrokers) {
				m.failed <- err
			}
		}
	}()
	return m, nil
}

func (m *saramaMember) Setup(session api.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
	return nil
}

func (m *saramaMember) Cleanup(api.ConsumerGroupSession) error { return nil }

func (m *saramaMember) ConsumeClaim(session api.ConsumerGroupSession, claim api.ConsumerGroupClaim) error {
	for {
		select {
		case message, isThere := <-claim.Messages():
			if !isThere {
				return nil
			}
			select {
			case m.came <- message:
				session.MarkMessage(message, "")
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *saramaMember) poll(ctx context.Context, count int) ([]record, error) {
	came := []record{}
	for len(came) < count {
		select {
		case message := <-m.came:
			came = append(came, saramaSeen(message))
		case err := <-m.failed:
			return nil, err
		case <-ctx.Done():
			return came, nil
		}
	}
	return came, nil
}

func (m *saramaMember) seek(context.Context, command, int64) error {
	return errors.New("its members seek only as their session begins")
}

func (m *saramaMember) commit(context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session.Commit()
	return nil
}

func (m *saramaMember) close() error {
	m.stop()
	<-m.ended
	return m.group.Close()
}
