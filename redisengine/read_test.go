package redisengine_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestReadWakesForOtherProcesses checks that a waiting Read returns a message that another
// process publishes. The clock does not advance, so the Read can't find it by polling.
//
// C12.141
func TestReadWakesForOtherProcesses(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	nodes, clusterPrefix := redistest.SharedCluster(t)
	for name, at := range map[string]struct {
		url, prefix string
		nodes       []*redistest.Server
	}{
		"single":  {withPrefix(server.URL(), prefix), prefix, []*redistest.Server{server}},
		"cluster": {nodes.URL() + "&prefix=" + clusterPrefix, clusterPrefix, nodes.Nodes()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, c := at.url, clock.NewFake()
			listening := func() (n int) {
				for _, node := range at.nodes {
					n += len(node.Must("PUBSUB", "SHARDCHANNELS", at.prefix+":{default/t/*").([]any))
				}
				return n
			}
			same := func(testing.TB) string { return url }
			reader, publisher := openOn(t, same, c, enginetest.Options{}), openOn(t, same, c, enginetest.Options{})
			defer reader.Close()
			defer publisher.Close()
			must(t, reader.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{Shards: 4}))

			pages := make(chan contract.ReadPage, 1)
			from := duly.FromStart
			// When the second Read begins, the process is already subscribed.
			for range 3 {
				go func() {
					page, err := reader.Read(t.Context(), duly.Q("t"), contract.ReadParams{From: from, Limit: 1, Wait: time.Minute})
					if err != nil {
						t.Error(err)
					}
					pages <- page
				}()
				redistest.Await(t, "a subscription", func() bool { return listening() > 0 })
				results, err := publisher.Publish(t.Context(), []duly.Message{{Topic: "t"}})
				must(t, err)
				must(t, results[0].Err)
				page := <-pages
				if len(page.Entries) != 1 || page.Entries[0].Position != results[0].Position {
					t.Fatalf("Read returned %+v, want the message at %s", page.Entries, results[0].Position)
				}
				from = page.Next
			}
		})
	}
}

// TestIdleReadsShareOneWatcher checks that Reads waiting for a topic share one watcher. Without
// publishes their process sends at most 0.8 calls/s, whatever the number of Reads and shards.
//
// C12.141
func TestIdleReadsShareOneWatcher(t *testing.T) {
	t.Parallel()
	server, c := redistest.Single(t), clock.NewFake()
	e := openOn(t, func(testing.TB) string { return server.URL() }, c, enginetest.Options{})
	defer e.Close()
	const reads, shards, lasts = 20, 16, 5 * time.Minute
	must(t, e.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{Shards: shards}))
	counter := regexp.MustCompile(`(?m)^cmdstat_fcall(?:_ro)?:calls=(\d+)`)
	calls := func() (n int) {
		info := server.Must("INFO", "commandstats").(string)
		for _, m := range counter.FindAllStringSubmatch(info, -1) {
			some, _ := strconv.Atoi(m[1])
			n += some
		}
		return n
	}
	quiet := func() { // quiet waits much longer than a call takes
		for last, at := -1, 0; at < 50; at++ {
			if n := calls(); n != last {
				last, at = n, 0
			}
		}
	}

	pages := make(chan contract.ReadPage, reads)
	for range reads {
		go func() {
			page, err := e.Read(t.Context(), duly.Q("t"), contract.ReadParams{Wait: 2 * lasts})
			if err != nil {
				t.Error(err)
			}
			pages <- page
		}()
	}
	redistest.Await(t, "a subscription", func() bool { return len(server.Must("PUBSUB", "SHARDCHANNELS").([]any)) > 0 })
	redistest.Await(t, "a first look of each Read", func() bool { return calls() >= 2*reads*shards })
	quiet()

	before := calls()
	for range lasts / (5 * time.Second) {
		c.Advance(5 * time.Second)
		quiet()
	}
	if n, most := calls()-before, int(0.8*lasts.Seconds())+shards; n > most {
		t.Errorf("%d idle Reads of %d shards sent %d calls in %v, want at most %d", reads, shards, n, lasts, most)
	}

	_, err := e.Publish(t.Context(), []duly.Message{{Topic: "t"}})
	must(t, err)
	for range reads {
		if page := <-pages; len(page.Entries) != 1 {
			t.Errorf("Read returned %d messages, want 1", len(page.Entries))
		}
	}
}

// TestReadFindsUnannouncedMessages checks that the watcher finds a message whose publisher died
// before it could announce it.
//
// C12.141
func TestReadFindsUnannouncedMessages(t *testing.T) {
	t.Parallel()
	server, c := redistest.Single(t), clock.NewFake()
	server.Must("ACL", "SETUSER", "silent", "on", ">secret", "~*", "&*", "+@all", "-spublish")
	open := func(url string) *redisengine.Engine {
		e := openOn(t, func(testing.TB) string { return url }, c, enginetest.Options{})
		t.Cleanup(func() { e.Close() })
		return e
	}
	reader, publisher := open(server.URL()), open(strings.Replace(server.URL(), "://", "://silent:secret@", 1))
	must(t, reader.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{}))

	pages := make(chan contract.ReadPage, 1)
	go func() {
		page, err := reader.Read(t.Context(), duly.Q("t"), contract.ReadParams{Wait: 10 * time.Minute})
		if err != nil {
			t.Error(err)
		}
		pages <- page
	}()
	redistest.Await(t, "a subscription", func() bool { return len(server.Must("PUBSUB", "SHARDCHANNELS").([]any)) > 0 })
	_, err := publisher.Publish(t.Context(), []duly.Message{{Topic: "t"}})
	must(t, err)

	start := c.Mono()
	redistest.Await(t, "the message", func() bool {
		if len(pages) == 0 {
			c.Advance(time.Second)
		}
		return len(pages) > 0
	})
	if page := <-pages; len(page.Entries) != 1 || c.Mono()-start >= 10*time.Minute {
		t.Errorf("Read returned %d messages after %v, want 1 before its end", len(page.Entries), c.Mono()-start)
	}
}
