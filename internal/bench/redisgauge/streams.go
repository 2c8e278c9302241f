package redisgauge

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench"
)

// streams implements bench.Native for messages with a stream and a consumer group of the server.
type streams struct {
	native
	body string
	made sync.Once
}

const streamGroup = "g"

// Streams implements bench.Gauge.
func (g *Gauge) Streams(batch, body int) bench.Native {
	key := "{" + bench.Prefix + strings.ToLower(duly.NewNumber().String()) + "}stream"
	return &streams{native: native{place: g.place, batch: batch, records: key, ready: key, leased: key},
		body: strings.Repeat("x", body)}
}

// Push implements bench.Native.
func (s *streams) Push(ctx context.Context, lane, messages int) error {
	var err error
	s.made.Do(func() {
		_, err = s.send(ctx, lane, func(client rueidis.Client) rueidis.Commands {
			return rueidis.Commands{client.B().XgroupCreate().Key(s.records).Group(streamGroup).Id("0").Mkstream().Build()}
		})
	})
	if err != nil {
		return err
	}
	_, err = s.send(ctx, lane, func(client rueidis.Client) rueidis.Commands {
		publish := make(rueidis.Commands, messages)
		for i := range publish {
			publish[i] = command(client, "XADD", s.records, []string{"*", "m", s.body})
		}
		return publish
	})
	return err
}

// Reserve implements bench.Native.
func (s *streams) Reserve(ctx context.Context, lane, messages int) ([]string, error) {
	results, err := s.send(ctx, lane, func(client rueidis.Client) (read rueidis.Commands) {
		for _, size := range s.batches(messages) {
			read = append(read, client.B().Xreadgroup().Group(streamGroup,
				"lane"+strconv.Itoa(lane)).Count(int64(size)).Streams().Key(s.records).Id(">").Build())
		}
		return read
	})
	if err != nil {
		return nil, err
	}

	var all []string
	for _, result := range results {
		entries, err := result.AsXRead()
		if rueidis.IsRedisNil(err) {
			break // the stream has no more messages
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range entries[s.records] {
			all = append(all, entry.ID)
		}
	}
	return all, nil
}

// Ack implements bench.Native.
func (s *streams) Ack(ctx context.Context, lane int, all []string) error {
	_, err := s.send(ctx, lane, func(client rueidis.Client) (end rueidis.Commands) {
		for ids := range slices.Chunk(all, s.batch) {
			end = append(end, client.B().Xack().Key(s.records).Group(streamGroup).Id(ids...).Build())
		}
		return end
	})
	return err
}
