package linear

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/porttest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/test/servertest"
)

func TestMain(m *testing.M) {
	proctest.Main(m, proctest.Roles{servertest.RoleName: servertest.Role(plant), "client": runClient})
}

// trial is a set of client processes on the servers of one engine.
type trial struct {
	t       *testing.T
	engine  string
	redis   *redistest.Server // nil if the engine is on SQLite
	servers []*servertest.Server
	token   string
	clients []*proctest.Process
	start   time.Time
	random  *rand.Rand
	log     *log
	kills   map[string]int
}

func begin(t *testing.T, engine string, servers, clients int, args ...string) *trial {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := &trial{t: t, engine: engine, start: time.Now(), random: rand.New(rand.NewPCG(seed, 0)), log: newLog(),
		kills: map[string]int{}}
	for range servers {
		more := append([]string{"-addr", porttest.Address(t)}, args...)
		if x.token != "" {
			more = append(more, "-token=false")
		}
		s := servertest.Start(t, engine, more...)
		if x.token == "" {
			x.token = s.Token
		}
		x.servers = append(x.servers, s)
	}
	for range clients {
		x.clients = append(x.clients, x.client())
	}
	return x
}

// client starts a client process.
func (x *trial) client() *proctest.Process {
	x.t.Helper()
	args := []string{strconv.FormatUint(x.random.Uint64(), 10), strconv.FormatInt(x.start.UnixMilli(), 10)}
	for _, s := range x.servers {
		args = append(args, servertest.EngineURL(s.Address(), x.token))
	}
	return proctest.Start(x.t, proctest.Options{}, "client", args...)
}

// killClient kills one client process and starts another one.
func (x *trial) killClient() {
	x.t.Helper()
	i := x.random.IntN(len(x.clients))
	x.end(x.clients[i])
	x.clients[i] = x.client()
	x.kills["clients"]++
}

// end kills a client and reads its output.
func (x *trial) end(p *proctest.Process) {
	x.t.Helper()
	p.Kill()
	x.log.read(x.t, p.Lines())
}

// killServer kills one server and starts it again at its address.
func (x *trial) killServer() {
	x.t.Helper()
	i := x.random.IntN(len(x.servers))
	address := x.servers[i].Address()
	x.servers[i].Kill()
	x.servers[i] = servertest.Start(x.t, x.engine, "-addr", address, "-token=false")
	x.kills["servers"]++
}

// killRedis kills Redis and starts it again with what it has synced.
func (x *trial) killRedis() {
	x.t.Helper()
	x.redis.Kill()
	x.redis.Restart()
	x.redis.RewriteLog()
	x.kills["redis"]++
}

// answered counts the replies of servers so far.
func (x *trial) answered() (n int) {
	for _, r := range x.log.calls {
		if r.reply != nil && r.reply.Verdict != unsent {
			n++
		}
	}
	for _, p := range x.clients {
		for _, line := range p.Lines() {
			if strings.HasPrefix(line, replyMark) && !strings.Contains(line, `"`+unsent+`"`) {
				n++
			}
		}
	}

	return n
}

// cutOff reports whether a client was killed during one of its calls.
func (x *trial) cutOff() bool {
	return slices.ContainsFunc(x.log.calls, func(r *recorded) bool { return r.reply == nil })
}

// run kills random processes. It returns when servers have answered this many calls, each kind of
// process was killed, and a call was interrupted.
func (x *trial) run(calls int, least, most time.Duration) {
	x.t.Helper()
	faults := []func(){x.killClient, x.killServer}
	if x.redis != nil {
		faults = append(faults, x.killRedis)
	}
	for i := 0; i < len(faults) || x.answered() < calls || !x.cutOff(); i++ {
		time.Sleep(least + time.Duration(x.random.Int64N(int64(most-least)))) // real processes use the real clock
		if i >= len(faults) {
			faults[x.random.IntN(len(faults))]()
			continue
		}
		faults[i]()
	}
	x.finish()
}

// finish ends the clients.
func (x *trial) finish() {
	x.t.Helper()
	for _, p := range x.clients {
		x.end(p)
	}
	x.clients = nil
}

// TestHistoriesAreLinearizable records the calls of client processes while clients, servers and
// Redis are killed. For every history of a job there must be an order in which each answer is
// correct. No Reserve may return nothing while a job is ready (models M3, M5).
//
// C1.7, C4.13, C4.36, C9.1
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	calls, least, most := 1500, 200*time.Millisecond, 400*time.Millisecond
	if proctest.Long() {
		calls, least, most = 100_000, 400*time.Millisecond, 2*time.Second
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		x := begin(t, open.File(filepath.Join(t.TempDir(), "duly.db")), 1, 3)
		x.run(calls, least, most)
		x.check(calls)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Single(t, redistest.AOF("always"))
		x := begin(t, server.URL(), 2, 3)
		x.redis = server
		x.run(calls, least, most)
		x.check(calls)
	})
}

// check fails the test if a history has no order or the run was too short.
func (x *trial) check(calls int) {
	x.t.Helper()
	f := x.log.check()
	x.t.Logf("kills: %v", x.kills)
	f.report(x.t)
	if f.violations > 0 || f.undecided > 0 {
		x.t.Errorf("%d histories have no order, %d are undecided", f.violations, f.undecided)
	}
	if len(x.log.faults) > 0 {
		x.t.Errorf("%d calls failed in an unexpected way: %s", len(x.log.faults), strings.Join(x.log.faults[:1], ""))
	}
	if f.calls-f.unsent < calls || f.empties == 0 || f.unknown == 0 {
		x.t.Errorf("%d of %d calls, %d empty results, %d without an answer: too few to prove anything", f.calls-f.unsent,
			calls, f.empties, f.unknown)
	}
}
