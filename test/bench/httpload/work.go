package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// work is one kind of work.
type work struct {
	// prepare, if set, runs before the measurement.
	prepare func(ctx context.Context, o *options) error
	// one returns a function that processes one job over a connection. It reports whether the job
	// counts.
	one func(o *options, x *exchange) func() (counts bool, err error)
}

var works = map[string]*work{
	"push":    {one: pushes},
	"publish": {one: publishes},
	"take":    {prepare: fill, one: takes},
	"flow":    {one: flows},
}

// request returns the bytes of a request.
func (o *options) request(method, path, contentType, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, o.base.Host)
	if contentType != "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", contentType)
	}
	switch {
	case o.token == "":
	case strings.HasPrefix(path, "/api/"):
		fmt.Fprintf(&b, "X-Token: %s\r\n", o.token)
	default:
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.token)
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// created is part of the response to a push that stored a job.
var created = []byte(`"created"`)

func pushes(o *options, x *exchange) func() (bool, error) {
	// The request is built once, so the client takes little CPU from the server.
	job := fmt.Sprintf(`{"jobs":[{"queue":%q,"body":%q}]}`, o.queue, strings.Repeat("x", o.body))
	request := o.request("POST", o.base.EscapedPath()+"/push", "application/json", job)
	return func() (bool, error) {
		_, err := x.ask(request, 200, created)
		return true, err
	}
}

// lmstfy returns the path of the queue in the lmstfy API.
func (o *options) lmstfy() string { return "/api/" + o.namespace + "/" + o.queue }

func publishes(o *options, x *exchange) func() (bool, error) {
	request := o.request("PUT", o.lmstfy()+"?tries=1", "", strings.Repeat("x", o.body))
	return func() (bool, error) {
		_, err := x.ask(request, 201, published)
		return true, err
	}
}

// published is part of the response to a publish.
var published = []byte(`"published"`)

// takes consumes a job and acknowledges it.
func takes(o *options, x *exchange) func() (bool, error) {
	consume, ack := o.request("GET", o.lmstfy()+"?ttr=120", "", ""), acks(o, x)
	return func() (bool, error) {
		body, err := x.ask(consume, 200, jobID)
		if err != nil {
			return false, err
		}
		return true, ack(body)
	}
}

// flows publishes over every fourth connection. The others wait for jobs, consume and acknowledge
// them. Acknowledged jobs are counted.
func flows(o *options, x *exchange) func() (bool, error) {
	// The number decides, so every run has the same share of producers.
	if x.number%4 == 0 {
		publish := publishes(o, x)
		return func() (bool, error) {
			_, err := publish()
			return false, err
		}
	}

	consume, ack := o.request("GET", o.lmstfy()+"?ttr=120&timeout=1", "", ""), acks(o, x)
	return func() (bool, error) {
		status, body, err := x.send(consume)
		switch {
		case err != nil:
			return false, err
		case status == 404: // no job came within the timeout
			return false, nil
		case status != 200:
			return false, unexpected(status, body)
		}
		return true, ack(body)
	}
}

// jobID precedes the ID of a job in the response to a consume.
var jobID = []byte(`"job_id":"`)

// acks returns a function that acknowledges the job in a response to a consume.
func acks(o *options, x *exchange) func(consumed []byte) error {
	// Prepare the request once. Only the ID changes.
	const placeholder = "PLACE-OF-AN-ID"
	before, after, _ := bytes.Cut(o.request("DELETE", o.lmstfy()+"/job/"+placeholder, "", ""), []byte(placeholder))
	var request []byte
	return func(consumed []byte) error {
		_, rest, _ := bytes.Cut(consumed, jobID)
		id, _, _ := bytes.Cut(rest, []byte{'"'})
		// The buffer is reused, so an ack allocates nothing.
		request = append(append(append(request[:0], before...), id...), after...)
		_, err := x.ask(request, 204, nil)
		return err
	}
}

const (
	fillBatch = 64 // the limit of a bulk publish
	fillers   = 8
	// mostTaken is more jobs than any server consumes in a second on the intended machines.
	mostTaken = 40_000
)

// fill publishes as many jobs as can be consumed in the time.
func fill(ctx context.Context, o *options) error {
	job := `"` + strings.Repeat("x", o.body) + `",`
	body := "[" + strings.TrimSuffix(strings.Repeat(job, fillBatch), ",") + "]"
	request := o.request("PUT", o.lmstfy()+"/bulk?tries=1", "", body)

	// One more job per connection, because each completes the one that it has begun.
	var left atomic.Int64
	left.Store(int64(o.time.Seconds()*mostTaken) + int64(o.connections))
	var wg sync.WaitGroup
	errs := make([]error, fillers)
	for i := range fillers {
		wg.Go(func() {
			x, err := o.dial(i)
			if err != nil {
				errs[i] = err
				return
			}
			defer x.conn.Close()
			for errs[i] == nil && ctx.Err() == nil && left.Add(-fillBatch) > -fillBatch {
				_, errs[i] = x.ask(request, 201, published)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return errors.Join(errs...)
}
