package redisengine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// reports holds the removals that an engine has reported to one watcher.
type reports struct {
	hearing  chan struct{}
	canceled chan contract.Canceled
}

// watchCancels watches the default namespace. It returns when reports arrive.
func watchCancels(t *testing.T, e *redisengine.Engine) *reports {
	t.Helper()
	r := &reports{make(chan struct{}, 1000), make(chan contract.Canceled, 1000)}
	go func() {
		_ = e.WatchCancels(t.Context(), "", contract.CancelWatch{
			Ready: func() { r.hearing <- struct{}{} }, Canceled: func(c contract.Canceled) { r.canceled <- c },
		})
	}()
	receive(t, "the watch to begin", r.hearing)
	return r
}

func receive[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case got = <-from:
	case <-ctx.Done():
		t.Fatalf("timed out waiting for %s", what)
	}
	return got
}

// statCalls returns how often a command was called, from the server's statistics.
func statCalls(server *redistest.Server, command string) (n int) {
	text := fmt.Sprint(server.Must("INFO", "commandstats"))
	if _, rest, ok := strings.Cut(text, "cmdstat_"+command+":calls="); ok {
		fmt.Sscanf(rest, "%d,", &n)
	}
	return n
}

// TestDeleteIsReportedToAnotherProcess checks that another process receives a deletion within 100
// ms (C4.97). A busy machine may delay some reports, so the fastest of several counts.
func TestDeleteIsReportedToAnotherProcess(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	url := withPrefix(server.URL(), prefix)
	worker, operator := open(t, url), open(t, url)
	r := watchCancels(t, worker)

	fastest := time.Hour
	for i := range 10 {
		id := fmt.Sprintf("j%d", i)
		pushOne(t, operator, duly.Job{Queue: "q", ID: id})
		began := clock.Monotonic()
		must(t, operator.Delete(t.Context(), duly.Q("q"), id))
		got := receive(t, "the report", r.canceled)
		fastest = min(fastest, clock.Monotonic()-began)
		if got.Queue != "q" || !slices.Equal(got.IDs, []string{id}) {
			t.Errorf("reported %+v, want %s", got, id)
		}
	}
	if fastest > 100*time.Millisecond {
		t.Errorf("the fastest report took %v", fastest)
	}
}

// TestCancelWatchReconnects checks that the watchers of one namespace share a connection, which
// sends no queries. If the connection ends, the engine opens a new one and reports the gap to the
// watchers.
func TestCancelWatchReconnects(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := at(t, server.URL(), clock.NewFake())
	first, second := watchCancels(t, e), watchCancels(t, e)
	if n := statCalls(server, "ssubscribe"); n != 1 {
		t.Errorf("two watchers subscribed %d times", n)
	}

	server.Must("CLIENT", "KILL", "TYPE", "pubsub")
	receive(t, "the end of the gap", first.hearing)
	receive(t, "the end of the gap", second.hearing)
	pushOne(t, e, duly.Job{Queue: "q", ID: "a"})
	must(t, e.Delete(t.Context(), duly.Q("q"), "a"))
	receive(t, "the report", first.canceled)
	receive(t, "the report", second.canceled)
}

// TestReportsOfDeletedJobsAreJoined checks that a thousand deletes send far fewer messages, and
// that the messages name no jobs if there is no watcher. The ack of the lmstfy-compatible API is a
// Delete.
func TestReportsOfDeletedJobsAreJoined(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	e := at(t, server.URL(), clock.NewFake())
	const jobs = 1000
	batch := make([]duly.Job, jobs)
	ids := make([]string, jobs)
	for i := range batch {
		ids[i] = fmt.Sprintf("j%d", i)
		batch[i] = duly.Job{Queue: "q", ID: ids[i]}
	}
	_, err := e.Push(t.Context(), batch)
	must(t, err)
	must(t, e.Delete(t.Context(), duly.Q("q"), ids[0]))
	redistest.Await(t, "the first message", func() bool { return statCalls(server, "spublish") == 1 })

	r := watchCancels(t, e)
	began := clock.Monotonic()
	for _, id := range ids[1:] {
		must(t, e.Delete(t.Context(), duly.Q("q"), id))
	}
	took := clock.Monotonic() - began
	if got := receive(t, "the report", r.canceled); got.IDs != nil {
		t.Errorf("the report after a Delete without watchers names %q, want no IDs", got.IDs)
	}
	for named := false; !named; {
		named = slices.Contains(receive(t, "the last report", r.canceled).IDs, ids[jobs-1])
	}
	if n, most := statCalls(server, "spublish"), 3+int(took/(25*time.Millisecond)); n > most {
		t.Errorf("got %d messages in %v, want at most %d", n, took, most)
	}
}

// TestCancelReportsNeedTheirRights checks that a user without the rights works without reports,
// and that each missing right is logged once.
func TestCancelReportsNeedTheirRights(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	rules := slices.DeleteFunc(documented(t, prefix), func(r string) bool {
		return r == "+spublish" ||
			r == "+ssubscribe"
	})
	e, log := openLogged(t, asUser(t, server, prefix, rules))
	go func() {
		_ = e.WatchCancels(t.Context(), "", contract.CancelWatch{Canceled: func(contract.Canceled) {}})
	}()
	for _, id := range []string{"a", "b"} {
		pushOne(t, e, duly.Job{Queue: "q", ID: id})
		must(t, e.Delete(t.Context(), duly.Q("q"), id))
	}
	published, heard := "+spublish &"+prefix+":*\" setting=acl", "+ssubscribe &"+prefix+":*\" setting=acl"
	redistest.Await(t, "both are logged", func() bool {
		return strings.Contains(log.String(), published) && strings.Contains(log.String(), heard)
	})
	if n, m := strings.Count(log.String(), published), strings.Count(log.String(), heard); n != 1 || m != 1 {
		t.Errorf("logged %d and %d warnings, want 1 each:\n%s", n, m, log)
	}
}
