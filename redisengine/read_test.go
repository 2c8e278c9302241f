package redisengine_test

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
)

// A waiting Read returns what another process publishes. The clock stands still, so the Read does not find it by polling.
//
// C12.141
func TestReadHearsOfOtherProcesses(t *testing.T) {
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

			pages := make(chan duly.ReadPage, 1)
			from := duly.FromStart
			for range 3 { // the second Read finds that its process listens
				go func() {
					page, err := reader.Read(t.Context(), duly.Q("t"), duly.ReadParams{From: from, Limit: 1, Wait: time.Minute})
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
					t.Fatalf("Read returns %+v, want the message at %s", page.Entries, results[0].Position)
				}
				from = page.Next
			}
		})
	}
}
