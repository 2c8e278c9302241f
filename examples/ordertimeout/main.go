// Command ordertimeout closes orders that nobody pays: an order is pushed with
// a delay, and the job is cancelled when the order is paid. A little before the
// end the buyer is reminded.
//
//	go run ./examples/ordertimeout                          (a file of its own)
//	go run ./examples/ordertimeout --url sqlite:orders.db
//	go run ./examples/ordertimeout --url http://TOKEN@127.0.0.1:7777/default
//
// It places two orders, pays one of them, and ends when the other is closed.
// The half hour of a real shop is three seconds here; see --timeout.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ordertimeout:", err)
		os.Exit(1)
	}
}

// run plays the story on the engine that the arguments choose.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("ordertimeout", flag.ContinueOnError)
	url := flags.String("url", "", "engine: sqlite:PATH or http://TOKEN@HOST/NAMESPACE (default: a file of its own)")
	timeout := flags.Duration("timeout", 3*time.Second, "how long an order may stay unpaid")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *url == "" {
		dir, err := os.MkdirTemp("", "ordertimeout")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		*url = open.File(filepath.Join(dir, "orders.db"))
	}
	engine, err := open.Engine(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()

	return trade(ctx, engine, *timeout, out)
}

// trade plays the story and works until it has come to its end.
func trade(ctx context.Context, engine contract.Engine, timeout time.Duration, out io.Writer) error {
	shop := NewShop(duly.NewClient(engine, duly.ClientConfig{}), timeout, out)
	w := worker.New(engine, worker.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	shop.Register(w)

	working, finish := context.WithCancel(ctx)
	defer finish()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()

	if err := story(ctx, shop, out); err != nil {
		finish()
		// The worker uses the engine, so it ends before the engine is closed.
		return errors.Join(err, <-ended)
	}
	select {
	case <-shop.Closed(): // the order that nobody paid
		finish()
		return <-ended
	case err := <-ended: // as ctx does, or because nothing can be done
		return err
	}
}

// story places two orders and pays the first.
func story(ctx context.Context, shop *Shop, out io.Writer) error {
	first, second := Order{ID: newID(), Item: "a teapot"}, Order{ID: newID(), Item: "a lamp"}
	for _, o := range []Order{first, second} {
		if err := shop.Place(ctx, o); err != nil {
			return err
		}
	}
	return shop.Pay(ctx, first.ID)
}

// newID returns an order's number. IDs differ between runs, so a run does not find the orders of an earlier run
// in the same queue.
func newID() string { return duly.NewNumber().String() }
