// Command nightly makes a report every night, by a schedule that duly stores. Each report
// covers the time since the last one, so a night without a running program loses nothing.
//
//	go run ./examples/nightly                          (a file of its own)
//	go run ./examples/nightly --url sqlite:reports.db
//	go run ./examples/nightly --url http://TOKEN@127.0.0.1:7777/default
//	go run ./examples/nightly --spec "30 2 * * *" --zone America/New_York
//
// Its nights are two seconds long, unless --spec has another expression. It ends after
// three reports.
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
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

// settings are what the arguments choose.
type settings struct {
	spec, zone string
	reports    int
}

// run makes reports on the engine that the arguments choose.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("nightly", flag.ContinueOnError)
	url := flags.String("url", "", "engine: sqlite:PATH or http://TOKEN@HOST/NAMESPACE (default: a file of its own)")
	var set settings
	flags.StringVar(&set.spec, "spec", "*/2 * * * * *", "when a report is due")
	flags.StringVar(&set.zone, "zone", "UTC", "time zone of --spec")
	flags.IntVar(&set.reports, "reports", 3, "number of reports before the program ends")
	if err := flags.Parse(args); err != nil {
		return err
	}

	if *url == "" {
		dir, err := os.MkdirTemp("", "nightly")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		*url = open.File(filepath.Join(dir, "reports.db"))
	}
	engine, err := open.Engine(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()

	return report(ctx, engine, set, out)
}

// report works until it has made the reports.
func report(ctx context.Context, engine contract.Engine, set settings, out io.Writer) error {
	shop := &Shop{}
	for _, cents := range []int{1999, 450, 12000} {
		shop.Sell(time.Now(), cents)
	}
	if err := Deploy(ctx, engine, set.spec, set.zone); err != nil {
		return err
	}

	// finish ends only the worker, as an interrupt would.
	working, finish := context.WithCancel(ctx)
	defer finish()
	// The worker handles one job at a time, so made needs no lock.
	made := 0
	reporter := &Reporter{Shop: shop, Publish: func(r Report) error {
		fmt.Fprintln(out, r)
		if made++; made == set.reports {
			finish()
		}
		return nil
	}}

	warnings := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w := worker.New(engine, worker.Config{Logger: warnings, Concurrency: 1})
	w.Handle(queue, reporter.Handle)
	return w.Run(working)
}

// Deploy puts the schedules of this version of the program. Each deployment calls it: a
// schedule that has not changed keeps its next tick. Schedules that this version no longer
// has are deleted.
func Deploy(ctx context.Context, engine duly.Engine, spec, zone string) error {
	scheduler, ok := engine.(duly.Scheduler)
	if !ok {
		return errors.New("the engine has no schedules")
	}

	schedules := []duly.Schedule{{
		Name: "sales", Spec: spec, Zone: zone, Owner: owner,
		// A night that fails is repeated every ten minutes until the morning.
		Template: duly.Job{Tries: 20, Backoff: duly.Fixed(10 * time.Minute)},
	}}
	ref := duly.QueueRef{Namespace: duly.NamespaceOf(engine), Name: queue}
	var names []string
	for _, s := range schedules {
		if _, err := scheduler.PutSchedule(ctx, ref, s); err != nil {
			return err
		}
		names = append(names, s.Name)
	}
	// Only schedules of this owner are deleted, so programs can share a queue.
	_, err := contract.PruneSchedules(ctx, scheduler, ref, owner, names)
	return err
}
