package redisgauge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// patience limits the wait for an answer that a working server gives at once.
const patience = 10 * time.Second

// Watch implements bench.Gauge, with MONITOR on every server.
func (g *Gauge) Watch(ctx context.Context) (stop func(context.Context) (int64, error), err error) {
	var all []*monitor
	end := func() {
		for _, m := range all {
			m.conn.Close()
		}
	}

	for _, s := range g.servers {
		m, err := g.monitor(ctx, s)
		if err != nil {
			end()
			return nil, fmt.Errorf("redisgauge: MONITOR: %w", err)
		}
		all = append(all, m)
	}

	return func(ctx context.Context) (sum int64, err error) {
		defer end()
		for _, m := range all {
			n, err := m.stop(ctx)
			if err != nil {
				return 0, fmt.Errorf("redisgauge: MONITOR: %w", err)
			}
			sum += n
		}
		return sum, nil
	}, nil
}

// monitor counts the requests of one server.
type monitor struct {
	client rueidis.Client
	conn   net.Conn
	token  string // a request with this text ends the count
	done   chan error
	n      int64 // number of requests; read only after a receive from done
}

// monitor starts counting. It uses its own connection and writes the protocol itself: the client
// library expects one answer per request, and MONITOR sends many.
func (g *Gauge) monitor(ctx context.Context, s server) (*monitor, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := g.place.dial(ctx, s.addr, &net.Dialer{}, g.place.tls)
	if err != nil {
		return nil, err
	}
	m := &monitor{client: s.client, conn: conn, token: duly.NewNumber().String(), done: make(chan error, 1)}
	in := bufio.NewReader(conn)
	conn.SetDeadline(clock.System().Now().Add(patience))
	if err := g.greet(conn, in); err != nil {
		conn.Close()
		return nil, err
	}
	// The count lasts as long as the measurement.
	conn.SetDeadline(time.Time{})
	go func() { m.done <- m.count(in) }()
	return m, nil
}

// greet logs in and sends MONITOR.
func (g *Gauge) greet(conn net.Conn, in *bufio.Reader) error {
	calls := [][]string{{"MONITOR"}}
	if p := g.place; p.password != "" {
		auth := []string{"AUTH", p.password}
		if p.user != "" {
			auth = []string{"AUTH", p.user, p.password}
		}
		calls = append([][]string{auth}, calls...)
	}

	for _, call := range calls {
		text := fmt.Sprintf("*%d\r\n", len(call))
		for _, arg := range call {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if line = strings.TrimSpace(line); line != "+OK" {
			return errors.New(strings.TrimPrefix(line, "-"))
		}
	}

	return nil
}

// count counts lines until a line contains the token.
func (m *monitor) count(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.Contains(line, m.token) {
			return nil
		}
		if !inside(line) {
			m.n++
		}
	}
}

// inside reports whether a line of MONITOR is for a command called by a script, for example:
// +1700000000.123456 [0 lua] "zcard" "key"
func inside(line string) bool {
	_, rest, _ := strings.Cut(line, "[")
	source, _, _ := strings.Cut(rest, "]")
	return strings.HasSuffix(source, " lua")
}

// stop sends the token, and waits until the count has reached it.
func (m *monitor) stop(ctx context.Context) (int64, error) {
	if err := m.client.Do(ctx, m.client.B().Echo().Message(m.token).Build()).Error(); err != nil {
		return 0, err
	}
	m.conn.SetReadDeadline(clock.System().Now().Add(patience))
	if err := <-m.done; err != nil {
		return 0, err
	}
	return m.n, nil
}
