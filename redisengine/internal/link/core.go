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
	// functions is set if scripts with a library are called as functions.
	functions bool
	// unloaded is the last logged reason why a server did not load a library. It is nil after a
	// library was loaded.
	unloaded atomic.Pointer[string]

	// waiting is the client for calls and subscriptions that may wait long for an answer. It is
	// created on first use.
	waiting struct {
		sync.Mutex
		client rueidis.Client
	}

	gate    sync.RWMutex // read-locked while a call is added to calls
	closed  atomic.Bool
	closing sync.Once
	life    context.Context // ends when the link is closed
	end     context.CancelFunc
	calls   sync.WaitGroup // calls that may outlive their callers

	kind      func(key string) Kind // expected kind of each key; nil if SetKinds was not called
	needed    [][]string            // the commands that Allowed has checked
	refreshed atomic.Int64          // monotonic time of the last refresh
	refused   atomic.Int64          // monotonic time of the last logged refusal
}

// B builds commands for Do.
func (l *core) B() rueidis.Builder { return l.main.B() }

// Options returns the options of the link, with defaults.
func (l *core) Options() Options { return l.o }

// buffers has the sizes of a connection: bytes for reading and writing, and the ring of calls in
// flight (a power of 2). conns bounds the dedicated connections per node. ping is how long a
// connection may be silent before the library pings the server.
type buffers struct {
	read, write, ring, conns int
	ping                     time.Duration
	blocks                   bool // whether a call may wait long for its answer
}

func (b buffers) dial(d *dialer) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	if b.blocks {
		return d.dial
	}
	return d.dialWatched
}

var (
	// A batch of a thousand small jobs is some 300 KB. The kernel accepts and returns about 128
	// KB at once, so a larger buffer saves no system call. A longer answer is read without the
	// buffer.
	mainBuffers = buffers{read: 128 << 10, write: 128 << 10, ring: 10, conns: 64, ping: pingEvery}
	// waitBuffers is small, because a blocking call and its answer have only a few keys. One call
	// runs at a time, and every slot of a cluster may have one. The connections are not pinged: a
	// blocking call has a timeout, and CLIENT UNBLOCK is repeated. An idle process therefore sends
	// little.
	waitBuffers = buffers{read: 4 << 10, write: 4 << 10, ring: 3, conns: hashslot.Slots, ping: time.Hour, blocks: true}
)

const (
	// pingEvery is how long a connection may be silent before the client library pings the
	// server. pingWait is how long it waits for the answer before it closes the connection. A
	// server that hangs for some seconds loses no connection.
	pingEvery = 10 * time.Second
	pingWait  = 10 * time.Second
	// refreshEvery is how often the Sentinels are asked for the primary. The Sentinels also
	// announce a new primary, but that message may be lost.
	refreshEvery = time.Second
	// maxRedirects is how many redirects a call follows before it pauses. Nodes that disagree
	// about a slot would redirect it without end.
	maxRedirects = 4
)

// client creates a client of the library. The client itself retries nothing.
func (l *core) client(size buffers) (rueidis.Client, error) {
	option := rueidis.ClientOption{
		InitAddress: l.o.Addrs, DialCtxFn: size.dial(l.dialer), TLSConfig: l.tls,
		Username: l.o.User, Password: l.o.Password, SelectDB: l.o.DB, ClientName: "duly",
		ForceSingleClient: l.o.Mode == Single,
		DisableRetry:      true, DisableCache: true,
		// A reader on every connection notices at once that the server has closed it, and not
		// with the next call.
		AlwaysPipelining:    true,
		PipelineMultiplex:   -1, // 2⁰, one connection per node
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

// waitClient returns the client for calls that may wait long for an answer. Several callers may
// wait while the first creates it.
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

// enter begins a call. Unless it returns an error, the clients are used only between enter and
// l.calls.Done.
func (l *core) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The lock orders Add before the Wait of Close.
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed.Load() {
		return duly.ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// refresh is called when the server that answers is no longer the primary. With Sentinels and
// clusters the client library finds the new one. The name of a single server may have a new address
// by now, so its connections are closed and opened again.
func (l *core) refresh() {
	if l.o.Mode != Single {
		return
	}
	now := int64(l.clock.Mono())
	// Many calls notice a failover at the same time, and dropping the connections once is enough.
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

// fenceKey returns a key of the same hash slot that has no other use.
func (l *core) fenceKey(key string) string {
	return l.o.Prefix + ":{" + hashslot.TagOf(key) + "}:fence"
}

// hurryTimeout is how long a call with a context of [Hasty] waits for its answer.
const hurryTimeout = 500 * time.Millisecond

type hasty struct{}

// Hasty returns a context for a caller with many calls, after a node was unreachable. With this
// context, a call that did not run is not retried, and a call without an answer fails after half a
// second.
func Hasty(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.WithValue(ctx, hasty{}, true))
}

func isHasty(ctx context.Context) bool { return ctx.Value(hasty{}) != nil }

// The pauses between two tries grow from firstPause to maxPause.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// Backoff paces the retries of a call that did not run. It ends at the context's deadline, or
// after Options.Retry if there is none.
type Backoff struct {
	ctx    context.Context
	clock  clock.Clock
	pause  time.Duration
	end    time.Duration // reading of Clock.Mono; used if the context has no deadline
	bounds bool          // whether the context has a deadline
}

// Backoff returns the pauses of an operation that sends calls with Call.Once. It is called before
// the first try.
func (l *core) Backoff(ctx context.Context) *Backoff {
	if isHasty(ctx) {
		// The zero end makes Wait return false.
		return &Backoff{ctx: ctx, clock: l.clock}
	}
	_, bounds := ctx.Deadline()
	return &Backoff{ctx: ctx, clock: l.clock, pause: firstPause, end: l.clock.Mono() + l.o.Retry, bounds: bounds}
}

// Wait pauses before the next try, each time longer. It returns false when the time is over.
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
	// The context may have ended together with the pause.
	return clock.Sleep(p.ctx, p.clock, pause) == nil && p.ctx.Err() == nil
}
