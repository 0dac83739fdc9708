// The official Go SDK, driven by lines of JSON: see ../commands.md. Arguments: the endpoints.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

type command struct {
	ID            int               `json:"id"`
	Op            string            `json:"op"`
	Name          string            `json:"name"`
	Endpoints     string            `json:"endpoints"`
	Namespace     string            `json:"namespace"`
	TimeoutS      float64           `json:"timeout_s"`
	SSL           bool              `json:"ssl"`
	AccessKey     string            `json:"access_key"`
	SecretKey     string            `json:"secret_key"`
	Topics        []string          `json:"topics"`
	Checks        map[string]string `json:"checks"`
	Topic         string            `json:"topic"`
	Body          string            `json:"body"`
	BodyBytes     *int              `json:"body_bytes"`
	Tag           *string           `json:"tag"`
	Keys          []string          `json:"keys"`
	MessageGroup  *string           `json:"message_group"`
	DelayS        *float64          `json:"delay_s"`
	Properties    map[string]string `json:"properties"`
	Transaction   string            `json:"transaction"`
	Count         int               `json:"count"`
	First         int               `json:"first"`
	Threads       int               `json:"threads"`
	MessageGroups int               `json:"message_groups"`
	Again         bool              `json:"again"`
	Group         string            `json:"group"`
	Subscriptions map[string]string `json:"subscriptions"`
	AwaitS        float64           `json:"await_s"`
	Max           int32             `json:"max"`
	InvisibleS    float64           `json:"invisible_s"`
	Message       string            `json:"message"`
	Fails         map[string]int    `json:"fails"`
	RunsS         float64           `json:"runs_s"`
}

type object = map[string]any

type client interface {
	Start() error
	GracefulStop() error
}

var (
	endpoints   string
	printing    sync.Mutex
	opened      sync.Map
	received    sync.Map
	references  atomic.Int64
	resolutions = map[string]golang.TransactionResolution{
		"COMMIT": golang.COMMIT, "ROLLBACK": golang.ROLLBACK, "UNKNOWN": golang.UNKNOWN,
	}
)

func say(line object) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func seconds(number, otherwise float64) time.Duration {
	if number == 0 {
		number = otherwise
	}
	return time.Duration(number * float64(time.Second))
}

func of[T any](one command) T {
	found, _ := opened.Load(one.Name)
	return found.(T)
}

func messageOf(one command) *golang.MessageView {
	found, _ := received.Load(one.Message)
	return found.(*golang.MessageView)
}

func bodyOf(message *golang.MessageView) string {
	if bytes := len(message.GetBody()); bytes > 1000 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return string(message.GetBody())
}

func seen(message *golang.MessageView) object {
	properties, keys := message.GetProperties(), message.GetKeys()
	if properties == nil {
		properties = map[string]string{}
	}
	if keys == nil {
		keys = []string{}
	}
	delivery := (*int64)(nil)
	if at := message.GetDeliveryTimestamp(); at != nil {
		ms := at.UnixMilli()
		delivery = &ms
	}
	return object{
		"topic":         message.GetTopic(),
		"body":          bodyOf(message),
		"message_id":    message.GetMessageId(),
		"tag":           message.GetTag(),
		"keys":          keys,
		"message_group": message.GetMessageGroup(),
		"properties":    properties,
		"attempt":       message.GetDeliveryAttempt(),
		"born_ms":       message.GetBornTimestamp().UnixMilli(),
		"born_host":     message.GetBornHost(),
		"delivery_ms":   delivery,
	}
}

func config(one command) *golang.Config {
	golang.EnableSsl = one.SSL // the SDK has it once for all clients of a process
	where := one.Endpoints
	if where == "" {
		where = endpoints
	}
	return &golang.Config{
		Endpoint:      where,
		NameSpace:     one.Namespace,
		ConsumerGroup: one.Group,
		Credentials:   &credentials.SessionCredentials{AccessKey: one.AccessKey, AccessSecret: one.SecretKey},
	}
}

func start(one command, opening client, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	opening.(interface{ SetRequestTimeout(time.Duration) }).SetRequestTimeout(seconds(one.TimeoutS, 3))
	if err := opening.Start(); err != nil {
		return nil, err
	}
	opened.Store(one.Name, opening)
	return nil, nil
}

func producer(one command) (any, error) {
	options := []golang.ProducerOption{golang.WithTopics(one.Topics...)}
	if one.Checks != nil {
		options = append(options, golang.WithTransactionChecker(&golang.TransactionChecker{
			Check: func(half *golang.MessageView) golang.TransactionResolution {
				resolution, ok := one.Checks[bodyOf(half)]
				if !ok {
					resolution = "UNKNOWN"
				}
				say(object{"event": "check", "name": one.Name, "body": bodyOf(half), "resolution": resolution})
				return resolutions[resolution]
			},
		}))
	}
	opening, err := golang.NewProducer(config(one), options...)
	return start(one, opening, err)
}

func message(one command, body string) *golang.Message {
	made := &golang.Message{Topic: one.Topic, Body: []byte(body)}
	if one.BodyBytes != nil {
		made.Body = []byte(strings.Repeat("x", *one.BodyBytes))
	}
	if one.Tag != nil {
		made.SetTag(*one.Tag)
	}
	made.SetKeys(one.Keys...)
	if one.MessageGroup != nil {
		made.SetMessageGroup(*one.MessageGroup)
	}
	if one.DelayS != nil {
		made.SetDelayTimestamp(time.Now().Add(seconds(*one.DelayS, 0)))
	}
	for name, value := range one.Properties {
		made.AddProperty(name, value)
	}
	return made
}

func send(one command) (any, error) {
	sending := of[golang.Producer](one)
	made := message(one, one.Body)
	var receipts []*golang.SendReceipt
	var err error
	if one.Transaction == "" {
		receipts, err = sending.Send(context.Background(), made)
	} else {
		transaction := sending.BeginTransaction()
		receipts, err = sending.SendWithTransaction(context.Background(), made, transaction)
		if err == nil && one.Transaction == "commit" {
			err = transaction.Commit()
		}
		if err == nil && one.Transaction == "rollback" {
			err = transaction.RollBack()
		}
	}
	if err != nil {
		return nil, err
	}
	return object{"message_id": receipts[0].MessageID, "recall_handle": nil}, nil
}

// Runs work in so many goroutines, each with its number.
func together(threads int, work func(number int) error) error {
	errs := make([]error, threads)
	var running sync.WaitGroup
	for number := range threads {
		running.Add(1)
		go func() {
			defer running.Done()
			errs[number] = work(number)
		}()
	}
	running.Wait()
	return errors.Join(errs...)
}

// Many sends by some goroutines: messages PREFIX0, PREFIX1, …, round robin over the message groups.
func load(one command) (any, error) {
	sending, threads := of[golang.Producer](one), max(one.Threads, 1)
	group := "g"
	if one.MessageGroup != nil {
		group = *one.MessageGroup
	}
	var failed atomic.Int64
	begin := time.Now()
	err := together(threads, func(number int) error {
		for i := one.First + number; i < one.Count; i += threads {
			made := one
			if one.MessageGroups > 0 {
				name := fmt.Sprintf("%s%d", group, i%one.MessageGroups)
				made.MessageGroup = &name
			}
			for {
				_, err := sending.Send(context.Background(), message(made, fmt.Sprintf("%s%d", one.Body, i)))
				if err == nil {
					break
				}
				failed.Add(1)
				if !one.Again {
					break
				}
			}
		}
		return nil
	})
	return object{"failed": failed.Load(), "seconds": time.Since(begin).Seconds()}, err
}

func subscriptions(one command) map[string]*golang.FilterExpression {
	stated := map[string]*golang.FilterExpression{}
	for topic, expression := range one.Subscriptions {
		if sql, ok := strings.CutPrefix(expression, "SQL:"); ok {
			stated[topic] = golang.NewFilterExpressionWithType(sql, golang.SQL92)
		} else {
			stated[topic] = golang.NewFilterExpression(expression)
		}
	}
	return stated
}

func simple(one command) (any, error) {
	opening, err := golang.NewSimpleConsumer(config(one),
		golang.WithSimpleAwaitDuration(seconds(one.AwaitS, 5)), golang.WithSimpleSubscriptionExpressions(subscriptions(one)))
	return start(one, opening, err)
}

// The messages of one receive. The SDK makes an error of one that is empty.
func receiveBy(consumer golang.SimpleConsumer, most int32, invisible time.Duration) ([]*golang.MessageView, error) {
	messages, err := consumer.Receive(context.Background(), most, invisible)
	if status, ok := golang.AsErrRpcStatus(err); ok && status.Code == int32(v2.Code_MESSAGE_NOT_FOUND) {
		return nil, nil
	}
	return messages, err
}

func receive(one command) (any, error) {
	if one.Max == 0 {
		one.Max = 32
	}
	messages, err := receiveBy(of[golang.SimpleConsumer](one), one.Max, seconds(one.InvisibleS, 15))
	got := make([]object, len(messages))
	for i, message := range messages {
		reference := fmt.Sprint(references.Add(1))
		received.Store(reference, message)
		got[i] = seen(message)
		got[i]["ref"] = reference
	}
	return got, err
}

// Receives and acknowledges by some goroutines until so many messages have come, or a receive stays empty.
func drain(one command) (any, error) {
	consumer := of[golang.SimpleConsumer](one)
	var done atomic.Int64
	begin := time.Now()
	err := together(max(one.Threads, 1), func(int) error {
		for done.Load() < int64(one.Count) {
			messages, err := receiveBy(consumer, 32, 30*time.Second)
			if err != nil || len(messages) == 0 {
				return err
			}
			for _, message := range messages {
				if err := consumer.Ack(context.Background(), message); err != nil {
					return err
				}
				done.Add(1)
			}
		}
		return nil
	})
	return object{"messages": done.Load(), "seconds": time.Since(begin).Seconds()}, err
}

func push(one command) (any, error) {
	var counting sync.Mutex
	runs := map[string]int{}
	listener := &golang.FuncMessageListener{Consume: func(message *golang.MessageView) golang.ConsumerResult {
		body := bodyOf(message)
		counting.Lock()
		runs[body]++
		failed := runs[body] <= one.Fails[body]
		counting.Unlock()
		say(object{"event": "message", "name": one.Name, "message": seen(message), "failed": failed, "at_ms": time.Now().UnixMilli()})
		time.Sleep(seconds(one.RunsS, 0))
		if failed {
			return golang.FAILURE
		}
		return golang.SUCCESS
	}}
	threads := one.Threads
	if threads == 0 {
		threads = 4
	}
	opening, err := golang.NewPushConsumer(config(one),
		golang.WithPushSubscriptionExpressions(subscriptions(one)),
		golang.WithPushConsumptionThreadCount(int32(min(threads, math.MaxInt32))),
		golang.WithPushMessageListener(listener))
	return start(one, opening, err)
}

var operations = map[string]func(command) (any, error){
	"producer": producer,
	"send":     send,
	"load":     load,
	"simple":   simple,
	"receive":  receive,
	"drain":    drain,
	"push":     push,
	"ack": func(one command) (any, error) {
		return nil, of[golang.SimpleConsumer](one).Ack(context.Background(), messageOf(one))
	},
	"change": func(one command) (any, error) {
		return nil, of[golang.SimpleConsumer](one).ChangeInvisibleDuration(messageOf(one), seconds(one.InvisibleS, 0))
	},
	"close": func(one command) (any, error) {
		closing := of[client](one)
		opened.Delete(one.Name)
		return nil, closing.GracefulStop()
	},
}

func answer(one command) {
	operation, ok := operations[one.Op]
	if !ok {
		say(object{"id": one.ID, "error": object{"type": "unsupported", "text": "the SDK for Go has no " + one.Op}})
		return
	}
	done, err := operation(one)
	if err == nil {
		say(object{"id": one.ID, "ok": done})
		return
	}
	refusal := object{"type": fmt.Sprintf("%T", err), "text": err.Error()}
	if status, ok := golang.AsErrRpcStatus(err); ok {
		refusal["code"] = status.Code
	}
	say(object{"id": one.ID, "error": refusal})
}

func main() {
	endpoints = os.Args[1]
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, math.MaxInt32)
	for lines.Scan() {
		var one command
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		go answer(one)
	}
}
