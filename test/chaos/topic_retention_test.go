package chaos

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// TestPromptGroupKeepsTheLogSmall sends messages through a group that acknowledges each at once.
// The store must not grow with the number of messages. Then a group that is far behind catches
// up. It receives each message, and the log shrinks behind it.
//
// C12.119
func TestPromptGroupKeepsTheLogSmall(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Single(t)
		passThrough(t, openAt(t, server.URL()), counts(30_000, 10_000_000), func() int64 { return usedMemory(t, server) })
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "duly.db")
		engine, err := openStore(path)
		must(t, err)
		t.Cleanup(func() { engine.Close() })
		passThrough(t, engine, counts(30_000, 1_000_000), func() int64 { return fileSizes(t, path) })
	})
}

func usedMemory(t *testing.T, redis *redistest.Server) int64 {
	t.Helper()
	info, _ := redis.Must("INFO", "memory").(string)
	_, text, _ := strings.Cut(info, "used_memory:")
	text, _, _ = strings.Cut(text, "\r")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fileSizes returns the size of a database with its log.
func fileSizes(t *testing.T, path string) (size int64) {
	t.Helper()
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		must(t, err)
		size += info.Size()
	}
	return size
}

// flat is how much the store may grow after the first tenth of the messages.
const flat = 64 << 20

func passThrough(t *testing.T, engine closer, messages int, size func() int64) {
	topics, prompt := engine.(contract.Topics), duly.Q("events@prompt")
	_, err := topics.CreateGroup(t.Context(), prompt, duly.FromStart)
	must(t, err)
	part := messages / 10
	var first, most int64
	for n := range 10 {
		pass(t, engine, prompt, n*part, part)
		now := size()
		if n == 0 {
			first = now
		}
		most = max(most, now-first)
	}
	t.Logf("%d messages: the store had %d MiB after the first %d, and grew by at most %d MiB then", messages, first>>20,
		part, most>>20)
	if most > flat {
		t.Errorf("the store grew by %d bytes after the first tenth of the messages, want at most %d", most, flat)
	}
	catchUp(t, engine, part)
}

// pass publishes numbered messages while a group acknowledges them.
func pass(t *testing.T, engine closer, group duly.QueueRef, from, messages int) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; n < messages; {
			batch := make([]duly.Message, min(500, messages-n))
			for i := range batch {
				batch[i] = duly.Message{Topic: theTopic.Name, Body: []byte(strconv.Itoa(from + n + i))}
			}
			if _, err := engine.(contract.Topics).Publish(context.Background(), batch); err != nil {
				t.Error(err)
				return
			}
			n += len(batch)
		}
	})
	seen := make([]bool, messages)
	ackMessages(t, engine, group, messages, func(number int) { seen[number-from] = true })
	wg.Wait()
	for n, ok := range seen {
		if !ok {
			t.Fatalf("message %d was not delivered", from+n)
		}
	}
}

// ackMessages acknowledges this many messages of a group.
func ackMessages(t *testing.T, engine closer, group duly.QueueRef, messages int, each func(number int)) {
	t.Helper()
	for begun := time.Now(); messages > 0; {
		ds := reserveAll(t, engine, group, 500, time.Minute)
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			number, err := strconv.Atoi(string(d.Body))
			if err != nil {
				t.Fatalf("a message has the body %q: %v", d.Body, err)
			}
			each(number)
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		if len(ds) == 0 {
			if time.Since(begun) > patience {
				t.Fatalf("%d messages of %s are missing, and nothing was delivered for %v", messages, group, patience)
			}
			_, err := engine.Wait(t.Context(), duly.WaitParams{Queues: []string{group.Name}, Timeout: time.Second})
			must(t, err)
			continue
		}
		begun = time.Now()
		results, err := engine.Settle(t.Context(), "", outcomes)
		must(t, err)
		for _, err := range results {
			must(t, err)
		}
		messages -= len(ds)
	}
}

// catchUp makes a group fall behind and catch up.
func catchUp(t *testing.T, engine closer, messages int) {
	t.Helper()
	topics, prompt, slow := engine.(contract.Topics), duly.Q("events@prompt"), duly.Q("events@slow")
	_, err := topics.CreateGroup(t.Context(), slow, duly.FromEnd)
	must(t, err)
	pass(t, engine, prompt, 0, messages)
	info, err := topics.Topic(t.Context(), theTopic)
	must(t, err)
	if info.Stats.Messages < int64(messages) {
		t.Fatalf("the log has %d messages, want the %d that a group needs", info.Stats.Messages, messages)
	}
	seen := make([]bool, messages)
	ackMessages(t, engine, slow, messages, func(number int) { seen[number] = true })
	for n, ok := range seen {
		if !ok {
			t.Fatalf("a group that was behind did not receive message %d", n)
		}
	}

	caught := time.Now()
	for info.Stats.Messages > 0 {
		if time.Since(caught) > 10*time.Second { // ten times the promised 1 s
			t.Fatalf("the log still has %d messages %v after the last group has acked them", info.Stats.Messages,
				time.Since(caught))
		}
		_, err := engine.(contract.Maintainer).Step(t.Context(), slow)
		must(t, err)
		info, err = topics.Topic(t.Context(), theTopic)
		must(t, err)
	}
	t.Logf("the log was empty %v after the last ack", time.Since(caught).Round(time.Millisecond))
}

// TestMissedMessagesAreCountedExactly has a group without consumers in a topic that drops its oldest messages. The
// missed messages and the later deliveries add up to all published messages.
//
// C12.124, C12.128, C12.153
func TestMissedMessagesAreCountedExactly(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		abandon(t, openAt(t, redistest.Single(t).URL()))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		abandon(t, openAt(t, open.File(filepath.Join(t.TempDir(), "duly.db"))))
	})
}

func abandon(t *testing.T, engine closer) {
	topics, group := engine.(contract.Topics), duly.Q("events@abandoned")
	messages := counts(10_000, 300_000)
	kept := messages / 10
	must(t, topics.ConfigureTopic(t.Context(), theTopic, duly.TopicConfig{MaxCount: kept, Overflow: duly.OverflowDrop}))
	_, err := topics.CreateGroup(t.Context(), group, duly.FromStart)
	must(t, err)
	publishNumbers(t, topics, messages)
	s, err := engine.Stats(t.Context(), group)
	must(t, err)
	given, least := 0, messages
	left := int(s.Group.Lag)
	ackMessages(t, engine, group, left, func(number int) { given, least = given+1, min(least, number) })

	s, err = engine.Stats(t.Context(), group)
	must(t, err)
	missed := int(s.Group.Missed)
	t.Logf("%d messages: %d missed, %d delivered", messages, missed, given)
	if missed+given != messages || missed != least || given > kept {
		t.Errorf("the group missed %d and received %d, from message %d on; %d messages were published, and the topic keeps %d",
			missed, given, least, messages, kept)
	}
}
