package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ addresses []string }

func (f franz) open(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.addresses...)}, options...)...)
}

var franzCodecs = map[string]kgo.CompressionCodec{
	"":       kgo.NoCompression(),
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (f franz) produce(ctx context.Context, c command) ([]place, error) {
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(franzCodecs[c.Compression]),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			keyed := kgo.StickyKeyPartitioner(nil).ForTopic(c.Topic)
			return func(r *kgo.Record, partitions int) int {
				if r.Partition >= 0 {
					return int(r.Partition)
				}
				return keyed.Partition(r, partitions)
			}
		})),
	}
	if c.BatchBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(c.BatchBytes))
	}
	if c.CreateTopics {
		options = append(options, kgo.AllowAutoTopicCreation())
	}
	if c.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(c.TransactionalID))
	} else if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	opened, err := f.open(options...)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if c.TransactionalID != "" {
		if err := opened.BeginTransaction(); err != nil {
			return nil, err
		}
	}
	records := make([]*kgo.Record, len(c.Records))
	for i, one := range c.Records {
		records[i] = &kgo.Record{Topic: c.Topic, Partition: -1, Key: one.Key, Value: one.Value, Timestamp: one.time()}
		if one.Partition != nil {
			records[i].Partition = *one.Partition
		}
		for _, h := range one.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	batches := [][]*kgo.Record{records}
	if c.OneByOne {
		batches = nil
		for i := range records {
			batches = append(batches, records[i:i+1])
		}
	}
	for _, batch := range batches {
		if err := opened.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return nil, err
		}
	}
	if c.TransactionalID != "" {
		if err := opened.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return nil, err
		}
	}
	places := make([]place, len(records))
	for i, one := range records {
		places[i] = place{one.Partition, one.Offset}
	}
	return places, nil
}

func (f franz) read(ctx context.Context, c command, offset int64) ([]record, error) {
	assigned := map[string]map[int32]kgo.Offset{c.Topic: {c.Partition: kgo.NewOffset().At(offset)}}
	opened, err := f.open(kgo.ConsumePartitions(assigned), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return (&franzMember{opened}).poll(ctx, max(c.Count, 1))
}

func (f franz) admin() (*kadm.Client, error) {
	opened, err := f.open()
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(opened), nil
}

func (f franz) offset(ctx context.Context, topic string, partition int32, timeMS int64) (int64, error) {
	admin, err := f.admin()
	if err != nil {
		return -1, err
	}
	defer admin.Close()
	ask := func() (kadm.ListedOffsets, error) { return admin.ListOffsetsAfterMilli(ctx, timeMS, topic) }
	if timeMS == earliest {
		ask = func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, topic) }
	} else if timeMS == latest {
		ask = func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, topic) }
	}
	listed, err := ask()
	if err != nil {
		return -1, err
	}
	found, isThere := listed.Lookup(topic, partition)
	if !isThere {
		return -1, errors.Join(listed.Error(), kerr.UnknownTopicOrPartition)
	}
	if found.Err == nil && timeMS >= 0 && found.Timestamp < 0 {
		return -1, nil // kadm gives the end where there is no such record
	}
	return found.Offset, found.Err
}

func (f franz) create(ctx context.Context, c command) error {
	admin, err := f.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	configs := map[string]*string{}
	for name, value := range c.Configs {
		configs[name] = &value
	}
	_, err = admin.CreateTopic(ctx, max(c.Partitions, 1), 1, configs, c.Topic)
	return err
}

func (f franz) delete(ctx context.Context, topic string) error {
	admin, err := f.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	told, err := admin.DeleteTopics(ctx, topic)
	if err != nil {
		return err
	}
	return told.Error()
}

func (f franz) join(c command) (member, error) {
	options := []kgo.Opt{
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(c.session()),
		kgo.HeartbeatInterval(c.session() / 10),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}
	if c.InstanceID != "" {
		options = append(options, kgo.InstanceID(c.InstanceID))
	}
	opened, err := f.open(options...)
	return &franzMember{opened}, err
}

func (f franz) committed(ctx context.Context, c command) (int64, error) {
	admin, err := f.admin()
	if err != nil {
		return -1, err
	}
	defer admin.Close()
	offsets, err := admin.FetchOffsets(ctx, c.Group)
	if err != nil {
		return -1, err
	}
	if found, isThere := offsets.Lookup(c.Topic, c.Partition); isThere {
		return found.At, found.Err
	}
	return -1, nil
}

func (f franz) code(err error) (int, bool) {
	var found *kerr.Error
	if errors.As(err, &found) {
		return int(found.Code), true
	}
	return 0, false
}

type franzMember struct{ opened *kgo.Client }

func (m *franzMember) poll(ctx context.Context, count int) ([]record, error) {
	came := []record{}
	for len(came) < count {
		fetches := m.opened.PollRecords(ctx, count-len(came))
		for _, one := range fetches.Errors() {
			var session *kgo.ErrGroupSession // it says so, and goes on by itself, as after errors of the network
			if !isOver(one.Err) && !isNetworks(one.Err) && !errors.As(one.Err, &session) {
				return nil, one.Err
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			timeMS := r.Timestamp.UnixMilli()
			seen := record{r.Topic, &r.Partition, r.Offset, r.Key, r.Value, []header{}, &timeMS}
			for _, h := range r.Headers {
				seen.Headers = append(seen.Headers, header{h.Key, h.Value})
			}
			came = append(came, seen)
		})
		if ctx.Err() != nil {
			break
		}
	}
	return came, nil
}

func (m *franzMember) seek(_ context.Context, c command, offset int64) error {
	m.opened.SetOffsets(map[string]map[int32]kgo.EpochOffset{c.Topic: {c.Partition: {Epoch: -1, Offset: offset}}})
	return nil
}

func (m *franzMember) commit(ctx context.Context) error {
	return m.opened.CommitUncommittedOffsets(ctx)
}

func (m *franzMember) close() error {
	m.opened.Close() // it leaves the group
	return nil
}
