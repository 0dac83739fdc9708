// Kafka's clients in Go, driven by lines of JSON: see commands.md in the folder above. Arguments: the addresses, and
// franz-go, sarama or kafka-go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"
)

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

type record struct {
	Topic     string   `json:"topic"`
	Partition *int32   `json:"partition"`
	Offset    int64    `json:"offset"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
	TimeMS    *int64   `json:"time_ms"`
}

func (r record) time() time.Time {
	if r.TimeMS == nil {
		return time.Now()
	}
	return time.UnixMilli(*r.TimeMS)
}

type place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

type command struct {
	ID              int               `json:"id"`
	Op              string            `json:"op"`
	Name            string            `json:"name"`
	Topic           string            `json:"topic"`
	Topics          []string          `json:"topics"`
	Partition       int32             `json:"partition"`
	Partitions      int32             `json:"partitions"`
	Configs         map[string]string `json:"configs"`
	Records         []record          `json:"records"`
	Compression     string            `json:"compression"`
	Idempotent      bool              `json:"idempotent"`
	TransactionalID string            `json:"transactional_id"`
	CreateTopics    bool              `json:"create_topics"`
	OneByOne        bool              `json:"one_by_one"`
	BatchBytes      int32             `json:"batch_bytes"`
	At              json.RawMessage   `json:"at"`
	Count           int               `json:"count"`
	Group           string            `json:"group"`
	InstanceID      string            `json:"instance_id"`
	SessionTimeoutS float64           `json:"session_timeout_s"`
	TimeoutS        float64           `json:"timeout_s"`
}

func (c command) timeout() time.Duration {
	if c.TimeoutS == 0 {
		return time.Minute
	}
	return seconds(c.TimeoutS)
}

func (c command) session() time.Duration {
	if c.SessionTimeoutS == 0 {
		return 30 * time.Second
	}
	return seconds(c.SessionTimeoutS)
}

// The numbers by which Kafka's protocol asks for an end.
const (
	latest   = -1
	earliest = -2
)

// Where a read begins: an offset, or a time to ask for, which is an end below 0.
func (c command) where() (offset int64, timeMS int64, isTime bool, err error) {
	var later struct {
		TimeMS int64 `json:"time_ms"`
	}
	switch {
	case string(c.At) == `"earliest"`:
		return 0, earliest, true, nil
	case string(c.At) == `"latest"`:
		return 0, latest, true, nil
	case c.At[0] == '{':
		err = json.Unmarshal(c.At, &later)
		return 0, later.TimeMS, true, err
	}
	err = json.Unmarshal(c.At, &offset)
	return offset, 0, false, err
}

// A member of a group.
type member interface {
	poll(ctx context.Context, count int) ([]record, error)
	seek(ctx context.Context, c command, offset int64) error
	commit(ctx context.Context) error
	close() error
}

type client interface {
	produce(ctx context.Context, c command) ([]place, error)
	read(ctx context.Context, c command, offset int64) ([]record, error)
	offset(ctx context.Context, topic string, partition int32, timeMS int64) (int64, error) // -1: none
	create(ctx context.Context, c command) error
	delete(ctx context.Context, topic string) error
	join(c command) (member, error)
	committed(ctx context.Context, c command) (int64, error) // -1: none
	code(err error) (int, bool)
}

type program struct {
	client  client
	members sync.Map
	output  sync.Mutex
}

func (p *program) find(ctx context.Context, c command) (int64, error) {
	offset, timeMS, isTime, err := c.where()
	if err != nil || !isTime {
		return offset, err
	}
	return p.client.offset(ctx, c.Topic, c.Partition, timeMS)
}

func unlessNone(offset int64, err error) (any, error) {
	if offset < 0 {
		return nil, err
	}
	return offset, err
}

func (p *program) perform(c command) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout())
	defer cancel()
	switch c.Op {
	case "produce":
		return p.client.produce(ctx, c)
	case "read":
		offset, err := p.find(ctx, c)
		if err != nil || offset < 0 {
			return []record{}, err
		}
		return p.client.read(ctx, c, offset)
	case "offset":
		return unlessNone(p.find(ctx, c))
	case "create":
		return nil, p.client.create(ctx, c)
	case "delete":
		return nil, p.client.delete(ctx, c.Topic)
	case "join":
		joined, err := p.client.join(c)
		p.members.Store(c.Name, joined)
		return nil, err
	case "committed":
		return unlessNone(p.client.committed(ctx, c))
	}
	found, _ := p.members.Load(c.Name)
	one, isThere := found.(member)
	if !isThere {
		return nil, fmt.Errorf("no op or member: %s %s", c.Op, c.Name)
	}
	switch c.Op {
	case "poll":
		return one.poll(ctx, max(c.Count, 1))
	case "seek":
		offset, err := p.find(ctx, c)
		if err != nil {
			return nil, err
		}
		return nil, one.seek(ctx, c, offset)
	case "commit":
		return nil, one.commit(ctx)
	case "close":
		p.members.Delete(c.Name)
		return nil, one.close()
	}
	return nil, fmt.Errorf("no op: %s", c.Op)
}

func (p *program) answer(c command) {
	line := map[string]any{"id": c.ID}
	if done, err := p.perform(c); err != nil {
		refusal := map[string]any{"type": reflect.TypeOf(err).String(), "text": err.Error(), "code": nil}
		if code, isKafkas := p.client.code(err); isKafkas {
			refusal["code"] = code
		}
		line["error"] = refusal
	} else {
		line["ok"] = done
	}
	p.output.Lock()
	defer p.output.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		panic(err)
	}
}

func main() {
	addresses := strings.Split(os.Args[1], ",")
	clients := map[string]client{"franz-go": franz{addresses}, "sarama": sarama{addresses}, "kafka-go": kafkaGo{addresses}}
	p := &program{client: clients[os.Args[2]]}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		go p.answer(c)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// What clients say of a server that is gone, before they go on at another one.
func isNetworks(err error) bool {
	var found *net.OpError
	return errors.As(err, &found)
}

func isOver(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
