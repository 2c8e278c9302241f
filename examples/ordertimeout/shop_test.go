package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/worker"
)

// newShop returns a shop that closes unpaid orders after half an hour. Its worker is running.
func newShop(t *testing.T) (*Shop, *dulytest.Engine, *bytes.Buffer) {
	e := dulytest.New(t)
	var out bytes.Buffer
	s := NewShop(e.Client(), 30*time.Minute, &out)
	w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	s.Register(w)
	e.Start(w)
	return s, e, &out
}

// says wants the shop to have said that, and nothing else, since the last time.
func says(t *testing.T, out *bytes.Buffer, want string) {
	t.Helper()
	if out.String() != want {
		t.Errorf("the shop says\n%swant\n%s", out, want)
	}
	out.Reset()
}

func TestUnpaidOrderIsRemindedAndClosed(t *testing.T) {
	t.Parallel()
	s, e, out := newShop(t)
	if err := s.Place(t.Context(), Order{"17", "a lamp"}); err != nil {
		t.Fatal(err)
	}
	e.Advance(20*time.Minute - time.Millisecond)
	says(t, out, "placed a lamp\n")
	e.Advance(time.Millisecond)
	says(t, out, "reminded the buyer of a lamp\n")
	e.Advance(10*time.Minute - time.Millisecond)
	says(t, out, "")
	e.Advance(time.Millisecond)
	says(t, out, "closed because it was not paid: a lamp\n")
	if err := s.Pay(t.Context(), "17"); err == nil {
		t.Error("a closed order was paid")
	}
}

func TestPaidOrderIsLeftAlone(t *testing.T) {
	t.Parallel()
	s, e, out := newShop(t)
	if err := s.Place(t.Context(), Order{"17", "a lamp"}); err != nil {
		t.Fatal(err)
	}
	e.Advance(25 * time.Minute)
	if err := s.Pay(t.Context(), "17"); err != nil {
		t.Fatal(err)
	}
	e.Advance(24 * time.Hour)
	says(t, out, "placed a lamp\nreminded the buyer of a lamp\npaid\n")
	e.None(timeouts)
	e.None(reminders)
}

func TestPlacingTwicePushesOnce(t *testing.T) {
	t.Parallel()
	s, e, _ := newShop(t)
	for range 2 {
		if err := s.Place(t.Context(), Order{"17", "a lamp"}); err != nil {
			t.Fatal(err)
		}
	}
	e.Only(timeouts)
	e.Only(reminders)
}

func TestProgramOnAFile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	url := open.File(filepath.Join(t.TempDir(), "orders.db"))
	if err := run(t.Context(), []string{"--url", url, "--timeout", "300ms"}, &out); err != nil {
		t.Fatal(err)
	}
	// On a machine that stops meanwhile, the order is closed before its reminder.
	said := strings.Replace(out.String(), "reminded the buyer of a lamp\n", "", 1)
	if want := "placed a teapot\nplaced a lamp\npaid\nclosed because it was not paid: a lamp\n"; said != want {
		t.Errorf("the program says\n%s\nwant\n%s", out.String(), want)
	}
}

// forbidden is an engine whose worker may not work.
type forbidden struct{ contract.Engine }

func (forbidden) Reserve(context.Context, duly.ReserveParams) ([]duly.Delivery, error) {
	return nil, duly.ErrForbidden
}

// A worker that can't work ends the program; it does not wait for what never
// comes.
func TestAWorkerThatEndsEndsTheProgram(t *testing.T) {
	t.Parallel()
	e, err := open.Engine(t.Context(), open.File(filepath.Join(t.TempDir(), "jobs.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = trade(ctx, forbidden{e}, time.Hour, io.Discard)
	if !errors.Is(err, duly.ErrForbidden) || ctx.Err() != nil {
		t.Errorf("it ended with %v, %v", err, ctx.Err())
	}
}
