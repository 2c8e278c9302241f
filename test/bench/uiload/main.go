package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = o.run(ctx, os.Getenv("DULY_TOKEN"), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "uiload:", err)
		os.Exit(1)
	}
}

// options are the options of the command line, and what they open.
type options struct {
	works              []work
	namespace          string
	queues, jobs, dead int
	viewers            int
	// rounds is how often each figure is measured. The printed figure is the median.
	rounds int
	// time is how long pushes are measured alone, and interval is the pause before a round.
	time, interval time.Duration
	url, adminURL  string

	engine contract.Engine
	ui     *session
	out    io.Writer
}

func parse(args []string) (*options, error) {
	f, o := flag.NewFlagSet("uiload", flag.ContinueOnError), &options{interval: lookInterval}
	names := f.String("work", "pages,list,groups,find", "the works, with commas: pages, many, list, groups, find, viewers")
	f.IntVar(&o.queues, "queues", 1000, "queues of the work pages")
	f.IntVar(&o.jobs, "jobs", 1_000_000, "ready jobs of the long list")
	f.IntVar(&o.dead, "dead", 100_000, "dead jobs")
	f.IntVar(&o.viewers, "viewers", 20, "open pages of the work viewers")
	f.IntVar(&o.rounds, "rounds", 5, "how often each figure is measured; the printed one is the median")
	f.DurationVar(&o.time, "time", 5*time.Second, "how long pushes are measured alone")
	if err := f.Parse(args); err != nil {
		return nil, err
	}

	for name := range strings.SplitSeq(*names, ",") {
		at := slices.IndexFunc(works, func(w work) bool { return w.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-work has %q, must be pages, many, list, groups, find or viewers", name)
		}
		o.works = append(o.works, works[at])
	}
	if f.NArg() != 2 || o.queues < 2 || o.jobs < 200 || o.dead < 1 || o.viewers < 1 || o.viewers > 20 || o.rounds < 1 ||
		o.time <= 0 {
		return nil, fmt.Errorf("want two URLs like http://127.0.0.1:7777/default and http://127.0.0.1:7778, at least 2 " +
			"queues, 200 jobs, 1 dead job and 1 round, 1–20 viewers, and a time")
	}

	at, err := url.Parse(f.Arg(0))
	if err != nil || at.Host == "" {
		return nil, fmt.Errorf("%q is not a URL like http://127.0.0.1:7777/default", f.Arg(0))
	}
	if o.namespace = strings.Trim(at.Path, "/"); o.namespace == "" {
		o.namespace = duly.DefaultNamespace
	}
	o.url, o.adminURL = f.Arg(0), f.Arg(1)
	return o, nil
}

// run runs the works in their order.
func (o *options) run(ctx context.Context, token string, out io.Writer) (err error) {
	o.out = out
	if o.ui, err = login(ctx, o.adminURL, token); err != nil {
		return err
	}
	if o.engine, err = open.Engine(ctx, o.url); err != nil {
		return err
	}
	defer o.engine.Close()

	for _, w := range o.works {
		if err := w.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}
