//go:build unix

package redisengine_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest/resp"
)

// topicCallers is the number of concurrent goroutines. Each call has messagesPerCall messages.
const topicCallers, messagesPerCall = 4, 100

// info returns a number from the server's INFO.
func (r *rig) info(section, name string) float64 {
	_, rest, _ := strings.Cut(r.server.Must("INFO", section).(string), "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.Fatal(name, err)
	}
	return n
}

func (r *rig) publish(calls int) {
	messages := make([]duly.Message, messagesPerCall)
	for i, j := range r.jobs(messagesPerCall) {
		messages[i] = duly.Message{Topic: "t", Body: j.Body}
	}
	r.each(calls, topicCallers, func() error {
		results, err := r.e.Publish(r.Context(), messages)
		for i := range results {
			err = cmp.Or(err, results[i].Err)
		}
		return err
	})
}

// written reports how much f adds to the append-only file and to the used memory, in bytes per
// message.
func (r *rig) written(messages int, f func()) {
	file, memory := r.info("persistence", "aof_current_size"), r.info("memory", "used_memory")
	f()
	r.ReportMetric((r.info("persistence", "aof_current_size")-file)/float64(messages), "aof-B/message")
	r.ReportMetric((r.info("memory", "used_memory")-memory)/float64(messages), "memory-B/message")
}

func BenchmarkPublish100(b *testing.B) {
	r := newRig(b)
	r.publish(10)
	r.written(messagesPerCall*b.N, func() {
		r.begin()
		r.publish(b.N)
		r.end(messagesPerCall * b.N)
	})
}

func BenchmarkGroupReserveAck100(b *testing.B) {
	r := newRig(b)
	if _, err := r.e.CreateGroup(b.Context(), duly.Q("t@g"), duly.FromStart); err != nil {
		b.Fatal(err)
	}

	r.publish(b.N + 10)
	r.written(messagesPerCall*b.N, func() {
		r.begin()
		r.each(b.N, topicCallers, func() error {
			ds, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{"t@g"}, Max: messagesPerCall})
			if err != nil {
				return err
			}
			outcomes := make([]duly.SettleRequest, len(ds))
			for i := range ds {
				outcomes[i] = duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Ack}
			}
			_, err = r.e.Settle(r.Context(), "", outcomes)
			return err
		})
		r.end(messagesPerCall * b.N)
	})
}

// nackOnce reserves `most` messages with each call. It nacks each message at its first delivery,
// and acks it at its second delivery.
func (r *rig) nackOnce(most, calls int) {
	if _, err := r.e.CreateGroup(r.Context(), duly.Q("t@g"), duly.FromStart); err != nil {
		r.Fatal(err)
	}
	r.publish(most*calls/messagesPerCall + 10)
	var none time.Duration
	r.written(most*calls, func() {
		r.begin()
		r.each(calls, topicCallers, func() error {
			ds, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{"t@g"}, Max: most})
			if err != nil {
				return err
			}
			outcomes := make([]duly.SettleRequest, len(ds))
			for i := range ds {
				outcomes[i] = duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Ack}
				if ds[i].Failures == 0 {
					outcomes[i] = duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Nack, Delay: &none}
				}
			}
			_, err = r.e.Settle(r.Context(), "", outcomes)
			return err
		})
		r.end(most * calls)
	})
}

func BenchmarkGroupNack100(b *testing.B) { newRig(b).nackOnce(messagesPerCall, b.N) }
func BenchmarkGroupNack1(b *testing.B)   { newRig(b).nackOnce(1, b.N) }

// bare runs pipelines of commands on several connections.
func (r *rig) bare(calls int, call func(c *resp.Conn) error) {
	conns := make(chan *resp.Conn, topicCallers)
	for range topicCallers {
		c, err := r.server.Dial(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		r.Cleanup(func() { c.Close() })
		conns <- c
	}
	r.each(calls, topicCallers, func() error {
		c := <-conns
		defer func() { conns <- c }()
		return call(c)
	})
}

// pipeline returns the same command repeated, in the wire format.
func pipeline(times int, command ...string) []byte {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(command)) + "\r\n")
	for _, arg := range command {
		b.WriteString("$" + strconv.Itoa(len(arg)) + "\r\n" + arg + "\r\n")
	}
	return []byte(strings.Repeat(b.String(), times))
}

func replies(c *resp.Conn, n int) error {
	for range n {
		if _, err := c.Receive(); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) bareAdd(calls int) {
	commands := pipeline(messagesPerCall, "XADD", "s", "*", "m", strings.Repeat("x", 100))
	r.bare(calls, func(c *resp.Conn) error {
		if _, err := c.Write(commands); err != nil {
			return err
		}
		return replies(c, messagesPerCall)
	})
}

// BenchmarkBareXADD100 is the baseline of BenchmarkPublish100.
func BenchmarkBareXADD100(b *testing.B) {
	r := newRig(b)
	r.bareAdd(10)
	r.written(messagesPerCall*b.N, func() {
		r.begin()
		r.bareAdd(b.N)
		r.end(messagesPerCall * b.N)
	})
}

// BenchmarkBareXREADGROUP100 is the baseline of BenchmarkGroupReserveAck100.
func BenchmarkBareXREADGROUP100(b *testing.B) {
	r := newRig(b)
	r.server.Must("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
	r.bareAdd(b.N + 10)
	read := pipeline(1, "XREADGROUP", "GROUP", "g", "c", "COUNT", strconv.Itoa(messagesPerCall), "STREAMS", "s", ">")
	r.written(messagesPerCall*b.N, func() {
		r.begin()
		r.bare(b.N, func(c *resp.Conn) error {
			if _, err := c.Write(read); err != nil {
				return err
			}

			reply, err := c.Receive()
			if err != nil {
				return err
			}

			ack := []string{"XACK", "s", "g"}
			for _, entry := range reply.([]any)[0].([]any)[1].([]any) {
				ack = append(ack, entry.([]any)[0].(string))
			}
			if _, err := c.Write(pipeline(1, ack...)); err != nil {
				return err
			}
			return replies(c, 1)
		})
		r.end(messagesPerCall * b.N)
	})
}

// memoryOf reports how much f adds to the used memory, in bytes per item.
func (r *rig) memoryOf(n int, name string, f func()) {
	r.Helper()
	before := r.info("memory", "used_memory")
	f()
	r.ReportMetric((r.info("memory", "used_memory")-before)/float64(n), name)
	r.ReportMetric(0, "ns/op")
}

// BenchmarkMemoryOfGroups measures an idle group, a leased message, and one that waits after a
// nack.
func BenchmarkMemoryOfGroups(b *testing.B) {
	const groups, messages = 100, 50_000
	for b.Loop() {
		r := newRig(b)
		r.publish(messages / messagesPerCall)
		r.memoryOf(groups, "B/idle-group", func() {
			for i := range groups {
				if _, err := r.e.CreateGroup(b.Context(), duly.Q("t@g"+strconv.Itoa(i)), duly.FromEnd); err != nil {
					b.Fatal(err)
				}
			}
		})
		for i := range groups {
			if err := r.e.Destroy(b.Context(), duly.Q("t@g"+strconv.Itoa(i))); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := r.e.CreateGroup(b.Context(), duly.Q("t@g"), duly.FromStart); err != nil {
			b.Fatal(err)
		}
		var held []duly.Delivery
		r.memoryOf(messages, "B/leased-message", func() {
			for len(held) < messages {
				ds, err := r.e.Reserve(b.Context(), duly.ReserveParams{Queues: []string{"t@g"}, Max: messagesPerCall})
				if err != nil {
					b.Fatal(err)
				}
				held = append(held, ds...)
			}
		})
		r.memoryOf(messages, "B/nacked-message", func() {
			for some := range slices.Chunk(held, messagesPerCall) {
				outcomes := make([]duly.SettleRequest, len(some))
				for i := range some {
					outcomes[i] = duly.SettleRequest{Receipt: some[i].Receipt, As: duly.Nack}
				}
				if _, err := r.e.Settle(b.Context(), "", outcomes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
