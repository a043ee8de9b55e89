// client.go: franz-go, the Kafka client of Go, as README.md has it.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var out sync.Mutex

func say(what map[string]any) {
	line, _ := json.Marshal(what)
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func unhex(text *string) []byte {
	if text == nil {
		return nil
	}
	b, err := hex.DecodeString(*text)
	check(err)
	if b == nil {
		b = []byte{}
	}
	return b
}

func tohex(b []byte) any {
	if b == nil {
		return nil
	}
	return hex.EncodeToString(b)
}

type record struct {
	Key       *string      `json:"key"`
	Value     *string      `json:"value"`
	Headers   [][2]*string `json:"headers"`
	Partition *int32       `json:"partition"`
	Time      *int64       `json:"time"`
}

func input(topic string) []*kgo.Record {
	var records []*kgo.Record
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r record
		check(json.Unmarshal(lines.Bytes(), &r))
		k := &kgo.Record{Topic: topic, Key: unhex(r.Key), Value: unhex(r.Value), Partition: -1}
		if r.Partition != nil {
			k.Partition = *r.Partition
		}
		if r.Time != nil {
			k.Timestamp = time.UnixMilli(*r.Time)
		}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: *h[0], Value: unhex(h[1])})
		}
		records = append(records, k)
	}
	return records
}

// The partition that a record names, else that of its key.
func partitioner() kgo.Partitioner {
	byKey := kgo.StickyKeyPartitioner(nil)
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		t := byKey.ForTopic(topic)
		return func(r *kgo.Record, n int) int {
			if r.Partition >= 0 {
				return int(r.Partition)
			}
			return t.Partition(r, n)
		}
	})
}

func produce(opts []kgo.Opt, topic, codec, idempotent string) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	opts = append(opts, kgo.RecordPartitioner(partitioner()), kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(50*time.Millisecond),
		kgo.AllowAutoTopicCreation())
	if idempotent != "yes" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(opts...)
	check(err)
	for _, r := range cl.ProduceSync(context.Background(), input(topic)...) {
		check(r.Err)
		say(map[string]any{"partition": r.Record.Partition, "offset": r.Record.Offset})
	}
	cl.Close()
}

func consume(opts []kgo.Opt, topic, group, count string) {
	ctx := context.Background()
	want, err := strconv.Atoi(count)
	check(err)
	tell := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			mine := append([]int32{}, parts[topic]...)
			slices.Sort(mine)
			say(map[string]any{what: mine, "more": true})
		}
	}
	cl, err := kgo.NewClient(append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(tell("assigned")), kgo.OnPartitionsRevoked(tell("revoked")), kgo.OnPartitionsLost(tell("revoked")))...)
	check(err)
	for n := 0; want == 0 || n < want; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			check(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			headers := [][2]any{}
			for _, h := range r.Headers {
				headers = append(headers, [2]any{h.Key, tohex(h.Value)})
			}
			n++
			say(map[string]any{"partition": r.Partition, "offset": r.Offset, "key": tohex(r.Key), "value": tohex(r.Value),
				"headers": headers, "time": r.Timestamp.UnixMilli()})
		})
		if err := cl.CommitUncommittedOffsets(ctx); err != nil && want > 0 {
			check(err)
		}
	}
	cl.Close()
}

func admin(opts []kgo.Opt, topic string) {
	ctx := context.Background()
	adm, err := kadm.NewOptClient(opts...)
	check(err)
	first, second := "3600000", "7200000"
	retention := func() string {
		rs, err := adm.DescribeTopicConfigs(ctx, topic)
		check(err)
		for _, c := range rs[0].Configs {
			if c.Key == "retention.ms" {
				return c.MaybeValue()
			}
		}
		return ""
	}
	made, err := adm.CreateTopics(ctx, 2, 1, map[string]*string{"retention.ms": &first}, topic)
	check(err)
	check(made.Error())
	grown, err := adm.CreatePartitions(ctx, 1, topic)
	check(err)
	check(grown.Error())
	details, err := adm.ListTopics(ctx, topic)
	check(err)
	before := retention()
	altered, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &second}}, topic)
	check(err)
	check(altered[0].Err)
	after := retention()
	groups, err := adm.ListGroups(ctx)
	check(err)
	deleted, err := adm.DeleteTopics(ctx, topic)
	check(err)
	check(deleted.Error())
	left, err := adm.ListTopics(ctx)
	check(err)
	say(map[string]any{"partitions": len(details[topic].Partitions), "retention": []string{before, after}, "groups": groups.Groups(), "gone": !left.Has(topic)})
	adm.Close()
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "github.com/twmb/franz-go" {
			return m.Version
		}
	}
	return "unknown"
}

func main() {
	args := os.Args[2:]
	if args[0] == "about" {
		say(map[string]any{"version": version(), "codecs": []string{"none", "gzip", "snappy", "lz4", "zstd"}, "null_header": true})
		return
	}
	opts := []kgo.Opt{kgo.SeedBrokers(args[1]), kgo.ClientID("franz-go")}
	if args[2] != "" {
		opts = append(opts, kgo.SASL(scram.Auth{User: args[2], Pass: args[3]}.AsSha256Mechanism()))
	}
	switch args[0] {
	case "produce":
		produce(opts, args[4], args[5], args[6])
	case "consume":
		consume(opts, args[4], args[5], args[6])
	case "admin":
		admin(opts, args[4])
	}
}
