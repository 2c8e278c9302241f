package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dulymq/duly"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == "bare" {
		if err := serveBare(ctx, os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "httpload:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Args[1:], os.Getenv("DULY_TOKEN"), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "httpload:", err)
		os.Exit(1)
	}
}

// options are the options of the command line.
type options struct {
	base        *url.URL // with the namespace as its path
	namespace   string
	work        *work
	token       string
	connections int
	time        time.Duration
	body        int
	json        bool
	queue       string
	// redis is the URL of the Redis server behind the server, and pid is the server's process.
	// Both are optional.
	redis string
	pid   int
}

func parse(args []string, token string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("httpload", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.connections, "connections", 64, "connections, each with one request at a time")
	f.DurationVar(&o.time, "time", 10*time.Second, "how long")
	f.IntVar(&o.body, "body", 100, "bytes of a body")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.redis, "redis", "", "`URL` of the Redis server behind the server, whose CPU per job is then printed")
	f.IntVar(&o.pid, "pid", 0, "process of the server, whose CPU per job is then printed (Linux)")
	kind := f.String("work", "push", "push, publish, take or flow")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.work = works[*kind]; o.work == nil {
		return o, fmt.Errorf("-work is %q, must be push, publish, take or flow", *kind)
	}
	if f.NArg() != 1 || o.connections < 1 || o.connections > 10_000 || o.time <= 0 || o.body < 0 ||
		o.body > duly.DefaultMaxBody {
		return o, fmt.Errorf("want one URL like http://127.0.0.1:7777/default, 1–10000 connections, a time, and a body " +
			"of up to 1 MiB")
	}
	if o.base, err = url.Parse(f.Arg(0)); err != nil || o.base.Scheme != "http" || o.base.Host == "" {
		return o, fmt.Errorf("%q is not a URL like http://127.0.0.1:7777/default", f.Arg(0))
	}
	// A token in the URL overrides the one of the environment.
	if o.token = token; o.base.User != nil {
		o.token = o.base.User.Username()
	}
	// The token must not appear in paths or errors.
	o.base.User = nil
	if o.namespace = strings.Trim(o.base.Path, "/"); o.namespace == "" {
		o.namespace = duly.DefaultNamespace
	}
	o.base.Path = "/v1/" + o.namespace
	// Each run has a queue of its own, so that old jobs do not change the result.
	o.queue = "bench-http-" + strings.ToLower(duly.NewNumber().String())
	return o, nil
}

// result is the measurement. The names contain the units.
type result struct {
	Connections int     `json:"connections"`
	Requests    int64   `json:"requests"`
	Seconds     float64 `json:"seconds"`
	PerSecond   float64 `json:"per_second"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	Max         float64 `json:"max_us"`
	// What the server and Redis used, or 0 if that is unknown.
	ServerCPU   float64 `json:"server_cpu_us_per_job,omitempty"`
	RedisCPU    float64 `json:"redis_cpu_us_per_job,omitempty"`
	ScriptTime  float64 `json:"redis_script_us_per_job,omitempty"`
	ScriptCalls float64 `json:"redis_script_calls_per_job,omitempty"`
}

func run(ctx context.Context, args []string, token string, stdout, stderr io.Writer) error {
	o, err := parse(args, token, stderr)
	if err != nil {
		return err
	}
	var r result
	if o.work.prepare != nil {
		err = o.work.prepare(ctx, &o)
	}
	if err == nil {
		r, err = metered(ctx, o)
	}
	// Destroy the queue even after a failed run.
	if cerr := destroy(o); cerr != nil {
		fmt.Fprintf(stderr, "httpload: queue %s was not destroyed: %v\n", o.queue, cerr)
	}
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(stdout).Encode(r)
	}
	return r.print(stdout)
}

func (r result) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%.0f jobs/s, one per request: %d in %.2f s over %d connections; p50 %.0f µs, p99 %.0f "+
		"µs, max %.0f µs\n",
		r.PerSecond, r.Requests, r.Seconds, r.Connections, r.P50, r.P99, r.Max)
	if err == nil && r.ServerCPU > 0 {
		_, err = fmt.Fprintf(w, "CPU per job: %.1f µs of the server\n", r.ServerCPU)
	}
	if err == nil && r.RedisCPU > 0 {
		_, err = fmt.Fprintf(w, "CPU per job: %.1f µs of Redis; scripts ran %.1f µs in %.2f calls\n", r.RedisCPU,
			r.ScriptTime, r.ScriptCalls)
	}
	return err
}

// destroy destroys the queue.
func destroy(o options) error {
	// An interrupt ends the run, but the queue must still be destroyed.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, o.base.String()+"/queues/"+o.queue, nil)
	if err != nil {
		return err
	}
	if o.token != "" {
		req.Header.Set("Authorization", "Bearer "+o.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return nil
}
