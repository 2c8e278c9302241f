package link

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// TestCallsWaitForASentinelFailover kills the primary, then demotes the running successor (faults F1, F9).
// Calls of every kind wait for the next primary and continue there.
func TestCallsWaitForASentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t)
	l := open(t, s.URL()+"&durability=replicas:1&durability_timeout=20s")
	everything := func(what string) {
		t.Helper()
		if _, err := l.Run(within(t, 30*time.Second), increment("k", 1)); err != nil {
			t.Errorf("%s: Run: %v", what, err)
		}
		if _, notDurable, err := l.RunDurable(within(t, 30*time.Second), increment("k", 1)); err != nil || notDurable != nil {
			t.Errorf("%s: RunDurable: %v, %v", what, notDurable, err)
		}
		got := block(t.Context(), l, time.Millisecond, "z")
		redistest.Await(t, what+": a blocking call", func() bool {
			if got.err != nil {
				got = block(t.Context(), l, time.Millisecond, "z")
			}
			return got == answer{}
		})
		primary := s.Primary()
		done := goBlock(t.Context(), l, "z")
		awaitBlocked(t, primary, 1)
		l.Unblock(l.Group("z"))
		if got := <-done; got != (answer{}) {
			t.Errorf("%s: unblocked: %+v", what, got)
		}
	}
	everything("before")
	old := s.Primary()
	old.Kill()
	awaitCut(t, l, old)
	_, err := l.Run(within(t, 30*time.Second), increment("k", 1))
	// Sentinel closes the connections of the server that it promotes. A call that has just been sent
	// there may have run, so the link does not repeat it.
	if err != nil && strings.Contains(err.Error(), "may have happened") {
		_, err = l.Run(within(t, 30*time.Second), increment("k", 1))
	}
	if err != nil {
		t.Errorf("a call without a primary returned %v", err)
	}
	s.AwaitHealthy()
	everything("after the kill")
	old.Restart()
	s.AwaitHealthy()

	demoted := s.Primary()
	redistest.Await(t, "the sentinels take the order", func() bool {
		_, err := s.Sentinels()[0].Do(t.Context(), "SENTINEL", "FAILOVER", redistest.PrimaryName)
		return err == nil
	})
	redistest.Await(t, "another primary", func() bool {
		if _, err := l.Run(within(t, 30*time.Second), increment("k", 1)); err != nil {
			t.Errorf("a call during the replacement returned %v", err)
		}
		return s.Primary().Addr() != demoted.Addr()
	})
	s.AwaitHealthy()
	everything("after the demotion")
}

// awaitCut waits until the link has noticed that a server is gone. Before that, a call may be sent
// to the server, and it is unknown whether such a call has run.
func awaitCut(t *testing.T, l *Link, s *redistest.Server) {
	t.Helper()
	redistest.Await(t, "the link notices", func() bool {
		return !slices.ContainsFunc(l.dialer.open(), func(c *conn) bool { return c.RemoteAddr().String() == s.Addr() })
	})
}

func TestOpenRefusesWrongSentinelURLs(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t)
	hosts := strings.Join(s.Addrs(), ",")
	open(t, "redis+sentinel://127.0.0.1:1,"+hosts+"/"+redistest.PrimaryName+"/2")
	refusedOpen(t, "redis+sentinel://"+hosts+"/other", duly.CodeInvalid, "SENTINEL MASTERS")
	refusedOpen(t, "redis://"+s.Addrs()[0], duly.CodeInvalid, "redis+sentinel://")
	for _, server := range s.Servers() {
		if server.Addr() != s.Primary().Addr() {
			refusedOpen(t, "redis://"+server.Addr(), duly.CodeUnavailable, "replica")
		}
	}
}
