package link

import (
	"context"
	"log/slog"
	"time"
)

// Link is a connection to the servers of a URL. It is safe for concurrent use.
type Link struct {
	*core
	*checks
	durableCalls
	blockingCalls
	pubsub
	libraries
}

// Open connects, and checks that the servers are suitable. It returns [duly.ErrInvalid] for bad
// options, [duly.ErrUnavailable] if no server answers, and errors of the server. If log is nil,
// it uses slog.Default.
func Open(ctx context.Context, o Options, log *slog.Logger) (*Link, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.Default()
	}

	config, err := o.TLS.config()
	if err != nil {
		return nil, err
	}

	c := &core{o: o, log: log, clock: o.Clock, dialer: newDialer(o), tls: config}
	l := &Link{core: c, checks: &checks{c}, durableCalls: durableCalls{core: c}, blockingCalls: blockingCalls{core: c},
		pubsub: pubsub{c}}
	l.libraries.checks = l.checks
	l.life, l.end = context.WithCancel(context.Background())
	// The first refresh and the first refusal are due at once.
	l.refreshed.Store(int64(l.clock.Mono() - refreshEvery))
	l.refused.Store(int64(l.clock.Mono() - refusedEvery))
	// The client library ignores ctx in parts of its setup, so the end of ctx closes the dialer.
	stay := context.AfterFunc(ctx, l.dialer.close)
	err = l.open(ctx)
	if !stay() {
		err = unanswered(ctx)
	}
	if err != nil {
		l.Close()
		return nil, err
	}

	return l, nil
}

func (l *Link) open(ctx context.Context) error {
	client, err := l.client(mainBuffers)
	if err != nil {
		return l.fault("open", verdictOf(err), err)
	}
	l.main = client
	if err := l.check(ctx); err != nil {
		return err
	}
	// A single server has no other server that could replace it.
	if l.o.Mode != Single {
		l.calls.Go((&watchdog{l.core}).run)
	}
	if l.o.EvictionWarn {
		l.calls.Go(l.warnOfEviction)
	}
	return nil
}

// closeWait is how long Close waits for calls in flight.
const closeWait = time.Second

// Close ends blocking calls, waits up to closeWait for other calls in flight, and closes all
// connections. Later calls return [duly.ErrClosed]. Close may be called repeatedly and
// concurrently. If a cluster has lost a node in the last five seconds, the client library leaves a
// goroutine that sleeps until these five seconds are over.
func (l *Link) Close() {
	l.closing.Do(l.close)
}

func (l *Link) close() {
	// After the lock was held no call can be added, so Wait below waits for all of them.
	l.gate.Lock()
	l.closed.Store(true)
	l.gate.Unlock()
	l.end()
	l.blockers.end(l.core)
	done := make(chan struct{})
	// A call to a hung server ends only when its connection is closed below.
	go func() {
		l.calls.Wait()
		close(done)
	}()

	timer := l.clock.NewTimer(closeWait)
	select {
	case <-done:
	case <-timer.C:
	}

	timer.Stop()
	if l.main != nil {
		l.main.Close()
	}

	l.dialer.close()
	<-done
	l.blockers.close()
	l.durableConns.close()
	if l.waiting.client != nil {
		l.waiting.client.Close()
	}
}
