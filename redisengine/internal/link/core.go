package link

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/hashslot"
)

// core is the state that all parts of a link share.
type core struct {
	o     Options
	log   *slog.Logger
	clock clock.Clock

	dialer *dialer
	tls    *tls.Config
	main   rueidis.Client
	// answered is a server that answered when the link was opened.
	answered rueidis.Client
	// functions: scripts with a library are called as functions.
	functions bool
	// unloaded is why a server last refused to load a library, as it was logged;
	// nil since a library was loaded.
	unloaded atomic.Pointer[string]

	// waiting is the client of calls and subscriptions that may have no answer for
	// long. The first of them makes it.
	waiting struct {
		sync.Mutex
		client rueidis.Client
	}

	gate    sync.RWMutex // held for reading where calls grows
	closed  atomic.Bool
	closing sync.Once
	life    context.Context // ends when closed is set
	end     context.CancelFunc
	calls   sync.WaitGroup // those that may outlive their callers

	kind      func(key string) Kind // nil: not set
	needed    [][]string            // the commands that Allowed was asked for
	refreshed atomic.Int64          // when refresh was last done, monotonic
	refused   atomic.Int64          // when a refusal was last logged, monotonic
}

// B builds commands for Do.
func (l *core) B() rueidis.Builder { return l.main.B() }

// Options are the options that the link was opened with, defaults set.
func (l *core) Options() Options { return l.o }

// buffers are the sizes of a connection: bytes for reading and writing, and the
// ring of calls in flight (a power of 2). conns bounds the dedicated connections
// per node. ping is how long a connection may be silent before the library asks
// whether the server is there.
type buffers struct {
	read, write, ring, conns int
	ping                     time.Duration
	blocks                   bool // a call may have no answer for long
}

func (b buffers) dial(d *dialer) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	if b.blocks {
		return d.dial
	}
	return d.dialWatched
}

var (
	// A batch of a thousand small jobs is some 300 KB, and the kernel takes and
	// hands over about 128 KB at once: beyond that a buffer saves no system
	// call. What is longer than the buffer is read past it.
	mainBuffers = buffers{read: 128 << 10, write: 128 << 10, ring: 10, conns: 64, ping: pingEvery}
	// A blocking call and its answer are a few keys, one call at a time, and
	// every slot of a cluster may have one. No server is asked whether it is there:
	// a blocking call has its end, and what ends one early is sent again. An idle
	// process sends no more than it must.
	waitBuffers = buffers{read: 4 << 10, write: 4 << 10, ring: 3, conns: hashslot.Slots, ping: time.Hour, blocks: true}
)

const (
	// pingEvery is how long a connection may be silent before the client
	// library asks whether the server is there. pingWait is how long it waits
	// for the answer before it gives the connection up. A server that hangs for
	// some seconds loses no connection.
	pingEvery = 10 * time.Second
	pingWait  = 10 * time.Second
	// refreshEvery is how often the Sentinels are asked for the primary. They
	// also announce a new one, but that message may be lost.
	refreshEvery = time.Second
	// maxRedirects is how many nodes one call is sent on to before it pauses:
	// nodes that disagree about a slot would send it round without end.
	maxRedirects = 4
)

// client creates a client of the library, which retries nothing by itself.
func (l *core) client(size buffers) (rueidis.Client, error) {
	option := rueidis.ClientOption{
		InitAddress: l.o.Addrs, DialCtxFn: size.dial(l.dialer), TLSConfig: l.tls,
		Username: l.o.User, Password: l.o.Password, SelectDB: l.o.DB, ClientName: "duly",
		ForceSingleClient: l.o.Mode == Single,
		DisableRetry:      true, DisableCache: true,
		// Always with a reader, so that a connection which the server has closed
		// is noticed when that happens and not by the next call.
		AlwaysPipelining:    true,
		PipelineMultiplex:   -1, // one connection per node
		ReadBufferEachConn:  size.read,
		WriteBufferEachConn: size.write,
		RingScaleEachConn:   size.ring,
		BlockingPoolSize:    size.conns,
		ConnWriteTimeout:    pingWait,
		ClusterOption:       rueidis.ClusterOption{MaxMovedRedirections: maxRedirects},
	}

	option.Dialer.KeepAlive, option.Dialer.Timeout = size.ping, l.o.Dial
	if l.o.Mode == Sentinel {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: l.o.Sentinel.Master, Username: l.o.Sentinel.User, Password: l.o.Sentinel.Password,
			Dialer: option.Dialer, TLSConfig: l.tls, TopologyRefreshInterval: refreshEvery,
		}
	}

	client, err := rueidis.NewClient(option)
	if err != nil && client != nil {
		client.Close()
		client = nil
	}

	return client, err
}

// waitClient returns the client of calls that may have no answer for long. Several
// may wait while the first makes it.
func (l *core) waitClient() (rueidis.Client, error) {
	l.waiting.Lock()
	defer l.waiting.Unlock()
	if l.waiting.client != nil {
		return l.waiting.client, nil
	}
	client, err := l.client(waitBuffers)
	if err != nil {
		return nil, err
	}
	l.waiting.client = client
	return client, nil
}

// enter begins a call: every use of the clients is between it and l.calls.Done,
// unless it returns an error.
func (l *core) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed.Load() {
		return duly.ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// refresh is called when the server that answers is no longer the primary.
// Sentinels and clusters are asked for the primary anyway. The name of a single
// server may have another address by now, which a new connection finds.
func (l *core) refresh() {
	if l.o.Mode != Single {
		return
	}
	now := int64(l.clock.Mono())
	if last := l.refreshed.Load(); now-last >= int64(refreshEvery) && l.refreshed.CompareAndSwap(last, now) {
		l.dialer.drop()
	}
}

// primary returns the address of the only node, "" for a cluster.
func (l *core) primary(client rueidis.Client) string {
	if l.o.Mode == Cluster {
		return ""
	}
	for addr := range client.Nodes() {
		return addr
	}
	return ""
}

// form returns how a script is usually sent.
func (l *core) form(s *Script) form {
	if l.functions && s.Library != nil {
		return byFunction
	}
	return byHash
}

// fenceKey returns a key of the same hash slot that nothing else uses.
func (l *core) fenceKey(key string) string {
	return l.o.Prefix + ":{" + hashslot.TagOf(key) + "}:fence"
}

// hurryTimeout is how long a call with a context of [Hasty] waits for its answer.
const hurryTimeout = 500 * time.Millisecond

type hasty struct{}

// Hasty returns a context for a caller with many calls, after a node was not reached.
// With it a call that did not run is not repeated, and a call without an answer fails
// after half a second.
func Hasty(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.WithValue(ctx, hasty{}, true))
}

func isHasty(ctx context.Context) bool { return ctx.Value(hasty{}) != nil }

// The pauses between two tries grow from the first to the longest.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// Backoff paces the retries of a call that did not run: until its context's deadline,
// or for Options.Retry without one.
type Backoff struct {
	ctx    context.Context
	clock  clock.Clock
	pause  time.Duration
	end    time.Duration // monotonic; where the context has no deadline
	bounds bool          // the context has one
}

// Backoff returns the pauses of an operation that sends calls with Call.Once. It is
// called before the first try.
func (l *core) Backoff(ctx context.Context) *Backoff {
	if isHasty(ctx) {
		return &Backoff{ctx: ctx, clock: l.clock} // its time is over
	}
	_, bounds := ctx.Deadline()
	return &Backoff{ctx: ctx, clock: l.clock, pause: firstPause, end: l.clock.Mono() + l.o.Retry, bounds: bounds}
}

// Wait pauses before the next try, each time for longer. It returns false when the
// time is over.
func (p *Backoff) Wait() bool {
	pause := p.pause
	p.pause = min(2*pause, longestPause)
	if !p.bounds {
		left := p.end - p.clock.Mono()
		if left <= 0 {
			return false
		}
		pause = min(pause, left)
	}
	return clock.Sleep(p.ctx, p.clock, pause) == nil && p.ctx.Err() == nil
}
