package redisgauge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/clock"
)

const (
	nativeLanes = 2
	// nativeDepth is the number of batches in flight on each connection.
	nativeDepth = 4
	// recordHead is the size of the Redis engine's record of a job without its body.
	recordHead = 14
	// nativeLease is the lease of a job, in ms.
	nativeLease = 30_000
)

// native implements bench.Native with a hash of records, and sorted sets of ready and leased
// jobs.
type native struct {
	place                  place
	batch                  int
	record                 string
	records, ready, leased string // names of keys, which are in one slot

	mu      sync.Mutex
	clients [nativeLanes]rueidis.Client // created by the first call on each lane
}

// Native implements bench.Gauge.
func (g *Gauge) Native(batch, body int) bench.Native {
	tag := "{" + bench.Prefix + strings.ToLower(duly.NewNumber().String()) + "}"
	return &native{
		place: g.place, batch: batch, record: strings.Repeat("x", recordHead+body),
		records: tag + "records", ready: tag + "ready", leased: tag + "leased",
	}
}

// Lanes implements bench.Native.
func (n *native) Lanes() int { return nativeLanes }

// Most implements bench.Native.
func (n *native) Most() int { return nativeDepth * n.batch }

func (n *native) lane(i int) (rueidis.Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	if n.clients[i] == nil {
		n.clients[i], err = n.place.connect(false)
	}
	return n.clients[i], err
}

// batches splits a number of jobs into batches.
func (n *native) batches(jobs int) (sizes []int) {
	for ; jobs > 0; jobs -= n.batch {
		sizes = append(sizes, min(jobs, n.batch))
	}
	return sizes
}

// Push implements bench.Native.
func (n *native) Push(ctx context.Context, lane, jobs int) error {
	now := strconv.FormatInt(clock.System().Now().UnixMilli(), 10)
	_, err := n.send(ctx, lane, func(client rueidis.Client) (push rueidis.Commands) {
		for _, size := range n.batches(jobs) {
			var store, add []string
			for range size {
				number := duly.NewNumber()
				store = append(store, string(number[:]), n.record)
				add = append(add, now, string(number[:]))
			}
			push = append(push, command(client, "HSET", n.records, store), command(client, "ZADD", n.ready, add))
		}
		return push
	})
	return err
}

// Reserve implements bench.Native.
func (n *native) Reserve(ctx context.Context, lane, jobs int) ([]string, error) {
	popped, err := n.send(ctx, lane, func(client rueidis.Client) (pop rueidis.Commands) {
		for _, size := range n.batches(jobs) {
			pop = append(pop, client.B().Zpopmin().Key(n.ready).Count(int64(size)).Build())
		}
		return pop
	})
	if err != nil {
		return nil, err
	}

	var all []string
	for i := range popped {
		pairs, err := popped[i].AsZScores()
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			all = append(all, p.Member)
		}
	}

	// All numbers are popped before any is leased, because the commands that lease need the numbers
	// in the server's answer.
	until := strconv.FormatInt(clock.System().Now().UnixMilli()+nativeLease, 10)
	_, err = n.send(ctx, lane, func(client rueidis.Client) (reserve rueidis.Commands) {
		for numbers := range slices.Chunk(all, n.batch) {
			leases := make([]string, 0, 2*len(numbers))
			for _, number := range numbers {
				leases = append(leases, until, number)
			}
			reserve = append(reserve, command(client, "HMGET", n.records, numbers), command(client, "ZADD", n.leased, leases))
		}
		return reserve
	})
	return all, err
}

// Ack implements bench.Native.
func (n *native) Ack(ctx context.Context, lane int, all []string) error {
	_, err := n.send(ctx, lane, func(client rueidis.Client) (end rueidis.Commands) {
		for numbers := range slices.Chunk(all, n.batch) {
			end = append(end, command(client, "ZREM", n.leased, numbers), command(client, "HDEL", n.records, numbers))
		}
		return end
	})
	return err
}

// send sends commands together on the connection of a lane, and returns their results. A nil reply,
// for example of a read that finds nothing, is not an error.
func (n *native) send(ctx context.Context, lane int,
	commands func(rueidis.Client) rueidis.Commands) ([]rueidis.RedisResult, error) {
	client, err := n.lane(lane)
	if err != nil {
		return nil, err
	}
	cmds := commands(client)
	if len(cmds) == 0 {
		return nil, nil
	}

	results := client.DoMulti(ctx, cmds...)
	for _, r := range results {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
	}
	return results, nil
}

func command(client rueidis.Client, name, key string, args []string) rueidis.Completed {
	return client.B().Arbitrary(name).Keys(key).Args(args...).Build()
}

// Remove implements bench.Native. It also closes the connections.
func (n *native) Remove(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.clients[0] == nil && n.clients[1] == nil {
		return nil
	}
	var err error
	for i, client := range n.clients {
		if client == nil {
			continue
		}
		if gone := client.Do(ctx, client.B().Unlink().Key(n.records, n.ready, n.leased).Build()).Error(); gone != nil {
			err = fmt.Errorf("UNLINK: %w", gone)
		}
		client.Close()
		n.clients[i] = nil
	}
	return err
}
