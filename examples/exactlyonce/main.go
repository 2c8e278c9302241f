// Command exactlyonce applies payments to accounts, each exactly once, although messages are
// delivered at least once.
//
//	go run ./examples/exactlyonce
//
// The program stores the position of each message in the transaction that has its effect. If a
// message comes again, its position is already stored, so it has no effect.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // any database with transactions will do

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "exactlyonce:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "exactlyonce")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	engine, err := open.Engine(ctx, "sqlite:"+filepath.Join(dir, "duly.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	b, err := openBank(ctx, filepath.Join(dir, "bank.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.db.Close()) }()

	client := duly.NewClient(engine, duly.ClientConfig{})
	for _, account := range []string{"ann", "bob", "ann"} {
		if _, err := client.Publish(ctx, duly.Message{Topic: "payments", Key: account, Body: []byte("10")}); err != nil {
			return err
		}
	}

	// The first try of each payment fails after its effect was stored, as a program
	// does that dies before it can ack.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tries := 0
	w := worker.New(engine, worker.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	w.Handle("payments@bank", func(ctx context.Context, d *worker.Delivery) error {
		if err := b.apply(ctx, d); err != nil {
			return err
		}
		if tries++; d.Attempt == 1 {
			return worker.RetryAfter(0, errors.New("died before the ack"))
		}
		// Each of the three payments has two tries.
		if tries == 6 {
			stop()
		}
		return nil
	}, worker.From("start"))
	if err := w.Run(ctx); err != nil {
		return err
	}
	// stop has canceled ctx, but the balances are still read.
	balances, err := b.balances(context.WithoutCancel(ctx))
	fmt.Fprintf(out, "%d deliveries, %s\n", tries, balances)
	return err
}

// bank is the database of the program.
type bank struct{ db *sql.DB }

func openBank(ctx context.Context, path string) (*bank, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);
		CREATE TABLE handled (position TEXT PRIMARY KEY);`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &bank{db}, nil
}

// apply has the effect of one payment, or none if it had it before.
func (b *bank) apply(ctx context.Context, d *worker.Delivery) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit

	// The position first: two deliveries at the same time then wait for each other.
	done, err := tx.ExecContext(ctx, `INSERT INTO handled (position) VALUES (?) ON CONFLICT DO NOTHING`, d.ID)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err // handled before
	}

	_, err = tx.ExecContext(ctx, `
		INSERT INTO accounts (name, balance) VALUES (?1, ?2)
		ON CONFLICT (name) DO UPDATE SET balance = balance + ?2`, d.OrderKey, string(d.Body))
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (b *bank) balances(ctx context.Context) (string, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT name || ' has ' || balance FROM accounts ORDER BY name`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", err
		}
		all = append(all, line)
	}
	return strings.Join(all, ", "), rows.Err()
}
