package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	api "github.com/segmentio/kafka-go"
)

type kafkaGo struct{ addresses []string }

func (k kafkaGo) client(timeout time.Duration) *api.Client {
	return &api.Client{Addr: api.TCP(k.addresses...), Timeout: timeout}
}

var kafkaGoCodecs = map[string]api.Compression{"gzip": api.Gzip, "snappy": api.Snappy, "lz4": api.Lz4, "zstd": api.Zstd}

func (k kafkaGo) produce(ctx context.Context, c command) ([]place, error) {
	if c.Idempotent || c.TransactionalID != "" {
		return nil, errors.New("its writer is neither idempotent nor transactional")
	}
	places := make([]place, len(c.Records))
	var lock sync.Mutex
	transport := &api.Transport{} // the shared one knows topics of 6 s ago
	defer transport.CloseIdleConnections()
	writer := &api.Writer{
		Addr:      api.TCP(k.addresses...),
		Topic:     c.Topic,
		Transport: transport,
		Balancer: api.BalancerFunc(func(m api.Message, partitions ...int) int {
			if asked := c.Records[m.WriterData.(int)].Partition; asked != nil {
				return int(*asked)
			}
			return partitions[0]
		}),
		MaxAttempts:            3,
		BatchTimeout:           5 * time.Millisecond,
		RequiredAcks:           api.RequireAll,
		Compression:            kafkaGoCodecs[c.Compression],
		AllowAutoTopicCreation: c.CreateTopics,
		Completion: func(messages []api.Message, err error) {
			lock.Lock()
			defer lock.Unlock()
			for _, one := range messages {
				places[one.WriterData.(int)] = place{int32(one.Partition), one.Offset}
			}
		},
	}
	defer writer.Close()
	messages := make([]api.Message, len(c.Records))
	for i, one := range c.Records {
		messages[i] = api.Message{Key: one.Key, Value: one.Value, Time: one.time(), WriterData: i}
		for _, h := range one.Headers {
			messages[i].Headers = append(messages[i].Headers, api.Header{Key: h.Name, Value: h.Value})
		}
		if c.OneByOne {
			if err := writer.WriteMessages(ctx, messages[i]); err != nil {
				return nil, err
			}
		}
	}
	if !c.OneByOne {
		if err := writer.WriteMessages(ctx, messages...); err != nil {
			return nil, err
		}
	}
	return places, nil
}

func (k kafkaGo) read(ctx context.Context, c command, offset int64) ([]record, error) {
	reader := api.NewReader(api.ReaderConfig{
		Brokers: k.addresses, Topic: c.Topic, Partition: int(c.Partition), MaxWait: 100 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		return nil, err
	}
	return (&kafkaGoMember{reader: reader}).poll(ctx, max(c.Count, 1))
}

func (k kafkaGo) offset(ctx context.Context, topic string, partition int32, timeMS int64) (int64, error) {
	ask := api.OffsetRequest{Partition: int(partition), Timestamp: timeMS}
	told, err := k.client(time.Minute).ListOffsets(ctx, &api.ListOffsetsRequest{Topics: map[string][]api.OffsetRequest{topic: {ask}}})
	if err != nil {
		return -1, err
	}
	for _, one := range told.Topics[topic] {
		switch {
		case one.Error != nil:
			return -1, one.Error
		case timeMS == earliest:
			return one.FirstOffset, nil
		case timeMS == latest:
			return one.LastOffset, nil
		}
		for offset := range one.Offsets {
			return offset, nil
		}
	}
	return -1, fmt.Errorf("no answer about %s: %v", topic, told)
}

func (k kafkaGo) create(ctx context.Context, c command) error {
	topic := api.TopicConfig{Topic: c.Topic, NumPartitions: int(max(c.Partitions, 1)), ReplicationFactor: 1}
	for name, value := range c.Configs {
		topic.ConfigEntries = append(topic.ConfigEntries, api.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	told, err := k.client(c.timeout()).CreateTopics(ctx, &api.CreateTopicsRequest{Topics: []api.TopicConfig{topic}})
	if err != nil {
		return err
	}
	return told.Errors[c.Topic]
}

func (k kafkaGo) delete(ctx context.Context, topic string) error {
	told, err := k.client(time.Minute).DeleteTopics(ctx, &api.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return told.Errors[topic]
}

func (k kafkaGo) committed(ctx context.Context, c command) (int64, error) {
	told, err := k.client(c.timeout()).OffsetFetch(ctx, &api.OffsetFetchRequest{GroupID: c.Group, Topics: map[string][]int{c.Topic: {int(c.Partition)}}})
	if err != nil {
		return -1, err
	}
	for _, one := range told.Topics[c.Topic] {
		return one.CommittedOffset, one.Error
	}
	return -1, told.Error
}

func (k kafkaGo) code(err error) (int, bool) {
	var failures api.WriteErrors
	if errors.As(err, &failures) {
		for _, one := range failures {
			if one != nil {
				err = one
			}
		}
	}
	var found api.Error
	if errors.As(err, &found) {
		return int(found), true
	}
	return 0, false
}

type kafkaGoMember struct {
	reader *api.Reader
	polled []api.Message
}

func (k kafkaGo) join(c command) (member, error) {
	return &kafkaGoMember{reader: api.NewReader(api.ReaderConfig{
		Brokers:           k.addresses,
		GroupID:           c.Group,
		GroupTopics:       c.Topics,
		MaxWait:           100 * time.Millisecond,
		StartOffset:       api.FirstOffset,
		SessionTimeout:    c.session(),
		HeartbeatInterval: c.session() / 10,
	})}, nil
}

func (m *kafkaGoMember) poll(ctx context.Context, count int) ([]record, error) {
	came := []record{}
	for len(came) < count {
		message, err := m.reader.FetchMessage(ctx)
		if err != nil {
			if isOver(err) {
				break
			}
			return nil, err
		}
		m.polled = append(m.polled, message)
		timeMS, partition := message.Time.UnixMilli(), int32(message.Partition)
		seen := record{message.Topic, &partition, message.Offset, message.Key, message.Value, []header{}, &timeMS}
		for _, h := range message.Headers {
			seen.Headers = append(seen.Headers, header{h.Key, h.Value})
		}
		came = append(came, seen)
	}
	return came, nil
}

func (m *kafkaGoMember) commit(ctx context.Context) error {
	polled := m.polled
	m.polled = nil
	return m.reader.CommitMessages(ctx, polled...)
}

func (m *kafkaGoMember) seek(context.Context, command, int64) error {
	return errors.New("its readers of groups do not seek")
}

func (m *kafkaGoMember) close() error { return m.reader.Close() }
