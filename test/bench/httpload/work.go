package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// work is what is measured.
type work struct {
	// prepare, if set, is done before, and not measured.
	prepare func(ctx context.Context, o *options) error
	// one returns what does one job over a connection.
	one func(o *options, x *exchange) func() error
}

var works = map[string]*work{
	"push":    {one: pushes},
	"publish": {one: publishes},
	"take":    {prepare: fill, one: takes},
}

// request is the bytes of one.
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

func (o *options) push(jobs int) []byte {
	job := fmt.Sprintf(`{"queue":%q,"body":%q}`, o.queue, strings.Repeat("x", o.body))
	body := `{"jobs":[` + strings.TrimSuffix(strings.Repeat(job+",", jobs), ",") + `]}`
	return o.request("POST", o.base.EscapedPath()+"/push", "application/json", body)
}

// created is in the answer of a push that stored a job.
var created = []byte(`"created"`)

func pushes(o *options, x *exchange) func() error {
	request := o.push(1)
	return func() error {
		_, err := x.ask(request, 200, created)
		return err
	}
}

// lmstfy is the path of the queue in that API.
func (o *options) lmstfy() string { return "/api/" + o.namespace + "/" + o.queue }

func publishes(o *options, x *exchange) func() error {
	request := o.request("PUT", o.lmstfy()+"?tries=1", "", strings.Repeat("x", o.body))
	return func() error {
		_, err := x.ask(request, 201, []byte(`"published"`))
		return err
	}
}

// takes consumes a job and acks it.
func takes(o *options, x *exchange) func() error {
	consume := o.request("GET", o.lmstfy()+"?ttr=120", "", "")
	const placeholder = "PLACE-OF-AN-ID"
	before, after, _ := bytes.Cut(o.request("DELETE", o.lmstfy()+"/job/"+placeholder, "", ""), []byte(placeholder))
	name := []byte(`"job_id":"`)
	var ack []byte
	return func() error {
		body, err := x.ask(consume, 200, name)
		if err != nil {
			return err
		}
		_, rest, _ := bytes.Cut(body, name)
		id, _, _ := bytes.Cut(rest, []byte{'"'})
		ack = append(append(append(ack[:0], before...), id...), after...)
		_, err = x.ask(ack, 204, nil)
		return err
	}
}

const (
	fillBatch = 1000
	// mostTaken is more than any server does in a second, on the machines that
	// are meant.
	mostTaken = 40_000
)

// fill loads the queue with what can be taken in the time.
func fill(ctx context.Context, o *options) error {
	conn, err := net.DialTimeout("tcp", address(o), 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	x := exchange{conn: conn, in: answers{r: bufio.NewReaderSize(conn, 16<<10)}}
	request := o.push(fillBatch)
	for n := int(o.time.Seconds()*mostTaken) + o.connections; n > 0; n -= fillBatch {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if _, err := x.ask(request, 200, created); err != nil {
			return err
		}
	}
	return nil
}
