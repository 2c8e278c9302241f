package redistest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A replica that becomes the primary at once has all writes.
func TestHealthyReplicasGetAllWrites(t *testing.T) {
	t.Parallel()
	sends := func(primary *Server, want int) {
		t.Helper()
		role := primary.Must("ROLE").([]any)
		replicas := slices.DeleteFunc(slices.Clone(role[2].([]any)), func(r any) bool { return r.([]any)[2] == "0" })
		if len(replicas) != want {
			t.Errorf("%d replicas have acknowledged something, want %d: %v", len(replicas), want, role)
		}
	}
	single := Single(t)
	single.Replica()
	sends(single, 1)
	sends(NewSentinel(t).Primary(), 2)
	for _, primary := range NewCluster(t, 1).Nodes()[:Shards] {
		sends(primary, 1)
	}
}

func TestSentinelsReplaceAKilledPrimary(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t, Password("geheim"), AOF("everysec"))
	want := "redis+sentinel://:geheim@" + s.Addrs()[0] + "/" + PrimaryName + "?addr="
	if got := s.URL(); !strings.HasPrefix(got, want) || len(s.Addrs()) != 3 || len(s.Servers()) != 3 {
		t.Errorf("URL %s, want %s…", got, want)
	}
	first := s.Primary()
	if first != s.Servers()[0] {
		t.Errorf("the primary is %s", first.Addr())
	}
	first.Must("SET", "k", "v")
	if got := first.Must("WAIT", 2, patience.Milliseconds()); got != int64(2) {
		t.Fatalf("%v replicas have it", got)
	}

	s.Sentinels()[0].Kill() // two of three sentinels can still decide
	killed := time.Now().Truncate(time.Millisecond)
	if old := s.Failover(); old != first {
		t.Errorf("killed %s", old.Addr())
	}
	replaced := s.Replacements()
	if i := slices.IndexFunc(replaced, func(r Replacement) bool {
		return r.Old == first.Addr() && !r.At.Before(killed) && r.Done.After(r.At) && !r.Done.After(time.Now())
	}); i < 0 {
		t.Errorf("it was killed at %v, but the logs have %+v", killed, replaced)
	}
	second := s.Primary()
	if second == first || second.Must("GET", "k") != "v" {
		t.Errorf("%s serves after %s", second.Addr(), first.Addr())
	}
	for i, one := range s.Servers() {
		if role := roleOf(one); one != first && (role == "master") != (one == second) {
			t.Errorf("server %d is %s", i, role)
		}
	}

	s.Sentinels()[0].Restart()
	first.Restart()
	s.AwaitHealthy() // the server starts as a primary, and becomes a replica
	if role := roleOf(first); role != "slave" {
		t.Errorf("the killed primary is %s", role)
	}
	if i := slices.Index(s.Servers(), s.Primary()); i < 0 || s.Primary() != second {
		t.Errorf("the primary is %s", s.Primary().Addr())
	}
}

func roleOf(s *Server) string {
	s.t.Helper()
	if !s.p.running() {
		return "gone"
	}
	return s.Must("ROLE").([]any)[0].(string)
}
