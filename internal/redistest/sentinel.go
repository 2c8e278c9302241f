package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// These constants are the number of servers, the number of sentinels, and the number of sentinels
// that must agree that the primary is down.
const (
	sentinelServers = 3
	sentinelWatch   = 3
	sentinelQuorum  = 2
	// failoverTimeout is how long a sentinel tries to replace a primary, in ms.
	failoverTimeout = 3000
)

// PrimaryName is the name under which sentinels watch the primary.
const PrimaryName = "duly-test"

// Sentinel is a primary with two replicas and three sentinels. A sentinel considers a server down
// after a second without an answer. Promoting a replica takes a few seconds more.
type Sentinel struct {
	t                  testing.TB
	servers, sentinels []*Server
}

// NewSentinel starts the servers with these options, and their sentinels. It returns when all of
// them agree.
func NewSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	Need(t)
	settings := newSettings(opts)
	if settings.tls {
		t.Fatal("redistest: TLS is for single servers")
	}

	s := &Sentinel{t: t}
	primary := single(t, settings)
	s.servers = append(s.servers, primary)
	if settings.behind != nil {
		primary.p.front = settings.behind(primary.Addr())
		_, port, _ := net.SplitHostPort(primary.p.front)
		// The setting is used after the server follows another primary.
		primary.Must("CONFIG", "SET", "replica-announce-port", port)
	}

	// A copy, because the primary has the same slice.
	settings.lines = append(slices.Clone(settings.lines), "replicaof "+place(primary.p.known()))
	s.servers = append(s.servers, several(t, sentinelServers-1, settings)...)
	// Sentinels read the list of replicas from the primary, and only rarely.
	await(t, "the replicas follow", func(ctx context.Context) error { return following(ctx, primary.p, s.servers) })
	s.sentinels = several(t, sentinelWatch, watch(primary))
	s.AwaitHealthy()

	return s
}

// watch returns the settings of a sentinel.
func watch(primary *Server) settings {
	set := func(name string, value any) string { return fmt.Sprintf("sentinel %s %s %v", name, PrimaryName, value) }
	lines := []string{
		set("monitor", fmt.Sprintf("%s %d", place(primary.p.known()), sentinelQuorum)),
		set("down-after-milliseconds", 1000),
		// After an election without a winner, sentinels wait for twice this time.
		set("failover-timeout", failoverTimeout),
		set("parallel-syncs", sentinelServers-1),
	}
	if password := primary.p.settings.password; password != "" {
		lines = append(lines, set("auth-pass", password))
	}
	// This sets the intervals of the sentinels' queries, which the configuration can't set.
	brisk := []any{"SENTINEL", "DEBUG", "info-period", 500, "publish-period", 200, "ask-period", 200, "tilt-period", 1000}
	return settings{sentinel: true, lines: lines, first: brisk}
}

// place formats host:port as Redis's configuration files do.
func place(address string) string { return strings.Replace(address, ":", " ", 1) }

// several starts n servers concurrently.
func several(t testing.TB, n int, settings settings) []*Server {
	t.Helper()
	all, err := launchAll(n, settings)
	removeAll(t, all)
	if err != nil {
		t.Fatal(err)
	}
	return servers(t, all, false)
}

// Servers returns the primary and the replicas, starting with the first primary.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels returns the sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Addrs returns the addresses of the sentinels, as host:port.
func (s *Sentinel) Addrs() []string { return addresses(s.sentinels) }

// URL returns redis+sentinel://HOST:PORT/NAME?addr=HOST:PORT&addr=…, with the servers' password
// if there is one.
func (s *Sentinel) URL() string {
	return many("redis+sentinel", s.Addrs(), PrimaryName, s.servers[0].p.settings.password)
}

// Primary returns the server that the first running sentinel names.
func (s *Sentinel) Primary() *Server {
	s.t.Helper()
	up := running(s.sentinels)
	if len(up) == 0 {
		s.t.Fatal("no sentinel runs")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	address, err := named(ctx, up[0].p)
	if err != nil {
		s.t.Fatal(err)
	}
	return at(s.t, s.servers, address)
}

// Failover kills the primary as kill -9 does, waits until all sentinels agree on another one, and
// returns the old one.
func (s *Sentinel) Failover() *Server {
	s.t.Helper()
	old := s.Primary()
	old.Kill()
	s.AwaitHealthy()
	return old
}

// Demote orders a sentinel to replace the running primary, waits until the sentinel names another
// one, and returns the old one. Until the sentinel has changed its role, the old one accepts writes,
// which are lost.
func (s *Sentinel) Demote() *Server {
	s.t.Helper()
	old := s.Primary()
	var ordered time.Time
	Await(s.t, "another primary", func() bool {
		if s.Primary() != old {
			return true
		}

		// On a busy machine a sentinel may give up an attempt, so the order is repeated.
		if time.Since(ordered) > givenUp {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if _, err := s.sentinels[0].Do(ctx, "SENTINEL", "FAILOVER", PrimaryName); err == nil {
				ordered = time.Now()
			}
		}
		return false
	})
	return old
}

// AwaitHealthy waits until all running sentinels name the same running primary, and every other
// running server follows it.
func (s *Sentinel) AwaitHealthy() {
	s.t.Helper()
	await(s.t, "the sentinels agree, and the replicas follow", func(ctx context.Context) error {
		up := running(s.servers)
		var primary string
		for _, one := range running(s.sentinels) {
			address, err := watching(ctx, one.p, up)
			if err != nil {
				return fmt.Errorf("sentinel %s: %w", one.Addr(), err)
			}
			if primary != "" && primary != address {
				return fmt.Errorf("one sentinel names %s, another %s", primary, address)
			}
			primary = address
		}

		i := slices.IndexFunc(up, func(one *Server) bool { return one.p.known() == primary })
		if i < 0 {
			return fmt.Errorf("the primary, %q, is not running", primary)
		}
		return following(ctx, up[i].p, up)
	})
}

// Replacement is an attempt of a sentinel to replace the primary, because it considered it down
// or was ordered to.
type Replacement struct {
	Old string    // host:port of the primary that is replaced, without a proxy
	At  time.Time // time at which the attempt began
	// Time at which the last sentinel named another primary, or the latest time at which the
	// attempt was given up.
	Done time.Time
}

// Replacements returns the attempts in the sentinels' logs, in the order of time. On a busy machine
// there may be more than the test caused: because a primary that gets no processor time for a
// second seems to be down.
func (s *Sentinel) Replacements() (all []Replacement) {
	s.t.Helper()
	var switches []Replacement
	for _, one := range s.sentinels {
		text, err := os.ReadFile(one.p.log())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range replacing.FindAllStringSubmatch(string(text), -1) {
			began, err := time.ParseInLocation("02 Jan 2006 15:04:05.000", m[1], time.Local)
			if err != nil {
				s.t.Fatal(err)
			}
			r := Replacement{Old: at(s.t, s.servers, net.JoinHostPort(m[3], m[4])).Addr(), At: began, Done: began.Add(givenUp)}
			if m[2] == "try-failover" {
				all = append(all, r)
			} else {
				switches = append(switches, r)
			}
		}
	}

	slices.SortFunc(all, func(a, b Replacement) int { return a.At.Compare(b.At) })
	slices.SortFunc(switches, func(a, b Replacement) int { return a.At.Compare(b.At) })
	for i := range all {
		r, seen := &all[i], false

		// Each sentinel logs its own switch. The latest one ends the attempt.
		for _, w := range switches {
			if w.Old == r.Old && !w.At.Before(r.At) && w.At.Before(r.At.Add(givenUp)) {
				if !seen || w.At.After(r.Done) {
					r.Done = w.At
				}
				seen = true
			}
		}
	}

	return all
}

// givenUp is the time after which an unsuccessful attempt has ended: twice the timeout.
const givenUp = 2 * failoverTimeout * time.Millisecond

// replacing matches the sentinels' log lines of attempts and their results: the time, the event,
// and the old primary.
var replacing = regexp.MustCompile(`(?m)(\d\d \w{3} \d{4} [\d:.]+) # \+(try-failover|switch-master) (?:master )?` +
	PrimaryName + ` (\S+) (\d+)`)

// named returns the address of the primary that a sentinel names.
func named(ctx context.Context, sentinel *process) (string, error) {
	reply, err := sentinel.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", PrimaryName)
	if err != nil {
		return "", err
	}
	place, ok := reply.([]any)
	if !ok || len(place) != 2 {
		return "", fmt.Errorf("the sentinel names no primary: %v", reply)
	}
	return fmt.Sprintf("%v:%v", place[0], place[1]), nil
}

// watching returns the primary that a sentinel names. It returns an error if the sentinel could not
// replace it: it must know the other sentinels and see the running servers to do that.
func watching(ctx context.Context, sentinel *process, up []*Server) (string, error) {
	address, err := named(ctx, sentinel)
	if err != nil {
		return "", err
	}
	primary, err := details(ctx, sentinel, "MASTERS")
	if err != nil {
		return "", err
	}

	if p := primary[address]; p["flags"] != "master" || p["num-other-sentinels"] != strconv.Itoa(sentinelWatch-1) ||
		p["num-slaves"] != strconv.Itoa(sentinelServers-1) {
		return "", fmt.Errorf("the sentinel sees its primary as %v", p)
	}
	replicas, err := details(ctx, sentinel, "REPLICAS", PrimaryName)
	if err != nil {
		return "", err
	}

	for _, one := range up {
		if r := replicas[one.p.known()]; one.p.known() != address &&
			(r["flags"] != "slave" || r["master-link-status"] != "ok") {
			return "", fmt.Errorf("the sentinel sees the replica %s as %v", one.Addr(), r)
		}
	}
	return address, nil
}

// details returns a sentinel's description of servers, by address.
func details(ctx context.Context, sentinel *process, about ...any) (map[string]map[string]string, error) {
	reply, err := sentinel.do(ctx, append([]any{"SENTINEL"}, about...)...)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, entry := range reply.([]any) {
		fields := map[string]string{}
		for pair := range slices.Chunk(entry.([]any), 2) {
			fields[pair[0].(string)] = pair[1].(string)
		}
		all[fields["ip"]+":"+fields["port"]] = fields
	}
	return all, nil
}
