package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly/internal/bench"
)

// load sends requests over every connection until the time is over.
func load(ctx context.Context, o options) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, o.time)
	defer cancel()
	var latency bench.Histogram
	var wg sync.WaitGroup
	errs := make([]error, o.connections)
	start := time.Now()
	for i := range o.connections {
		wg.Go(func() {
			// One failed connection ends the measurement.
			if errs[i] = o.connection(ctx, i, &latency); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	r := result{
		Connections: o.connections, Requests: latency.Count(), Seconds: elapsed.Seconds(),
		PerSecond: float64(latency.Count()) / elapsed.Seconds(),
		P50:       micros(latency.Percentile(50)), P99: micros(latency.Percentile(99)), Max: micros(latency.Max()),
	}
	// A clean run of one connection is not enough: any error makes the result invalid.
	if err := errors.Join(errs...); err != nil {
		// The connections mostly fail for the same reason, so one line suffices.
		first, _, _ := strings.Cut(err.Error(), "\n")
		return r, errors.New(first)
	}
	return r, nil
}

// connection processes jobs one after another, at least one. It checks the time between jobs, so
// each job that was begun is counted.
func (o *options) connection(ctx context.Context, number int, latency *bench.Histogram) error {
	x, err := o.dial(number)
	if err != nil {
		return err
	}
	defer x.conn.Close()
	one := o.work.one(o, x)
	for first := true; first || ctx.Err() == nil; first = false {
		before := time.Now()
		counts, err := one()
		if err != nil {
			return err
		}
		if counts {
			latency.Record(time.Since(before))
		}
	}
	return nil
}

// exchange is a connection with one request at a time.
type exchange struct {
	number int
	conn   net.Conn
	in     answers
}

func (o *options) dial(number int) (*exchange, error) {
	conn, err := net.DialTimeout("tcp", address(o), 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &exchange{number: number, conn: conn, in: answers{r: bufio.NewReaderSize(conn, 16<<10)}}, nil
}

// ask sends a request. The response must have this status and contain want.
func (x *exchange) ask(request []byte, status int, want []byte) (body []byte, err error) {
	got, body, err := x.send(request)
	switch {
	case err != nil:
		return nil, err
	case got != status || !bytes.Contains(body, want):
		return nil, unexpected(got, body)
	}
	return body, nil
}

// send sends a request and returns its response.
func (x *exchange) send(request []byte) (status int, body []byte, err error) {
	// A stalled server must not block the measurement, so each request has a deadline.
	if err := x.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, nil, err
	}
	if _, err := x.conn.Write(request); err != nil {
		return 0, nil, err
	}
	return x.in.next()
}

func unexpected(status int, body []byte) error {
	return fmt.Errorf("the server answered %d %.300s", status, body)
}

func address(o *options) string {
	if o.base.Port() != "" {
		return o.base.Host
	}
	return net.JoinHostPort(o.base.Hostname(), "80")
}
