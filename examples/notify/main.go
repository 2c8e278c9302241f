// Command notify posts an event to a receiver by HTTP, and retries with growing delays until
// the receiver accepts it. Payment providers notify their merchants in this way.
//
//	go run ./examples/notify                                   (a demonstration, see below)
//	go run ./examples/notify --to https://example.com/hook '{"paid":17}'
//	go run ./examples/notify --url http://TOKEN@127.0.0.1:7777/default --to … '{"paid":17}'
//
// Without --to it starts its own receiver, which accepts the event at the third try, and uses
// delays of seconds. The program ends when the notification was accepted or is dead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/worker"
)

// The delays of a production notifier, and short ones for the demonstration.
const (
	staircase      duly.Backoff = "15s,3m,10m,30m,30m,1h,2h,6h,15h"
	shortStaircase duly.Backoff = "1s,2s,4s"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notify:", err)
		os.Exit(1)
	}
}

// settings are the parsed arguments.
type settings struct {
	url, to, event string
	steps          duly.Backoff
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("notify", flag.ContinueOnError)
	flags.StringVar(&s.url, "url", "", "engine: sqlite:PATH or http://TOKEN@HOST/NAMESPACE (default: a file of its own)")
	flags.StringVar(&s.to, "to", "", "receiver's URL (default: one of its own that takes the third try)")
	steps := flags.String("steps", "", "delays between the tries (default: "+string(staircase)+"; without --to "+string(shortStaircase)+")")
	if err := flags.Parse(args); err != nil {
		return s, err
	}

	s.steps = staircase
	if s.to == "" {
		s.steps = shortStaircase
	}
	if *steps != "" {
		s.steps = duly.Backoff(*steps)
	}

	s.event = `{"paid":17}`
	if flags.NArg() > 0 {
		s.event = flags.Arg(0)
	}
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}

	if s.url == "" {
		dir, err := os.MkdirTemp("", "notify")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s.url = open.File(filepath.Join(dir, "notify.db"))
	}

	if s.to == "" {
		receiver, end, err := demoReceiver()
		if err != nil {
			return err
		}
		defer end()
		s.to = receiver
	}

	engine, err := open.Engine(ctx, s.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	return notify(ctx, engine, s, out)
}

// notify pushes the notification and runs a worker until it is accepted or dead.
func notify(ctx context.Context, engine contract.Engine, s settings, out io.Writer) error {
	n := NewNotifier(duly.NewClient(engine, duly.ClientConfig{}), &http.Client{}, out)
	// The notifier reports each try, so the worker's log would only repeat it.
	w := worker.New(engine, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	n.Register(w)
	if err := n.Notify(ctx, s.to, s.event, s.steps); err != nil {
		return err
	}

	working, finish := context.WithCancel(ctx)
	defer finish()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	select {
	case <-n.Ended():
		finish()
		return <-ended
	case err := <-ended: // ctx has ended, or the worker can't run
		return err
	}
}
